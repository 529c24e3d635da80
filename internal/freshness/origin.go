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
	Updated time.Duration // from the last visit to the first update reported since, if that may be later; 0 or less: no update since
	News    Quality       // of the reports
}

// leastCost is the least cost of a visit: its load on the queue and the hoster.
const leastCost = time.Second

// stale reports whether the lister reported an update at or after the last visit.
func (o Origin) stale() bool { return o.Listing > 0 && o.Updated > 0 }

// age returns the expected age t days after the last visit, and the probability that the origin hasn't changed.
func (o Origin) age(t float64) (age, fresh float64) {
	switch news := days(o.Updated); {
	case o.Listing <= 0:
		e := o.bounded()
		return e.age(t), e.none(t)
	case !o.stale() || t < news:
		return o.silent(t)
	default:
		_, q := o.quality()
		_, fresh := o.silent(news)
		return min(t, o.ageAtNews(news)+q*(t-news)), (1 - q) * fresh
	}
}

// Chance returns the probability that a visit finds a change. since is the time since the last visit.
func (o Origin) Chance(since time.Duration) float64 {
	_, fresh := o.age(days(max(0, since)))
	return 1 - fresh
}

// Staleness returns the expected staleness. since is the time since the last visit.
func (o Origin) Staleness(since time.Duration) time.Duration {
	age, _ := o.age(days(max(0, since)))
	return duration(age, max(0, since))
}

// Value returns the value of a visit: the staleness that it saves, in days × days, per day of a worker that it costs.
// since is the time since the last visit. The value grows with it without bound.
func (o Origin) Value(since time.Duration) float64 {
	t, cost := days(max(0, since)), days(max(o.Cost, leastCost))
	switch {
	case t == 0:
		return 0
	case o.stale() && t > days(o.Updated):
		age, _ := o.age(t)
		return o.saved(o.silentDays(age)) / o.newsCost()
	case o.Listing > 0:
		return o.saved(t) / (cost + days(o.Useless)*o.silentWaste(t))
	}
	v := o.bounded().visit(t)
	return v.saved / (cost + days(o.Useless)*v.wasted)
}

// newsCost returns the cost of a visit after news, with the price of finding nothing, in days.
func (o Origin) newsCost() float64 {
	_, q := o.quality()
	return days(max(o.Cost, leastCost)) + days(o.Useless)*(1-q)
}

// silentWaste returns the probability that a visit t days after the last one finds nothing, without news since, plus t times its
// decrease per day.
func (o Origin) silentWaste(t float64) float64 {
	r, _ := o.quality()
	_, fresh := o.silent(t)
	covered := max(0, t-days(o.Listing))
	hidden := 1.0
	if covered > 0 {
		hidden = 1 - r
	}
	e := o.bounded()
	return fresh * (1 + t*hidden*e.Changes/(e.Days+t))
}

// NewsAge returns the expected age, in days, at which a visit after news is worth the threshold.
func (o Origin) NewsAge(threshold float64) float64 {
	want := max(0, threshold) * o.newsCost()
	if want == 0 {
		return 0
	}
	t := rise(maxDays, math.Cbrt(3*want/o.Rate())+math.Sqrt(2*want), func(t float64) float64 { return math.Log(o.saved(t) / want) })
	age, _ := o.silent(t)
	return age
}

// afterNews returns how long after the last visit the expected age is age, in days, with news since; at most longest.
func (o Origin) afterNews(age float64, longest time.Duration) time.Duration {
	_, q := o.quality()
	news := days(o.Updated)
	return duration(news+max(0, age-o.ageAtNews(news))/q, longest)
}

// Moment returns how long after the last visit the value reaches the threshold, at most longest.
func (o Origin) Moment(threshold float64, longest time.Duration) time.Duration {
	want := max(0, threshold) * days(max(o.Cost, leastCost))
	if o.stale() {
		return o.afterNews(o.NewsAge(threshold), longest)
	}
	price := max(0, threshold) * days(o.Useless)
	if o.Listing > 0 {
		if want+price == 0 {
			return 0
		}
		return duration(rise(2*days(longest), math.Cbrt(3*(want+price)/o.Rate()), func(t float64) float64 {
			return math.Log(o.saved(t) / (want + price*o.silentWaste(t)))
		}), longest)
	}
	// Newton's method on logarithms, as the saved staleness grows with about the second or third power of the time.
	// Bisection replaces it where it diverges. The relative error after a step of Newton's method is about the square
	// of the relative step.
	const newton, halving = 1e-4, 1e-6
	e := o.bounded()
	seen := e.Rate()
	low, high, tried := 0.0, days(longest), false // tried: the value at high was computed
	for t := min(high, max(math.Cbrt(3*(want+price)/seen), math.Sqrt(2*want))); ; {
		v := e.visit(t)
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

// Thresholds returns, for an origin without news, the range of thresholds for which a moment, as a time since the last visit, is right to within a
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
	saved, savedGrowth   float64 // the integral over time of the age's growth times the time, and its derivative
	wasted, wastedGrowth float64 // the probability of finding nothing, plus t times its decrease per day; and the derivative
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
		v.saved = e.Days * e.Days * a * x * x * x / 3 * (1 - (a+1)*x*3/8 + (a+1)*(a+2)*x*x/10)
		return v
	}
	grown := power(1-a, log)
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
