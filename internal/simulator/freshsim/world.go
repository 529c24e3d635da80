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

	reportedPart = 0.5  // the fraction of the origins whose lister reports updates
	missedPart   = 0.02 // the fraction of their changes that the lister misses
	newPart      = 0.1  // the fraction of the origins that appear during the run
	changeCost   = 0.1  // the cost of a change, as a fraction of the cost of a visit without changes
	mostNews     = 100  // a visit with more changes costs no more
	firstNews    = 50   // a first visit costs as much as so many changes
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

	dated      bool    // its lister reports updates
	lastUpdate float64 // the last update that the lister has found
	listed     float64 // lastUpdate as of the last listing
	visited    bool
	visit      float64 // when the last visit began
	ready      float64 // when it has cooled down
	underway   bool
	cost       float64 // expected cost by past visits, in seconds
}

// newOrigins draws origins. The same seed gives the same origins.
func newOrigins(m Model, n int, seed uint64, until float64) []origin {
	origins := make([]origin, n)
	for i := range origins {
		o := &origins[i]
		o.random.Seed(seed, uint64(i))
		random := rand.New(&o.random)
		o.basis = math.Exp(random.NormFloat64())
		o.dated = random.Float64() < reportedPart
		o.appeared = -settled * random.Float64()
		if random.Float64() < newPart {
			o.appeared = until * random.Float64()
		}
		o.history = m.draw(i, random)
		if r, ok := o.history.(recorded); ok {
			o.appeared = r.times[0]
		}
		o.first, o.lastUpdate, o.listed, o.cost = o.appeared, o.appeared, o.appeared, o.basis
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
	if o.next > t {
		return
	}
	if e, ok := o.history.(even); ok { // too many to simulate each
		o.lack(o.next, 1+int((t-o.next)/e.interval))
		o.lastUpdate = e.after(t) - e.interval
		o.next = e.after(t)
		return
	}
	for o.next <= t {
		o.lack(o.next, 1)
		if float64(o.random.Uint64()>>11) >= missedPart*(1<<53) {
			o.lastUpdate = o.next
		}
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
