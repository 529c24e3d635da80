package freshness

import (
	"math"
	"time"
)

// An Estimate is what is known of an origin's rate of change: a gamma distribution of changes a
// day. Both figures fit in a 4-byte real. The zero Estimate means that nothing is known yet; a
// Prior takes its place.
type Estimate struct {
	Changes float64 // the distribution's shape: how many changes are as good as seen
	Days    float64 // its inverse scale: in how many days
}

// Bounds of estimates. With more changes than maxChanges an estimate would be no more certain,
// and would only be slower to learn that the rate has changed.
const (
	minChanges, maxChanges = 0.02, 50
	minDays, maxDays       = 1e-4, 36525
)

// memory is the half-life of the belief that a rate is still what it was.
const memory = 2 * 365 * day

// Outcome is what a visit or a listing tells of an origin's changes.
type Outcome int

const (
	Unchanged Outcome = iota // none came in the gap
	Changed                  // one or more came in the gap, it isn't known when
	ChangedAt                // one came at the end of the gap, none before
)

// known reports whether there is an estimate, and one that can be computed with.
func (e Estimate) known() bool {
	return e.Changes > 0 && e.Days > 0 && !math.IsInf(e.Changes, 0) && !math.IsInf(e.Days, 0)
}

// bounded returns the estimate within the bounds, with the same rate if that is possible.
func (e Estimate) bounded() Estimate {
	if !e.known() {
		return Estimate{minChanges, 1}
	}
	changes := min(max(e.Changes, minChanges), maxChanges)
	return Estimate{changes, min(max(e.Days*(changes/e.Changes), minDays), maxDays)}
}

// Or returns the estimate, or the prior if nothing is known yet.
func (e Estimate) Or(prior Estimate) Estimate {
	if !e.known() {
		return prior.bounded()
	}
	return e.bounded()
}

// Rate returns the expected changes a day.
func (e Estimate) Rate() float64 {
	e = e.bounded()
	return e.Changes / e.Days
}

// Certainty returns how certain the rate is, from 0 to 1: 0.5 if the rate's standard deviation is
// as large as the rate itself, as after one change.
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

// Observe returns the estimate after an outcome of a gap: for a visit, the time since the visit
// before it that told something. A visit that failed tells nothing and isn't observed. Of an
// origin whose lister tells of updates, the gap is that between two of them (ChangedAt); visits
// that the lister caused aren't observed. A gap of zero or less, as out of order histories and
// clocks that jump give, changes nothing.
//
// The rate may have become another one during the gap, drawn from the prior: the longer the gap,
// and the less the outcome fits the estimate, the more of the estimate is forgotten.
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

// given returns the estimate after an outcome of t days, and how likely that was (for ChangedAt:
// its density).
func (e Estimate) given(t float64, outcome Outcome) (Estimate, float64) {
	unchanged := math.Exp(-e.Changes * math.Log1p(t/e.Days))
	switch outcome {
	case Unchanged:
		return Estimate{e.Changes, e.Days + t}, unchanged
	case ChangedAt:
		return Estimate{e.Changes + 1, e.Days + t}, unchanged * e.Changes / (e.Days + t)
	}
	// The distribution is the difference of those before and after an unchanged gap. A gamma
	// distribution with its mean and variance takes its place.
	log := -math.Log1p(t / e.Days)
	none := -math.Expm1(e.Changes * log)
	mean := e.Changes / e.Days * math.Expm1((e.Changes+1)*log) / math.Expm1(e.Changes*log)
	square := e.Changes * (e.Changes + 1) / (e.Days * e.Days) * math.Expm1((e.Changes+2)*log) / math.Expm1(e.Changes*log)
	return ofMoments(mean, square), none
}

// mix returns the gamma distribution with the mean and variance of a mixture of two, with
// that weight of the second one.
func mix(a, b Estimate, weight float64) Estimate {
	mean := func(e Estimate) float64 { return e.Changes / e.Days }
	square := func(e Estimate) float64 { return e.Changes * (e.Changes + 1) / (e.Days * e.Days) }
	return ofMoments((1-weight)*mean(a)+weight*mean(b), (1-weight)*square(a)+weight*square(b))
}

// ofMoments returns the gamma distribution with the mean and the mean square.
func ofMoments(mean, square float64) Estimate {
	variance := max(square-mean*mean, mean*mean/(2*maxChanges))
	return Estimate{mean * mean / variance, mean / variance}
}
