package shares

import (
	"cmp"
	"container/heap"
	"slices"
)

// Group is a group that takes part in a division.
type Group struct {
	Name   string
	Weight float64 // above 0; only the ratio of weights matters
	Load   float64 // seconds of work: underway, used lately and forfeited
	Cost   float64 // seconds expected of one more message; above 0
	Most   int     // slots that it may get at most; 0 is no ceiling
}

// Level returns a group's load for its weight: the groups' clock.
func (g Group) Level() float64 { return g.Load / g.Weight }

// Divide returns how many of n slots each group gets, in the groups' order. Their sum is
// n, unless all groups get the most that they may. The groups' loads are not changed.
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
		if parts[next.group] == groups[next.group].Most {
			heap.Pop(&q)
		} else {
			heap.Fix(&q, 0)
		}
	}
	return parts
}

// Join raises the load of a group that was idle to the level of the busy group
// that is furthest behind, and returns by how much. Its load is never lowered.
func Join(g *Group, busy []Group) (forfeited float64) {
	if len(busy) == 0 {
		return 0
	}
	behind := slices.MinFunc(busy, func(a, b Group) int { return cmp.Compare(a.Level(), b.Level()) })
	forfeited = max(0, behind.Level()*g.Weight-g.Load)
	g.Load += forfeited
	return forfeited
}

// turn is when a group gets its next slot.
type turn struct {
	group               int
	name                string
	weight, level, step float64
}

// queue is a heap of turns: the smallest level first, then the greatest weight, then by
// name, so that the result is the same everywhere.
type queue []turn

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].level, q[j].level), cmp.Compare(q[j].weight, q[i].weight), cmp.Compare(q[i].name, q[j].name)) < 0
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(turn)) }
func (q *queue) Pop() any     { last := (*q)[len(*q)-1]; *q = (*q)[:len(*q)-1]; return last }
