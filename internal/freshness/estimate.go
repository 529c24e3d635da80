package freshness

import (
	"math"
	"time"
)

// An Estimate estimates an origin's rate of change, as a gamma distribution of the changes per day. Both figures fit
// in a 4-byte real. The zero Estimate has observed nothing; a prior replaces it.
type Estimate struct {
	Changes float64 // the distribution's shape: an equivalent number of observed changes
	Days    float64 // its inverse scale: the days in which they were observed
}

// Bounds of estimates. Above maxChanges an estimate would gain little certainty, but follow a change of the rate more
// slowly.
const (
	minChanges, maxChanges = 0.25, 50
	minDays, maxDays       = 1e-3, 36525
	maxRate                = 20 // visits are at least half a day apart, so that faster rates look the same
)

// memory is the half-life of an estimate: the time in which half of all rates are assumed to change.
const memory = 2 * 365 * day

// Outcome is the result of a visit or a listing: whether the origin changed in the gap before it.
type Outcome int

const (
	Unchanged Outcome = iota // no change in the gap
	Changed                  // one or more changes in the gap, at unknown times
	ChangedAt                // one change at the end of the gap, none before
)

// known reports whether the estimate is set and finite.
func (e Estimate) known() bool {
	return e.Changes > 0 && e.Days > 0 && !math.IsInf(e.Changes, 0) && !math.IsInf(e.Days, 0)
}

// bounded returns the estimate within the bounds, with the same rate if possible.
func (e Estimate) bounded() Estimate {
	if !e.known() {
		return General
	}
	changes := min(max(e.Changes, minChanges), maxChanges)
	days := max(e.Days*(changes/e.Changes), minDays)
	if days > maxDays {
		changes, days = max(changes*(maxDays/days), minChanges), maxDays
	}
	return Estimate{changes, days}
}

// Or returns the estimate, or the prior if nothing was observed yet.
func (e Estimate) Or(prior Estimate) Estimate {
	if !e.known() {
		return prior.bounded()
	}
	return e.bounded()
}

// Rate returns the expected changes per day.
func (e Estimate) Rate() float64 {
	e = e.bounded()
	return e.Changes / e.Days
}

// Certainty returns the certainty of the rate, from 0 to 1. It is 0.5 if the rate's standard deviation equals the
// rate, as after one change.
func (e Estimate) Certainty() float64 {
	if !e.known() {
		return 0
	}
	return e.Changes / (1 + e.Changes)
}

// Chance returns the probability that a change came within gap.
func (e Estimate) Chance(gap time.Duration) float64 {
	e = e.bounded()
	return -math.Expm1(-e.Changes * math.Log1p(days(max(0, gap))/e.Days))
}

// WithReports returns the estimate after the first listing that reports a new update. The last update was quiet ago,
// the previous observation ended known ago, and listing is the time between listings. More updates may have come
// since the previous listing. Hence only two gaps are observed: the one after the last update, and the one until the
// previous listing. recall is the part of the changes that are reported.
func (e Estimate) WithReports(prior Estimate, known, quiet, listing time.Duration, recall float64) Estimate {
	gap := max(0, known-max(listing, quiet)) + max(quiet, time.Second)
	return e.Observe(prior, time.Duration(recall*float64(gap)), ChangedAt)
}

// WithoutReport returns the estimate after a visit has shown that a reported update was none.
func (e Estimate) WithoutReport() Estimate {
	return Estimate{max(e.Changes-1, minChanges), e.Days}.bounded()
}

// Observe returns the estimate after the outcome of a gap. For a visit, the gap is the time since the last successful
// visit. Callers don't observe failed visits, nor visits caused by a reported update (see WithReports). A gap of zero
// or less changes nothing: visits out of order and jumping clocks cause those.
//
// The model allows for a new rate, drawn from the prior, during the gap. The longer the gap, and the less the outcome
// fits the estimate, the more of the estimate is forgotten.
func (e Estimate) Observe(prior Estimate, gap time.Duration, outcome Outcome) Estimate {
	prior = prior.bounded()
	e = e.Or(prior)
	if gap <= 0 {
		return e
	}
	t := days(gap)
	same, likely := e.given(t, outcome)
	other, otherLikely := prior.given(t, outcome)
	renewed := -math.Expm1(-math.Ln2 * float64(gap) / float64(memory))
	weight := 1.0
	if total := renewed*otherLikely + (1-renewed)*likely; total > 0 {
		weight = renewed * otherLikely / total
	}
	return mix(same, other, weight).bounded()
}

// given returns the estimate after an outcome of t days, and the likelihood of the outcome. For ChangedAt, the
// likelihood is a density.
func (e Estimate) given(t float64, outcome Outcome) (Estimate, float64) {
	unchanged := math.Exp(-e.Changes * math.Log1p(t/e.Days))
	switch outcome {
	case Unchanged:
		return Estimate{e.Changes, e.Days + t}, unchanged
	case ChangedAt:
		return Estimate{e.Changes + 1, e.Days + t}, unchanged * e.Changes / (e.Days + t)
	}
	return e.changed(t)
}

// changed returns the estimate after one or more changes in t days, and their probability. Rates are spread evenly over many
// powers of ten, so that the origin may change far more often than the visits so far could show. A gamma distribution has next to
// no weight there. Hence changed weighs the outcome by the lognormal distribution with the estimate's mean and mean logarithm,
// and returns the gamma distribution with the mean and mean logarithm of the result.
func (e Estimate) changed(t float64) (Estimate, float64) {
	log, variance := e.LogRate()
	var sum, rates, logs float64
	for i, x := range normalNodes {
		l := log + math.Sqrt(variance)*x
		rate := min(math.Exp(l), maxRate)
		weight := normalWeights[i] * -math.Expm1(-rate*t)
		sum, rates, logs = sum+weight, rates+weight*rate, logs+weight*l
	}
	if !(sum > 0) {
		return e, 0
	}
	return ofMeans(rates/sum, logs/sum), sum
}

// Nodes and weights of sums that replace integrals over the standard normal distribution.
var normalNodes, normalWeights = func() (nodes, weights [25]float64) {
	sum := 0.0
	for i := range nodes {
		nodes[i] = (float64(i)/12 - 1) * 4.5
		weights[i] = math.Exp(-nodes[i] * nodes[i] / 2)
		sum += weights[i]
	}
	for i := range weights {
		weights[i] /= sum
	}
	return nodes, weights
}()

// LogRate returns the mean and the variance of the natural logarithm of a rate, by the lognormal distribution with the estimate's
// mean and mean logarithm.
func (e Estimate) LogRate() (mean, variance float64) {
	psi, _ := polygamma(e.Changes)
	return psi - math.Log(e.Days), 2 * (math.Log(e.Changes) - psi)
}

// mix returns the gamma distribution with the mean and the mean logarithm of a mixture of a and b. weight is b's.
func mix(a, b Estimate, weight float64) Estimate {
	if weight < 1e-9 {
		return a
	}
	logA, _ := a.LogRate()
	logB, _ := b.LogRate()
	return ofMeans((1-weight)*a.Changes/a.Days+weight*b.Changes/b.Days, (1-weight)*logA+weight*logB)
}

// ofMeans returns the gamma distribution with a mean and a mean logarithm. Of all gamma distributions, it has the
// least relative entropy to any distribution with these means.
func ofMeans(mean, log float64) Estimate {
	// lacks = ln(mean) − mean logarithm = ln(shape) − ψ(shape), which falls with the shape.
	mean = min(mean, maxRate)
	lacks := max(math.Log(mean)-log, 1/(2.0*maxChanges))
	shape := (3 - lacks + math.Sqrt((lacks-3)*(lacks-3)+24*lacks)) / (12 * lacks)
	for range 3 {
		psi, psi1 := polygamma(shape)
		next := shape - (math.Log(shape)-psi-lacks)/(1/shape-psi1)
		if shape /= 2; next > shape {
			shape = next
		}
	}
	return Estimate{shape, shape / mean}
}
