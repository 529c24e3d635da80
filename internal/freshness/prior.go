package freshness

import (
	"math"
	"time"
)

// Facts are what is known of an origin without a visit.
type Facts struct {
	Lister      Estimate      // of all origins of its lister (OfRates); zero: unknown
	Fork        bool          // it is known to be a fork
	Age         time.Duration // since it was first seen; 0: unknown
	SinceUpdate time.Duration // since the last update that its lister tells; 0: unknown
}

// General is the prior of origins of which nothing is known: most change less than once a
// month, some many times a day.
var General = Estimate{Changes: 0.3, Days: 10}

// What changes the prior.
const (
	forkRate = 0.3           // a fork's rate, as a part of others'
	halfAge  = 2 * 365 * day // the age at which a project changes half as often as a new one
)

// Prior returns what is to be expected of an origin before its second visit.
func (f Facts) Prior() Estimate {
	e := f.Lister.Or(General)
	if f.Fork {
		e.Days /= forkRate
	}
	e.Days *= 1 + days(max(0, f.Age))/days(halfAge)
	if f.SinceUpdate > 0 {
		e.Days += days(f.SinceUpdate)
	}
	return e.bounded()
}

// OfRates returns the prior for a population of origins whose rates' natural logarithms have
// that mean and variance.
func OfRates(mean, variance float64) Estimate {
	if math.IsNaN(mean) || math.IsInf(mean, 0) || !(variance > 0) {
		return Estimate{}
	}
	// Of a gamma distribution the logarithm has the mean ψ(shape) − ln(inverse scale) and the
	// variance ψ′(shape).
	low, high := math.Log(minChanges), math.Log(maxChanges)
	for range 50 {
		middle := (low + high) / 2
		if _, v := polygamma(math.Exp(middle)); v > variance {
			low = middle
		} else {
			high = middle
		}
	}
	changes := math.Exp(low)
	m, _ := polygamma(changes)
	return Estimate{changes, math.Exp(m - mean)}.bounded()
}

// polygamma returns ψ(x) and ψ′(x) for x > 0.
func polygamma(x float64) (psi, psi1 float64) {
	for ; x < 8; x++ {
		psi -= 1 / x
		psi1 += 1 / (x * x)
	}
	q := 1 / (x * x)
	psi += math.Log(x) - 1/(2*x) - q*(1.0/12-q*(1.0/120-q/252))
	psi1 += 1/x + q/2 + q/x*(1.0/6-q*(1.0/30-q/42))
	return psi, psi1
}
