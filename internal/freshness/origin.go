package freshness

import (
	"math"
	"time"
)

// An Origin is what decides when an origin is visited again after its last visit that told
// something. Times since then are those of the caller.
type Origin struct {
	Estimate
	Cost    time.Duration // that a visit is expected to take of a worker
	Told    bool          // its lister tells of updates
	Updated time.Duration // from the last visit to the last update that the lister tells of; 0 or less: none since
}

const (
	// untold is the part of changes that a lister that tells of updates leaves out.
	untold = 0.03
	// leastCost bounds the cost from below: what else a visit takes, of the queue and the hoster.
	leastCost = time.Second
)

// stale reports whether the lister told of an update since the last visit.
func (o Origin) stale() bool { return o.Told && o.Updated > 0 }

// unseen is the estimate of changes that only a visit shows.
func (o Origin) unseen() Estimate {
	e := o.Estimate.bounded()
	if o.Told {
		e.Days /= untold
	}
	return e
}

// fresh returns for how many days the origin is expected to have been fresh since the last visit
// if the last update that the lister tells of came after so many days. There may have been others
// before it.
func (o Origin) fresh() float64 {
	rate := o.Rate()
	return -math.Expm1(-rate*days(o.Updated)) / rate
}

// Chance returns the probability that a visit so long after the last one finds a change.
func (o Origin) Chance(since time.Duration) float64 {
	if o.stale() && since >= o.Updated {
		return 1
	}
	return o.unseen().Chance(since)
}

// Staleness returns the expected staleness so long after the last visit.
func (o Origin) Staleness(since time.Duration) time.Duration {
	t := days(max(0, since))
	if o.stale() {
		return duration(max(0, t-o.fresh()), max(0, since))
	}
	// The integral of the chance.
	e := o.unseen()
	return duration(t-e.Days*power(1-e.Changes, math.Log1p(t/e.Days)), max(0, since))
}

// Value returns what a visit so long after the last one is worth: the staleness that it saves,
// in days times days, for each day of a worker that it costs. It grows with the time, without
// bound, and with the rate.
func (o Origin) Value(since time.Duration) float64 {
	return o.saved(days(max(0, since))) / days(max(o.Cost, leastCost))
}

// saved is the value times the cost, t days after the last visit.
func (o Origin) saved(t float64) float64 {
	if o.stale() {
		age := max(0, t-o.fresh())
		return age*age/2 + age/o.Rate()
	}
	return saved(o.unseen(), t)
}

// saved returns the integral from 0 to t of s times the chance of a change within s.
func saved(e Estimate, t float64) float64 {
	a, x := e.Changes, t/e.Days
	if (a+1)*x < 1e-2 { // where the other form cancels out
		return e.Days * e.Days * a * x * x * x / 3 * (1 - (a+1)*x*3/8 + (a+1)*(a+2)*x*x/10)
	}
	log := math.Log1p(x)
	return e.Days * e.Days * (x*x/2 - power(2-a, log) + power(1-a, log))
}

// power returns (exp(p·log) − 1) / p.
func power(p, log float64) float64 {
	if math.Abs(p*log) < 1e-8 {
		return log
	}
	return math.Expm1(p*log) / p
}

// Moment returns how long after the last visit the value reaches the threshold, at most longest.
func (o Origin) Moment(threshold float64, longest time.Duration) time.Duration {
	want := threshold * days(max(o.Cost, leastCost))
	if !(want > 0) {
		return 0
	}
	if o.stale() {
		each := 1 / o.Rate()
		return duration(o.fresh()+math.Sqrt(each*each+2*want)-each, longest)
	}
	e, high := o.unseen(), days(longest)
	if saved(e, high) <= want {
		return longest
	}
	// saved is convex, so that Newton's method comes down from above.
	for range 100 {
		lower := high - (saved(e, high)-want)/(high*-math.Expm1(-e.Changes*math.Log1p(high/e.Days)))
		if !(lower < high*(1-1e-9)) {
			break
		}
		high = lower
	}
	return duration(high, longest)
}
