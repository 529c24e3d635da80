package freshsim

import (
	"math"
	"time"

	"swh-scheduler/internal/freshness"
)

// fresh is the policy freshness. As fixed, it trusts all news alike, without learning. As oracle, it has the true
// rates and the true quality of the news.
type fresh struct {
	origins   []origin
	scale     float64 // of costs
	cost      float64 // mean cost of a visit, in seconds before scaling
	fixed     bool
	informed  bool // has the true quality of the news
	oracle    bool
	news      [listers + 1]freshness.Quality // by lister; the last one is of hints alone
	histories []freshness.History            // by origin
	prior     freshness.Estimate
	learned   float64                        // when the prior was learned, and the quality of the news was last compared
	filed     [listers + 1]freshness.Quality // that all moments were last computed by
	cooling   *order
	due       *hosted // by moment

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

// at returns a moment of simulated time. It is whole seconds only at midnight, where dates of listers mean the day.
func at(days float64) time.Time {
	if t := start.Add(duration(days)); days == math.Floor(days) || t.Nanosecond() > 0 {
		return t
	} else {
		return t.Add(1)
	}
}

func inDays(t time.Time) float64 { return t.Sub(start).Hours() / 24 }

// exactly returns a known quality.
func exactly(precision, recall float64) freshness.Quality {
	const certain = 1e9
	return freshness.Quality{Right: precision * certain, Wrong: (1 - precision) * certain, Reported: recall * certain, Missed: (1 - recall) * certain}
}

// group returns the number of the sources of an origin's news.
func (o *origin) group() int {
	if o.lister < 0 {
		return listers
	}
	return o.lister
}

func newFresh(origins []origin, scale float64, name string, longest float64) *fresh {
	p := &fresh{
		origins: origins, scale: scale, fixed: name == "fixed", informed: name == "informed", oracle: name == "oracle", histories: make([]freshness.History, len(origins)),
		due: newHosted(origins), cooling: newOrder(len(origins)),
		keeps: make([]thresholds, len(origins)), prior: freshness.General, cost: 1,
		control: freshness.Controller{}.Step(start, false, 0),
	}
	if p.fixed {
		for g := range p.news {
			p.news[g] = exactly(1, 0.97)
		}
	}
	p.used = p.control.Threshold
	for i := range origins {
		o := &origins[i]
		p.histories[i] = freshness.History{FirstSeen: at(o.appeared), Listing: duration(listing), Longest: duration(longest)}
		if o.visited {
			p.update(int32(i)).Visited(at(o.visit), true)
			p.file(int32(i), 0)
		}
	}
	return p
}

// update returns the state of an origin by the data that the scheduler has at present.
func (p *fresh) update(i int32) *freshness.History {
	o, h := &p.origins[i], &p.histories[i]
	h.Prior, h.Threshold = p.prior, p.used
	h.Cost, h.Typical = duration(o.cost*p.scale/86400), duration(p.cost*p.scale/86400)
	if h.LastSeen = at(o.seen); o.dated {
		h.LastUpdate = at(o.listed)
		if o.listed != math.Floor(o.listed) {
			h.LastUpdate = h.LastUpdate.Add(-time.Microsecond) // the first visit includes the update of its moment
		}
		h.News = p.news[o.group()]
	}
	if p.oracle {
		const certain = 50
		h.Estimate = freshness.Estimate{Changes: certain, Days: certain / o.rate(o.visit)}
	}
	if p.oracle || p.informed {
		h.News = exactly(1-o.news.False, o.news.Recall)
	}
	return h
}

// file computes the moment of an origin that has cooled down.
func (p *fresh) file(i int32, now float64) {
	h := p.update(i)
	p.due.set(i, inDays(h.Moment(at(now))))
	p.keeps[i] = thresholds{0, math.Inf(1)}
	if o := &p.origins[i]; o.visited {
		of := h.Origin(at(now))
		moment := of.Moment(p.used, h.Longest)
		p.keeps[i].low, p.keeps[i].high = of.Thresholds(moment, h.Longest)
	}
}

func (p *fresh) listed(i int32, now float64) {
	if o := &p.origins[i]; o.visited {
		p.update(i).Listed()
	}
	if !p.origins[i].underway && p.origins[i].ready <= now {
		p.file(i, now)
	}
}

func (p *fresh) visited(i int32, _ float64, _, eventful bool) {
	o := &p.origins[i]
	p.cost += (o.cost - p.cost) / 1000
	_, _, seen := p.update(i).Visited(at(o.visit), eventful)
	if g := o.group(); o.dated && !p.fixed {
		p.news[g] = p.news[g].Add(seen)
	}
	p.cooling.set(i, o.ready)
}

// failed changes only the cooldown of the origin.
func (p *fresh) failed(i int32) { p.cooling.set(i, p.origins[i].ready) }

func (p *fresh) claim(now float64, n int, busy bool, take func(i int32) bool, to []int32) []int32 {
	relearned := false
	if now-p.learned >= 7 {
		p.learned = now
		for g, q := range p.news {
			if math.Abs(q.Recall()-p.filed[g].Recall())+math.Abs(q.Precision()-p.filed[g].Precision()) > 0.02 {
				p.filed[g], relearned = q, true
			}
		}
		var all freshness.Population
		for i := range p.histories {
			all.Add(p.histories[i].Estimate)
		}
		p.prior = all.Prior().Or(p.prior)
	}
	if now-p.computed >= walk || relearned {
		p.used, p.computed = p.control.Threshold, now
		for i, keeps := range p.keeps {
			if i := int32(i); p.due.has(i) && (relearned || p.used < keeps.low || p.used > keeps.high) {
				p.file(i, now)
			}
		}
	}
	p.cooling.each(now, func(i int32) { p.file(i, now) })
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
		h := p.update(i)
		if since := at(now).Sub(h.LastVisit); o.visited && since < h.Longest {
			values = append(values, h.Origin(at(now)).Value(since))
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
