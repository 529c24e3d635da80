package freshsim

import (
	"math"
	"time"

	"swh-scheduler/internal/freshness"
)

// fresh is the policy freshness or, with the true rates, the oracle.
type fresh struct {
	origins      []origin
	scale        float64 // of costs
	cost         float64 // mean cost of a visit, in seconds before scaling
	oracle       bool
	longest      float64
	estimates    []freshness.Estimate
	prior        freshness.Estimate
	learned      float64   // when the prior was learned
	coveredUntil []float64 // by origin: the end of the time that the estimate covers
	cooling      *order
	due          *hosted // by moment

	control  freshness.Controller
	used     float64      // the threshold that the moments were computed for
	computed float64      // when all moments were last checked
	keeps    []thresholds // by origin
}

// thresholds is the range of thresholds for which an origin's moment need not be computed again.
type thresholds struct{ low, high float64 }

// walk is how often all moments are checked, as in the database.
const walk = 6 * hour

var start = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

func duration(days float64) time.Duration { return time.Duration(days * 24 * float64(time.Hour)) }

func newFresh(origins []origin, scale float64, oracle bool, longest float64) *fresh {
	p := &fresh{
		origins: origins, scale: scale, oracle: oracle, longest: longest,
		estimates: make([]freshness.Estimate, len(origins)), coveredUntil: make([]float64, len(origins)), due: newHosted(origins), cooling: newOrder(len(origins)),
		keeps: make([]thresholds, len(origins)), prior: freshness.General, cost: 1,
		control: freshness.Controller{}.Step(start, false, 0),
	}
	p.used = p.control.Threshold
	for i := range origins {
		if o := &origins[i]; o.visited {
			p.coveredUntil[i] = o.visit
			p.file(int32(i))
		}
	}
	return p
}

// known returns the formulas' inputs for an origin that was visited.
func (p *fresh) known(i int32) freshness.Origin {
	o := &p.origins[i]
	f := freshness.Origin{Estimate: p.estimates[i].Or(p.prior), Cost: duration(o.cost * p.scale / 86400), Useless: duration(freshness.UselessVisits * p.cost * p.scale / 86400), Updated: duration(o.listed - o.visit)}
	if o.dated {
		f.Listing = duration(listing)
	}
	if p.oracle {
		const certain = 50
		f.Estimate = freshness.Estimate{Changes: certain, Days: certain / o.rate(o.visit)}
	}
	return f
}

// file computes the moment of an origin that has cooled down.
func (p *fresh) file(i int32) {
	o := &p.origins[i]
	if !o.visited {
		p.due.set(i, o.appeared)
		p.keeps[i] = thresholds{0, math.Inf(1)}
		return
	}
	known, longest := p.known(i), duration(p.longest)
	moment := known.Moment(p.used, longest)
	p.due.set(i, o.visit+moment.Hours()/24)
	low, high := known.Thresholds(moment, longest)
	p.keeps[i] = thresholds{low, high}
}

func (p *fresh) observe(i int32, until float64, outcome freshness.Outcome) {
	p.estimates[i] = p.estimates[i].Observe(p.prior, duration(until-p.coveredUntil[i]), outcome)
	p.coveredUntil[i] = max(p.coveredUntil[i], until)
}

func (p *fresh) listed(i int32, now float64) {
	if o := &p.origins[i]; o.visited {
		p.estimates[i] = p.estimates[i].WithReports(p.prior, duration(now-p.coveredUntil[i]), duration(now-o.listed), duration(listing))
		p.coveredUntil[i] = now
	}
	if !p.origins[i].underway && p.origins[i].ready <= now {
		p.file(i)
	}
}

func (p *fresh) visited(i int32, before float64, first, eventful bool) {
	o := &p.origins[i]
	p.cost += (o.cost - p.cost) / 1000
	switch {
	case first:
		p.coveredUntil[i] = o.visit
	case o.dated && o.listed > before: // its lister reported the change
	case eventful:
		p.observe(i, o.visit, freshness.Changed)
	default:
		p.observe(i, o.visit, freshness.Unchanged)
	}
	p.cooling.set(i, o.ready)
}

// failed changes only the cooldown of the origin.
func (p *fresh) failed(i int32) { p.cooling.set(i, p.origins[i].ready) }

func (p *fresh) claim(now float64, n int, busy bool, take func(i int32) bool, to []int32) []int32 {
	if now-p.learned >= 14 {
		p.learned = now
		var all freshness.Population
		for _, e := range p.estimates {
			all.Add(e)
		}
		p.prior = all.Prior().Or(p.prior)
	}
	if now-p.computed >= walk {
		p.used, p.computed = p.control.Threshold, now
		for i, keeps := range p.keeps {
			if i := int32(i); p.due.has(i) && (p.used < keeps.low || p.used > keeps.high) {
				p.file(i)
			}
		}
	}
	p.cooling.each(now, p.file)
	var values []float64
	claimed := 0
	for ; claimed < n; claimed++ {
		i, _, ok := p.due.next(now, take)
		if !ok {
			break
		}
		o := &p.origins[i]
		o.underway = true
		to = append(to, i)
		if since := now - o.visit; o.visited && since < p.longest {
			values = append(values, p.known(i).Value(duration(since)))
		}
	}
	p.due.restore()
	price := 0.0
	if claimed == n {
		price = freshness.Price(values)
	}
	p.control = p.control.Step(start.Add(duration(now)), busy, price)
	return to
}
