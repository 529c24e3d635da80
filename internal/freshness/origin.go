package freshness

import (
	"math"
	"time"
)

// An Origin has the inputs of the formulas for the next visit. Callers pass times since the last successful visit.
type Origin struct {
	Estimate
	Cost    time.Duration // the expected runtime of a visit
	Useless time.Duration // the price of a visit that finds nothing, beside the cost: about five mean visits of the type
	Listing time.Duration // the time between listings that report updates; 0: its lister reports none
	Updated time.Duration // from the last visit to the last reported update, if that may be later; 0 or less: no update since
}

const (
	// reportedShare is the part of the time without reported updates in which there was really no update.
	reportedShare = 0.97
	// leastCost is the least cost of a visit: its load on the queue and the hoster.
	leastCost = time.Second
)

// stale reports whether the lister reported an update at or after the last visit.
func (o Origin) stale() bool { return o.Listing > 0 && o.Updated > 0 }

// unreportedDays returns in how many of the t days since the last visit an unreported change may have come: all days since
// the last listing, and a small part of those before.
func (o Origin) unreportedDays(t float64) float64 {
	if o.Listing <= 0 {
		return t
	}
	return t - reportedShare*max(0, t-days(o.Listing))
}

// freshDays returns how many days after the last visit the origin is expected to have stayed fresh, given the time of the
// last reported update. Other updates may have come before that one.
func (o Origin) freshDays() float64 {
	rate := o.Rate()
	return -math.Expm1(-rate*days(o.Updated)) / rate
}

// Chance returns the probability that a visit finds a change. since is the time since the last visit.
func (o Origin) Chance(since time.Duration) float64 {
	if o.stale() && since >= o.Updated {
		return 1
	}
	return o.Estimate.Chance(duration(o.unreportedDays(days(since)), since))
}

// Staleness returns the expected staleness. since is the time since the last visit.
func (o Origin) Staleness(since time.Duration) time.Duration {
	t := days(max(0, since))
	if o.stale() {
		return duration(max(0, t-o.freshDays()), max(0, since))
	}
	return duration(o.bounded().visit(o.unreportedDays(t)).age, max(0, since))
}

// Value returns the value of a visit: the staleness that it saves, in days × days, per day of a worker that it costs.
// since is the time since the last visit. The value grows with it without bound.
func (o Origin) Value(since time.Duration) float64 {
	t, cost := days(max(0, since)), days(max(o.Cost, leastCost))
	if o.stale() {
		age := max(0, t-o.freshDays())
		return (age*age/2 + age/o.Rate()) / cost
	}
	v := o.visit(t)
	return v.saved / (cost + days(o.Useless)*v.wasted)
}

// Moment returns how long after the last visit the value reaches the threshold, at most longest.
func (o Origin) Moment(threshold float64, longest time.Duration) time.Duration {
	want := max(0, threshold) * days(max(o.Cost, leastCost))
	if o.stale() {
		each := 1 / o.Rate()
		return duration(o.freshDays()+math.Sqrt(each*each+2*want)-each, longest)
	}
	// Newton's method on logarithms, as the saved staleness grows with about the second or third power of the time.
	// Bisection replaces it where it diverges. The relative error after a step of Newton's method is about the square
	// of the relative step.
	const newton, halving = 1e-4, 1e-6
	o.Estimate = o.bounded()
	price := max(0, threshold) * days(o.Useless)
	seen := o.Rate()
	if o.Listing > 0 {
		seen *= 1 - reportedShare
	}
	low, high, tried := 0.0, days(longest), false // tried: the value at high was computed
	for t := min(high, max(math.Cbrt(3*(want+price)/seen), math.Sqrt(2*want))); ; {
		v := o.visit(t)
		asked := want + price*v.wasted
		switch {
		case asked <= v.saved:
			high, tried = t, true
		case t == high && !tried:
			return longest
		default:
			low = t
		}
		power := t * (v.savedGrowth/v.saved - price*v.wastedGrowth/asked)
		next, enough := t*math.Exp(math.Log(asked/v.saved)/power), newton
		switch {
		case next >= high && !tried:
			t = high
			continue
		case !(next > low && next < high):
			next, enough = (low+high)/2, halving
		}
		if math.Abs(next-t) <= enough*t || high < 1e-9 {
			return duration(next, longest)
		}
		t = next
	}
}

// Thresholds returns the range of thresholds for which a moment, as a time since the last visit, is right to within a
// tenth. The range is empty for a moment past the longest wait. Visits that are off by a tenth cost at most a
// hundredth more, so a moment within the range need not be computed again.
func (o Origin) Thresholds(moment, longest time.Duration) (low, high float64) {
	const part = 1.1
	if moment > longest {
		return math.Inf(1), math.Inf(1)
	}
	if late := time.Duration(float64(moment) * part); late < longest {
		return o.Value(time.Duration(float64(moment) / part)), o.Value(late)
	}
	return o.Value(time.Duration(float64(moment) / part)), math.Inf(1)
}

// visit is the effect of a visit and the growth of the effect per day.
type visit struct {
	age                  float64 // the expected age
	saved, savedGrowth   float64 // the integral over time of the age's growth times the time, and its derivative
	wasted, wastedGrowth float64 // the probability of finding nothing, plus t times its decrease per day; and the derivative
}

// visit returns the effect of a visit t days after the last one, unless the origin is known to be stale.
func (o Origin) visit(t float64) visit {
	u := o.unreportedDays(t)
	v := o.bounded().visit(u)
	if fresh := t - u; fresh > 0 { // all changes come later by fresh
		v.saved += fresh * v.age
		v.savedGrowth = (1-reportedShare)*t/u*v.savedGrowth + reportedShare*v.age
		v.wastedGrowth *= 1 - reportedShare
	}
	return v
}

// visit returns the effect of a visit t days after the last one.
func (e Estimate) visit(t float64) visit {
	a, x := e.Changes, t/e.Days
	log := math.Log1p(x)
	some := -math.Expm1(-a * log)
	none := 1 - some
	v := visit{
		savedGrowth: t * some,
		wasted:      none * (1 + a*x/(1+x)), wastedGrowth: -none * a * (a + 1) * x / ((1 + x) * (1 + x)) / e.Days,
	}
	if (a+1)*x < 1e-2 { // a series, as cancellation costs the other formulas their precision
		v.age = e.Days * a * x * x / 2 * (1 - (a+1)*x/3 + (a+1)*(a+2)*x*x/12)
		v.saved = e.Days * e.Days * a * x * x * x / 3 * (1 - (a+1)*x*3/8 + (a+1)*(a+2)*x*x/10)
		return v
	}
	grown := power(1-a, log)
	v.age = t - e.Days*grown
	v.saved = e.Days * e.Days * (x*x/2 - power(2-a, log) + grown)
	return v
}

// power returns (exp(p·log) − 1) / p.
func power(p, log float64) float64 {
	if math.Abs(p*log) < 1e-8 {
		return log
	}
	return math.Expm1(p*log) / p
}
