package shares

import (
	"cmp"
	"container/heap"
	"slices"
)

// Group is a group in a division.
type Group struct {
	Name     string
	Weight   float64 // above 0; only the ratio of weights matters
	Load     float64 // seconds of work: underway, used lately and forfeited (see the package)
	Cost     float64 // expected seconds of one more message; above 0
	MaxSlots int     // its ceiling: the most slots of this division; 0: none
}

// Level returns a group's load divided by its weight. Fair queueing calls this its virtual time.
func (g Group) Level() float64 { return g.Load / g.Weight }

// Divide returns how many of n slots each group gets, in the groups' order. Their sum is n, unless all groups reach
// their ceilings. It doesn't change the groups' loads.
func Divide(n int, groups []Group) []int {
	parts := make([]int, len(groups))
	q := make(queue, len(groups))
	for i, g := range groups {
		q[i] = turn{group: i, name: g.Name, weight: g.Weight, level: g.Level(), step: g.Cost / g.Weight}
	}
	heap.Init(&q)
	for ; n > 0 && len(q) > 0; n-- {
		next := &q[0]
		parts[next.group]++
		next.level += next.step
		if parts[next.group] == groups[next.group].MaxSlots {
			heap.Pop(&q)
		} else {
			heap.Fix(&q, 0)
		}
	}
	return parts
}

// Join raises the load of a group that was idle to the level of the busy group with the lowest level, and returns the
// difference. It never lowers a load.
func Join(g *Group, busy []Group) (forfeited float64) {
	if len(busy) == 0 {
		return 0
	}
	behind := slices.MinFunc(busy, func(a, b Group) int { return cmp.Compare(a.Level(), b.Level()) })
	forfeited = max(0, behind.Level()*g.Weight-g.Load)
	g.Load += forfeited
	return forfeited
}

// turn is a group's next slot.
type turn struct {
	group               int
	name                string
	weight, level, step float64
}

// queue is a heap of turns, ordered by level, then by falling weight, then by name, so that the result is
// deterministic.
type queue []turn

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].level, q[j].level), cmp.Compare(q[j].weight, q[i].weight), cmp.Compare(q[i].name, q[j].name)) < 0
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(turn)) }
func (q *queue) Pop() any     { last := (*q)[len(*q)-1]; *q = (*q)[:len(*q)-1]; return last }
