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

// pools is the Python scheduler's default policies, or the policy pools.
type pools struct {
	origins []origin
	random  *rand.Rand
	weights [4]float64 // of the orders
	shared  bool       // slots that an order can't fill go to the others
	cooling *order
	orders  [4]*hosted // undated by target, never visited, by lag, others by target
	place   []float64  // by origin: its target, in days
	offset  []int32
	queue   float64 // the queue's position
}

const undated, never, lagging, others = 0, 1, 2, 3

func newPools(origins []origin, seed uint64, weights [4]float64, shared bool) *pools {
	n := len(origins)
	p := &pools{origins: origins, random: rand.New(rand.NewPCG(seed, 1)), weights: weights, shared: shared, cooling: newOrder(n), place: make([]float64, n), offset: make([]int32, n)}
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
	case o.listed > o.visit:
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

func (p *pools) claim(now float64, n int, _ bool, take func(i int32) bool, to []int32) []int32 {
	p.cooling.each(now, p.file)
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
		if n = left; !p.shared {
			break
		}
	}
	for _, h := range p.orders {
		h.restore()
	}
	return to
}
