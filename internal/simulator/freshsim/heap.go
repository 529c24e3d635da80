package freshsim

// order is a heap of origins, by number, with keys that can change.
type order struct {
	items []item
	at    []int32 // place of each origin, + 1; 0: not in the heap
}

type item struct {
	key    float64
	origin int32
}

func newOrder(n int) *order { return &order{at: make([]int32, n)} }

func (h *order) len() int { return len(h.items) }

// first returns the origin with the smallest key.
func (h *order) first() (origin int32, key float64) { return h.items[0].origin, h.items[0].key }

// each removes the origins whose keys are not beyond most, the smallest key first, and calls do with
// each.
func (h *order) each(most float64, do func(origin int32)) {
	for h.len() > 0 {
		origin, key := h.first()
		if key > most {
			return
		}
		h.remove(origin)
		do(origin)
	}
}

// set adds an origin, or changes its key.
func (h *order) set(origin int32, key float64) {
	i := int(h.at[origin]) - 1
	if i < 0 {
		i = len(h.items)
		h.items = append(h.items, item{})
	}
	h.move(i, item{key, origin})
}

// remove removes an origin if it is there.
func (h *order) remove(origin int32) {
	i, last := int(h.at[origin])-1, len(h.items)-1
	if i < 0 {
		return
	}
	moved := h.items[last]
	h.items = h.items[:last]
	if h.at[origin] = 0; i < last {
		h.move(i, moved)
	}
}

// move puts an item where it belongs, from place i, which is free.
func (h *order) move(i int, moved item) {
	for i > 0 {
		parent := (i - 1) / 2
		if h.items[parent].key <= moved.key {
			break
		}
		h.put(i, h.items[parent])
		i = parent
	}
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.items[right].key < h.items[child].key {
			child = right
		}
		if h.items[child].key >= moved.key {
			break
		}
		h.put(i, h.items[child])
		i = child
	}
	h.put(i, moved)
}

func (h *order) put(i int, moved item) {
	h.items[i] = moved
	h.at[moved.origin] = int32(i) + 1
}
