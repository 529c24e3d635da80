package freshness

import "math"

// The formulas for origins of which a source reports updates: its news. The recall r is the fraction of the changes
// that are reported, the precision q the fraction of the news that is right. For an origin with the rate λ, news comes at
// the rate λ·r/q, and changes without news at the rate λ·(1−r). Both are Poisson processes, and independent of each
// other. Changes since the last listing can't have been reported yet.

// quality returns the recall and the precision of the news.
func (o Origin) quality() (recall, precision float64) { return o.News.Recall(), o.News.Precision() }

// silent returns the expected age of an origin t days after the last visit if there was no news since, and the probability
// that it hasn't changed. Silence is evidence of a lower rate. It never lowers the age below that before the last listing.
func (o Origin) silent(t float64) (age, fresh float64) {
	r := o.News.Recall()
	e, late := o.bounded(), min(t, days(o.Listing))
	age, fresh = e.age(late), e.none(late)
	if covered := t - late; covered > 0 {
		e.Days += r * covered
		before, all := (1-r)*covered, t-r*covered // time in which changes would be unreported
		age = max(age, e.age(all)+e.age(before)*r/(1-r))
		fresh = min(fresh, e.none(all))
	}
	return age, fresh
}

// none returns the probability of no change in t days.
func (e Estimate) none(t float64) float64 { return math.Exp(-e.Changes * math.Log1p(t/e.Days)) }

// age returns the expected age t days after the last visit, without any information since.
func (e Estimate) age(t float64) float64 {
	x := t / e.Days
	if (e.Changes+1)*x < 1e-2 { // a series, as cancellation costs the formula its precision
		return e.Days * e.Changes * x * x / 2 * (1 - (e.Changes+1)*x/3 + (e.Changes+1)*(e.Changes+2)*x*x/12)
	}
	return t - e.Days*power(1-e.Changes, math.Log1p(x))
}

// silentDays returns after how many days without news the expected age is age.
func (o Origin) silentDays(age float64) float64 {
	return rise(maxDays, age+1/o.Rate(), func(t float64) float64 {
		a, _ := o.silent(t)
		return math.Log(a / age)
	})
}

// ageAtNews returns the expected age of the origin at the date of its first news since the last visit, t days after the visit.
// It is an approximation that needs no logarithm: the database's function moment_of computes the same.
func (o Origin) ageAtNews(t float64) float64 {
	r, _ := o.quality()
	e, late := o.bounded(), min(t, 1)
	expected := e.Changes / (e.Days + r*(t-late)) * ((1-r)*(t*t-late*late) + late*late)
	return t * expected / (2*t + expected)
}

// saved returns the staleness, in days × days, that visits save at the age which is expected after t days without news, if
// all visits are at that age. It is the integral of the expected time until an age, from zero to that age:
//
//	∫ S·(A−a) + N·(A−a)²/2q du from 0 to t, where a = silent(u), A = silent(t),
//
// S is the probability of no news until u, and N is the density of the first news.
func (o Origin) saved(t float64) float64 {
	r, q := o.quality()
	e := o.bounded()
	age, _ := o.silent(t)
	scale, from, sum := min(t, e.Days/max(e.Changes, 1)), 0.0, 0.0
	for _, until := range [...]float64{min(t, days(o.Listing)), t} { // silent has a kink at Listing
		if until <= from {
			continue
		}
		low, high := math.Log1p(from/scale), math.Log1p(until/scale)
		for i, x := range gaussNodes {
			u := scale * math.Expm1(low+(high-low)*x)
			a, _ := o.silent(u)
			none := e.none(r / q * u)
			news := e.Changes * r / q / (e.Days + r/q*u) * none
			lacks := max(0, age-a)
			sum += gaussWeights[i] * (high - low) * (u + scale) * (none*lacks + news*lacks*lacks/2/q)
		}
		from = until
	}
	return sum
}

// Nodes and weights of Gauss and Legendre's quadrature on [0, 1].
var gaussNodes, gaussWeights = func() (nodes, weights [8]float64) {
	for i, x := range [...]float64{0.1834346424956498, 0.5255324099163290, 0.7966664774136267, 0.9602898564975363} {
		w := [...]float64{0.3626837833783620, 0.3137066458778873, 0.2223810344533745, 0.1012285362903763}[i]
		nodes[2*i], nodes[2*i+1], weights[2*i], weights[2*i+1] = (1-x)/2, (1+x)/2, w/2, w/2
	}
	return nodes, weights
}()

// rise returns where f, which grows with t, becomes zero; at most most. f is a logarithm, and about a power of t.
func rise(most, t float64, f func(t float64) float64) float64 {
	low, high := 0.0, math.Inf(1)
	last, lastF := 0.0, 0.0
	power := 2.5
	for range 60 {
		t = min(t, most)
		v := f(t)
		if v < 0 && t >= most {
			return most
		}
		if v < 0 {
			low = t
		} else {
			high = t
		}
		if last > 0 && last != t {
			if p := (v - lastF) / math.Log(t/last); p > 0.1 {
				power = min(p, 10)
			}
		}
		last, lastF = t, v
		next := t * math.Exp(min(max(-v/power, -5), 5))
		if !(next > low && next < high) {
			if next = math.Sqrt(max(low, t*1e-3) * min(high, most)); low > 0 && high/low < 1+1e-6 {
				return next
			}
		}
		if math.Abs(next-t) <= 1e-5*t || next < 1e-9 {
			return next
		}
		t = next
	}
	return t
}
