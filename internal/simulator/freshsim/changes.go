package freshsim

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Times are in days since the start of a run, rates in changes a day.

// history is the changes of an origin.
type history interface {
	// after returns the first change after t. t is the time of a change or of the origin's appearance, and increases
	// from call to call.
	after(t float64) float64
	// rate returns the rate at t, for the oracle.
	rate(t float64) float64
}

// Model draws the histories of origins.
type Model struct {
	Name, About string
	draw        func(i int, random *rand.Rand) history
}

var Models = []Model{
	{"even", "even intervals, from a second to ten years, evenly spread over the logarithm, as the Python scheduler's simulator has them", func(_ int, random *rand.Rand) history {
		interval := math.Exp(random.Float64()*math.Log(10*365*86400)) / 86400
		return even{interval, -random.Float64() * interval}
	}},
	{"poisson", "at random, at heavy-tailed rates", func(_ int, random *rand.Rand) history {
		return &poisson{heavyTailed(random), random}
	}},
	{"weekdays", "the same by daytime on weekdays, and a tenth of it else", func(_ int, random *rand.Rand) history {
		return &weekdays{poisson{heavyTailed(random), random}}
	}},
	{"releases", "bursts of changes within some days, at random, at heavy-tailed rates", func(_ int, random *rand.Rand) history {
		r := &releases{every: heavyTailed(random) / (1 + burst), random: random}
		r.next = random.ExpFloat64()/r.every - settled
		return r
	}},
	{"revived", "as poisson, but abandoned after some months, for a year or more, and revived at another rate", func(_ int, random *rand.Rand) history {
		r, now := &revived{random: random}, phase{}
		active := random.Float64() < activeMean/(activeMean+abandonedMean)
		if active {
			now.rate = heavyTailed(random)
		}
		now.until = r.length(active)
		r.phases = []phase{now}
		return r
	}},
}

// heavyTailed draws a rate. The median is a change in half a year, and the mean is seven times as high. One rate in a
// hundred is a change a day or more.
func heavyTailed(random *rand.Rand) float64 {
	return min(math.Exp(random.NormFloat64()*2.2)/180, 20)
}

type even struct{ interval, first float64 }

// after takes a t within a millionth of an interval before a change for that change, as times are rounded.
func (e even) after(t float64) float64 {
	return e.first + (math.Floor((t-e.first)/e.interval+1e-6)+1)*e.interval
}

func (e even) rate(float64) float64 { return 1 / e.interval }

type poisson struct {
	mean   float64
	random *rand.Rand
}

func (p *poisson) after(t float64) float64 { return t + p.random.ExpFloat64()/p.mean }
func (p *poisson) rate(float64) float64    { return p.mean }

type weekdays struct{ poisson }

// workday returns the rate at t as a multiple of the rate by daytime on weekdays.
func workday(t float64) float64 {
	if day, hour := math.Mod(math.Floor(t)+7e6, 7), t-math.Floor(t); day < 5 && hour > 1.0/3 && hour < 3.0/4 {
		return 1
	}
	return 0.1
}

// Of a week, 5 × 5/12 days are daytime on weekdays.
const workdayMean = (5*5.0/12 + (7-5*5.0/12)*0.1) / 7

func (w *weekdays) after(t float64) float64 {
	for {
		if t = t + w.random.ExpFloat64()/(w.mean/workdayMean); w.random.Float64() < workday(t) {
			return t
		}
	}
}

// burst is the mean number of changes that follow a release.
const burst = 10

type releases struct {
	every  float64 // a day
	random *rand.Rand
	next   float64 // release
	more   []float64
}

func (r *releases) after(t float64) float64 {
	for {
		for len(r.more) > 0 && r.more[0] <= t {
			r.more = r.more[1:]
		}
		if len(r.more) > 0 && r.more[0] < r.next {
			return r.more[0]
		}
		r.more = append(r.more, r.next)
		for n := int(r.random.ExpFloat64()*burst + 0.5); n > 0; n-- {
			r.more = append(r.more, r.next+r.random.ExpFloat64()*2)
		}
		slices.Sort(r.more)
		r.next += r.random.ExpFloat64() / r.every
	}
}

func (r *releases) rate(float64) float64 { return r.every * (1 + burst) }

// The mean times of phases, in days.
const activeMean, abandonedMean = 120, 400

type revived struct {
	random *rand.Rand
	phases []phase // from the phase of the last query to that of the next change
}

type phase struct {
	rate  float64 // 0: abandoned
	until float64
}

// length draws the length of a phase.
func (r *revived) length(active bool) float64 {
	if active {
		return r.random.ExpFloat64() * activeMean
	}
	return r.random.ExpFloat64() * abandonedMean
}

func (r *revived) after(t float64) float64 {
	for {
		now := r.phases[len(r.phases)-1]
		if now.rate > 0 {
			if next := t + r.random.ExpFloat64()/now.rate; next < now.until {
				return next
			}
		}
		t = max(t, now.until)
		if t > 1e4 {
			return math.Inf(1)
		}
		next := phase{until: t + r.length(now.rate == 0)}
		if now.rate == 0 {
			next.rate = 2 * heavyTailed(r.random)
		}
		r.phases = append(r.phases, next)
	}
}

// rate returns the rate of the phase; for an abandoned project, the rate of revivals. The oracle gets the next
// phase's rate at a visit.
func (r *revived) rate(t float64) float64 {
	for len(r.phases) > 1 && r.phases[0].until <= t {
		r.phases = r.phases[1:]
	}
	if r.phases[0].rate == 0 {
		return 1.0 / abandonedMean
	}
	return r.phases[0].rate
}
