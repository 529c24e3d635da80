package freshsim

import (
	"math"
	"math/rand/v2"
)

const (
	day     = 1.0
	hour    = day / 24
	minute  = hour / 60
	settled = 90 * day // the time before the start, in which each origin was loaded once

	cooldown       = 12 * hour
	failedCooldown = 14 * day // after a visit that failed

	reportedPart = 0.5 // the fraction of the origins whose lister reports updates
	newPart      = 0.1 // the fraction of the origins that appear during the run
	changeCost   = 0.1 // the cost of a change, as a fraction of the cost of a visit without changes
	mostNews     = 100 // a visit with more changes costs no more
	firstNews    = 50  // a first visit costs as much as so many changes
	mostDrawn    = 100 // changes at even intervals within a step; of more, only the last one is drawn
)

// origin is the true state of an origin and a scheduler's information about it.
type origin struct {
	history
	random   rand.PCG
	appeared float64
	hoster   int     // by number
	basis    float64 // the cost of a visit without changes, in seconds before scaling
	next     float64 // the time of the next change
	first    float64 // the time of the oldest change that the archive lacks; infinite if there is none
	changes  int     // number of changes that the archive lacks

	lister   int     // by number; -1: its lister reports no updates
	dated    bool    // a lister or a source of hints reports updates
	news     source  // its lister's
	hinted   bool    // its forge hints at changes, unless the recall of hints is 0
	hints    source  // hints of its forge
	listed   float64 // the last update that was reported
	seen     float64 // the last listing
	visited  bool
	visit    float64 // when the last visit began
	ready    float64 // when it has cooled down
	underway bool
	cost     float64 // expected cost by past visits, in seconds
}

// newOrigins draws origins. The same seed gives the same origins.
func newOrigins(m Model, options Options) []origin {
	seed, until := options.Seed, options.WarmUp+options.Runtime
	origins := make([]origin, options.Origins)
	for i := range origins {
		o := &origins[i]
		o.random.Seed(seed, uint64(i))
		random := rand.New(&o.random)
		o.basis = math.Exp(random.NormFloat64())
		if o.lister = -1; random.Float64() < reportedPart {
			o.lister = i % options.listers()
		}
		o.appeared = -settled * random.Float64()
		if random.Float64() < newPart {
			o.appeared = until * random.Float64()
		}
		o.history = m.draw(i, random)
		if r, ok := o.history.(recorded); ok {
			o.appeared = r.times[0]
		}
		o.news = source{Signals: options.news(o.lister), used: o.lister >= 0, last: o.appeared}
		o.hinted = uniform(&o.random) < options.Hinted
		o.hints = source{Signals: options.Hints, used: o.hinted && options.Hints.Recall > 0, last: o.appeared}
		o.dated = o.news.used || o.hints.used
		o.first, o.listed, o.seen, o.cost = o.appeared, o.appeared, o.appeared, o.basis
		o.next, o.changes = o.after(o.appeared), firstNews
		if o.appeared < 0 {
			o.load(o.appeared)
			o.ready = o.visit + cooldown
		}
	}
	return origins
}

// advance applies the changes until t.
func (o *origin) advance(t float64) {
	for o.next <= t {
		n := 1
		if e, ok := o.history.(even); ok && t-o.next > mostDrawn*e.interval { // too many to simulate each
			n = int((t-o.next)/e.interval) - 1
			o.lack(o.next, n)
			o.next += float64(n) * e.interval
			continue
		}
		o.lack(o.next, n)
		o.news.change(o.next, &o.random)
		o.hints.change(o.next, &o.random)
		o.next = o.after(o.next)
	}
}

func (o *origin) lack(first float64, n int) {
	if o.first > first {
		o.first = first
	}
	o.changes += n
}

// load visits the origin at t and returns how many changes the visit finds.
func (o *origin) load(t float64) (found int) {
	o.advance(t)
	found = o.changes
	o.first, o.changes, o.visited, o.visit = math.Inf(1), 0, true, t
	return found
}

// costOf returns the cost of a visit that finds some changes, in seconds before scaling.
func (o *origin) costOf(changes int) float64 {
	return o.basis * (1 + changeCost*float64(min(changes, mostNews)))
}

// age returns the staleness at t.
func (o *origin) age(t float64) float64 {
	o.advance(t)
	return max(0, t-o.first)
}

// demand returns the work, in seconds a day, of visiting each origin after each change as soon as it has cooled down.
// That is the least work with the least staleness.
func demand(origins []origin, until float64) float64 {
	work := 0.0
	for i := range origins {
		o := &origins[i]
		o.news.used, o.hints.used = false, false
		at := o.appeared
		for {
			if o.visited {
				at = max(o.next, o.visit+cooldown)
			}
			if !(at < until) {
				break
			}
			if changes := o.load(at); at > 0 {
				work += o.costOf(changes)
			}
		}
	}
	return work / until
}
