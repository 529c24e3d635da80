package freshsim

import (
	"math"
	"math/rand/v2"

	"swh-scheduler/internal/model"
)

// policy picks visits by a scheduler's information.
type policy interface {
	// listed is called when an origin is listed first, and when its lister reports an update.
	listed(i int32, now float64)
	// visited is called at the end of a visit that began at the origin's visit time. before is when the previous
	// visit began.
	visited(i int32, before float64, first, eventful bool)
	// failed is called when a visit fails.
	failed(i int32)
	// claim appends up to n origins to visit. It skips origins that take refuses, as their hosters are full. busy
	// says that the queue is not empty.
	claim(now float64, n int, busy bool, take func(i int32) bool, to []int32) []int32
}

// pools is policies of the Python scheduler with weights, or the policy pools.
type pools struct {
	origins []origin
	random  *rand.Rand
	weights [4]float64 // of the orders
	ours    bool       // pools: slots that an order can't fill go to the others, and dates may mean a whole day
	sampled float64    // if above 0, a claim considers this fraction of the origins
	cooling *order
	orders  [4]*hosted // undated by target, never visited, by lag, others by target
	place   []float64  // by origin: its target, in days
	offset  []int32
	queue   float64 // the queue's position
}

const undated, never, lagging, others = 0, 1, 2, 3

func newPools(origins []origin, seed uint64, weights [4]float64) *pools {
	n := len(origins)
	p := &pools{origins: origins, random: rand.New(rand.NewPCG(seed, 1)), weights: weights, cooling: newOrder(n), place: make([]float64, n), offset: make([]int32, n)}
	for i := range p.orders {
		p.orders[i] = newHosted(origins)
	}
	for i := range origins {
		p.offset[i] = model.DefaultPositionOffset
		if origins[i].visited {
			p.move(int32(i))
			p.file(int32(i))
		}
	}
	return p
}

// move moves an origin forward in the queue by its interval.
func (p *pools) move(i int32) {
	p.place[i] += model.DefaultVisitRules.Interval(p.offset[i]).Hours() / 24 * (1 + (2*p.random.Float64()-1)*model.DefaultVisitRules.Fudge)
}

// file adds an origin that has cooled down to its order.
func (p *pools) file(i int32) {
	o := &p.origins[i]
	if o.underway {
		return
	}
	for _, h := range p.orders {
		h.remove(i)
	}
	switch {
	case !o.dated:
		p.orders[undated].set(i, p.place[i])
	case !o.visited:
		p.orders[never].set(i, o.listed)
	case p.updateEnds(o) > o.visit:
		p.orders[lagging].set(i, o.visit-o.listed)
	default:
		p.orders[others].set(i, p.place[i])
	}
}

func (p *pools) listed(i int32, now float64) {
	if p.origins[i].ready <= now {
		p.file(i)
	}
}

func (p *pools) visited(i int32, _ float64, first, eventful bool) {
	switch {
	case first:
		p.place[i] = p.queue
	case eventful:
		p.offset[i] = max(0, p.offset[i]-2)
	default:
		p.offset[i] = min(p.offset[i]+1, model.DefaultVisitRules.LastOffset())
	}
	p.move(i)
	p.cooling.set(i, p.origins[i].ready)
}

func (p *pools) failed(i int32) { p.visited(i, 0, false, false) }

// updateEnds returns the end of the time that the date of the last update covers. The Python scheduler's policies take
// the date for a moment.
func (p *pools) updateEnds(o *origin) float64 {
	if p.ours && o.listed == math.Floor(o.listed) {
		return o.listed + day
	}
	return o.listed
}

func (p *pools) claim(now float64, n int, _ bool, take func(i int32) bool, to []int32) []int32 {
	p.cooling.each(now, p.file)
	if p.sampled > 0 {
		return p.sample(n, take, to)
	}
	able := p.weights
	for n > 0 {
		total := 0.0
		for _, w := range able {
			total += w
		}
		if total == 0 {
			break
		}
		left := n
		for k, h := range p.orders {
			// Fractions are rounded at random.
			want := int(float64(n)*able[k]/total + p.random.Float64())
			for ; want > 0 && left > 0; want-- {
				i, key, ok := h.next(math.Inf(1), take)
				if !ok {
					break
				}
				if k == undated || k == others {
					p.queue = max(p.queue, key)
				}
				p.origins[i].underway = true
				to = append(to, i)
				left--
			}
			if h.firsts.Len() == 0 {
				able[k] = 0
			}
		}
		if n = left; !p.ours {
			break
		}
	}
	for _, h := range p.orders {
		h.restore()
	}
	return to
}

// leastSample is the least size of a sample, relative to the claim. In the archive's production a thousandth of the
// origins is many times a claim. Of the simulated ones it may be less than one.
const leastSample = 20

// sample is claim for policies that consider a random sample of the origins, drawn anew for each of them.
func (p *pools) sample(n int, take func(i int32) bool, to []int32) []int32 {
	total := 0.0
	for _, w := range p.weights {
		total += w
	}
	size := min(max(int(p.sampled*float64(len(p.origins))), leastSample*n), len(p.origins))
	for k, h := range p.orders {
		want := int(float64(n)*p.weights[k]/total + p.random.Float64())
		if want == 0 || h.firsts.Len() == 0 {
			continue
		}
		drawn := newOrder(len(p.origins))
		for range size {
			i := int32(p.random.IntN(len(p.origins)))
			if key, ok := h.key(i); ok {
				drawn.set(i, key)
			}
		}
		for ; want > 0 && drawn.Len() > 0; want-- {
			i, key := drawn.first()
			drawn.remove(i)
			if !take(i) {
				continue
			}
			if k == undated {
				p.queue = max(p.queue, key)
			}
			h.remove(i)
			p.origins[i].underway = true
			to = append(to, i)
		}
	}
	return to
}
