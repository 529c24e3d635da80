package freshsim

import (
	"math"
	"math/rand/v2"
)

const (
	day     = 1.0
	hour    = day / 24
	minute  = hour / 60
	settled = 90 * day // before the start, in which each origin was loaded once

	cooldown       = 12 * hour
	failedCooldown = 14 * day // after a visit that failed

	toldPart   = 0.5  // of origins that have a lister that tells of updates
	untoldPart = 0.02 // of the changes of those that it leaves out
	newPart    = 0.1  // of origins that appear during the run
	changeCost = 0.1  // of a change, as a part of what a visit without news costs
	mostNews   = 100  // changes that count
	firstNews  = 50   // changes that a first visit counts for
)

// origin is what is true of an origin, and what a scheduler sees of it.
type origin struct {
	history
	random   rand.PCG
	appeared float64
	hoster   int     // by number
	basis    float64 // of the cost of a visit: seconds of a worker before they are scaled
	next     float64 // change
	first    float64 // the oldest change that the archive lacks; infinite if there is none
	changes  int     // that it lacks

	dated    bool    // its lister tells of updates
	told     float64 // the last one
	shown    float64 // told at the last listing
	visited  bool
	visit    float64 // when the last visit began
	ready    float64 // when it has cooled down
	underway bool
	cost     float64 // expected by the runtimes of visits, seconds
}

// newOrigins draws origins, the same ones for the same seed.
func newOrigins(m Model, n int, seed uint64, until float64) []origin {
	origins := make([]origin, n)
	for i := range origins {
		o := &origins[i]
		o.random.Seed(seed, uint64(i))
		random := rand.New(&o.random)
		o.basis = math.Exp(random.NormFloat64())
		o.dated = random.Float64() < toldPart
		o.appeared = -settled * random.Float64()
		if random.Float64() < newPart {
			o.appeared = until * random.Float64()
		}
		o.history = m.draw(i, random)
		if r, ok := o.history.(recorded); ok {
			o.appeared = r.times[0]
		}
		o.first, o.told, o.shown, o.cost = o.appeared, o.appeared, o.appeared, o.basis
		o.next, o.changes = o.after(o.appeared), firstNews
		if o.appeared < 0 {
			o.load(o.appeared)
			o.ready = o.visit + cooldown
		}
	}
	return origins
}

// advance makes the changes until t.
func (o *origin) advance(t float64) {
	if o.next > t {
		return
	}
	if e, ok := o.history.(even); ok { // too many to make each
		o.lack(o.next, 1+int((t-o.next)/e.interval))
		o.told = e.after(t) - e.interval
		o.next = e.after(t)
		return
	}
	for o.next <= t {
		o.lack(o.next, 1)
		if float64(o.random.Uint64()>>11) >= untoldPart*(1<<53) {
			o.told = o.next
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

// load visits the origin at t, and returns how many changes that finds.
func (o *origin) load(t float64) (found int) {
	o.advance(t)
	found = o.changes
	o.first, o.changes, o.visited, o.visit = math.Inf(1), 0, true, t
	return found
}

// costOf returns what a visit costs, in seconds before they are scaled.
func (o *origin) costOf(changes int) float64 {
	return o.basis * (1 + changeCost*float64(min(changes, mostNews)))
}

// age returns for how long the archive has lacked the oldest change that it lacks.
func (o *origin) age(t float64) float64 {
	o.advance(t)
	return max(0, t-o.first)
}

// demand returns the work, in seconds a day, of a visit after each change but not before the
// origin has cooled down: the least that keeps origins as fresh as they can be.
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
