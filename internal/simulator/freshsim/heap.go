package freshsim

import "container/heap"

// order is a heap of origins, by number, with keys that can change. Its lower-case methods maintain the order.
type order struct {
	items []item
	at    []int32 // index of each origin in items, + 1; 0: not in the heap
}

type item struct {
	key    float64
	origin int32
}

func newOrder(n int) *order { return &order{at: make([]int32, n)} }

func (h *order) Len() int           { return len(h.items) }
func (h *order) Less(i, j int) bool { return h.items[i].key < h.items[j].key }

func (h *order) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.at[h.items[i].origin], h.at[h.items[j].origin] = int32(i)+1, int32(j)+1
}

func (h *order) Push(x any) {
	h.items = append(h.items, x.(item))
	h.at[x.(item).origin] = int32(len(h.items))
}

func (h *order) Pop() any {
	last := len(h.items) - 1
	h.at[h.items[last].origin] = 0
	h.items = h.items[:last]
	return nil
}

// first returns the origin with the smallest key.
func (h *order) first() (origin int32, key float64) { return h.items[0].origin, h.items[0].key }

// each removes the origins whose keys are at most most, in the order of their keys, and calls do with each.
func (h *order) each(most float64, do func(origin int32)) {
	for h.Len() > 0 {
		origin, key := h.first()
		if key > most {
			return
		}
		h.remove(origin)
		do(origin)
	}
}

// set adds an origin or changes its key.
func (h *order) set(origin int32, key float64) {
	if i := int(h.at[origin]) - 1; i < 0 {
		heap.Push(h, item{key, origin})
	} else {
		h.items[i].key = key
		heap.Fix(h, i)
	}
}

// remove removes an origin if it is in the heap.
func (h *order) remove(origin int32) {
	if i := int(h.at[origin]) - 1; i >= 0 {
		heap.Remove(h, i)
	}
}
