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
	Useless time.Duration // the price of finding nothing, beside the cost: about five visits of the type, in the mean
	Listing time.Duration // how often its lister lists it, and tells of updates; 0: it doesn't tell
	Updated time.Duration // from the last visit to the last update that the lister tells of; 0 or less: none since
}

const (
	// vouched is the part of the time for which a lister can be relied on that there was no update.
	vouched = 0.97
	// leastCost bounds the cost from below: what else a visit takes, of the queue and the hoster.
	leastCost = time.Second
)

// stale reports whether the lister told of an update since the last visit.
func (o Origin) stale() bool { return o.Listing > 0 && o.Updated > 0 }

// unseen returns for how many days before t, days since the last visit, a change may have come that
// the lister has not told of: the part since its last listing, and of what was before it a little.
func (o Origin) unseen(t float64) float64 {
	if o.Listing <= 0 {
		return t
	}
	return t - vouched*max(0, t-days(o.Listing))
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
	return o.Estimate.Chance(duration(o.unseen(days(since)), since))
}

// Staleness returns the expected staleness so long after the last visit.
func (o Origin) Staleness(since time.Duration) time.Duration {
	t := days(max(0, since))
	if o.stale() {
		return duration(max(0, t-o.fresh()), max(0, since))
	}
	return duration(o.bounded().visit(o.unseen(t)).age, max(0, since))
}

// Value returns what a visit so long after the last one is worth: the staleness that it saves,
// in days times days, for each day of a worker that it costs. It grows with the time, without bound.
func (o Origin) Value(since time.Duration) float64 {
	t, cost := days(max(0, since)), days(max(o.Cost, leastCost))
	if o.stale() {
		age := max(0, t-o.fresh())
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
		return duration(o.fresh()+math.Sqrt(each*each+2*want)-each, longest)
	}
	// Newton's method in logarithms, as what is saved grows with about the second or third power of the
	// time; halves where that leads astray. A step of Newton's leaves about the square of its part of the
	// time as the error.
	const newton, halving = 1e-4, 1e-6
	o.Estimate = o.bounded()
	price := max(0, threshold) * days(o.Useless)
	seen := o.Rate()
	if o.Listing > 0 {
		seen *= 1 - vouched
	}
	low, high, tried := 0.0, days(longest), false // whether the value was looked at for high
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

// Thresholds returns those between which a moment, so long after the last visit, is right within a
// tenth, and not past the longest wait. Visits that are off by so much cost a hundredth more at most,
// so that the moment can be left as it is.
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

// visit is what a visit does, and how that grows from day to day.
type visit struct {
	age                  float64 // expected
	saved, savedGrowth   float64 // the integral of the age's growth times the time
	wasted, wastedGrowth float64 // how likely it is to find nothing, and how much likelier later ones are to
}

// visit returns what a visit t days after the last one does, unless the origin is known to be stale.
func (o Origin) visit(t float64) visit {
	u := o.unseen(t)
	v := o.bounded().visit(u)
	if fresh := t - u; fresh > 0 { // what comes after it comes so much later
		v.saved += fresh * v.age
		v.savedGrowth = (1-vouched)*t/u*v.savedGrowth + vouched*v.age
		v.wastedGrowth *= 1 - vouched
	}
	return v
}

// visit returns what a visit does t days after the last one.
func (e Estimate) visit(t float64) visit {
	a, x := e.Changes, t/e.Days
	log := math.Log1p(x)
	some := -math.Expm1(-a * log)
	none := 1 - some
	v := visit{
		savedGrowth: t * some,
		wasted:      none * (1 + a*x/(1+x)), wastedGrowth: -none * a * (a + 1) * x / ((1 + x) * (1 + x)) / e.Days,
	}
	if (a+1)*x < 1e-2 { // where the other forms cancel out
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
