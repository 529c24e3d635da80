package freshness

import (
	"math"
	"time"
)

// Facts are the facts about an origin without a visit.
type Facts struct {
	Lister      Estimate      // for all origins of its lister (see Population); zero: unknown
	Fork        bool          // the lister reports that it is a fork
	Age         time.Duration // since it was first seen; 0: unknown
	SinceUpdate time.Duration // since the last update that its lister reported; 0: unknown
}

// General is the prior of origins without facts: most change less than once a month, some many times a day.
var General = Estimate{Changes: 0.5, Days: 25}

const (
	forkRate = 0.3           // the rate of forks, relative to that of other origins
	halfAge  = 2 * 365 * day // the age at which a project changes half as often as a new one
)

// Prior returns the estimate for an origin before its second visit.
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

// A Population sums up the estimates for many origins, such as those of a lister.
type Population struct {
	Origins      float64
	Logs, Square float64 // sums over origins of the mean and the mean square of the rate's logarithm
}

// Add adds an origin's estimate, if it has observed anything.
func (p *Population) Add(e Estimate) {
	if !e.known() {
		return
	}
	mean, variance := e.LogRate()
	p.Origins++
	p.Logs += mean
	p.Square += mean*mean + variance
}

// leastOrigins is how many origins are needed to infer the rates of others.
const leastOrigins = 30

// Prior returns the gamma distribution of the population's rates, by the mean and the variance of
// their logarithms. It is zero if there are too few origins.
func (p Population) Prior() Estimate {
	if !(p.Origins >= leastOrigins) {
		return Estimate{}
	}
	mean := p.Logs / p.Origins
	return ofLogs(mean, p.Square/p.Origins-mean*mean)
}

// ofLogs returns the gamma distribution with the mean and the mean logarithm of a lognormal distribution, whose logarithm has a
// mean and a variance.
func ofLogs(mean, variance float64) Estimate {
	return ofMeans(math.Exp(mean+variance/2), mean).bounded()
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
