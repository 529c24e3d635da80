package freshsim

// order is a heap of origins, by number, with keys that can change.
type order struct {
	origins []int32
	at      []int32 // place of each origin, + 1; 0: not in the heap
	keys    []float64
	left    []int32
}

func newOrder(n int) *order { return &order{at: make([]int32, n), keys: make([]float64, n)} }

func (h *order) len() int { return len(h.origins) }

// first returns the origin with the smallest key.
func (h *order) first() (origin int32, key float64) { return h.origins[0], h.keys[h.origins[0]] }

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
		i = len(h.origins)
		h.origins = append(h.origins, origin)
	}
	h.keys[origin] = key
	h.down(h.up(i))
}

// remove removes an origin if it is there.
func (h *order) remove(origin int32) {
	i, last := int(h.at[origin])-1, len(h.origins)-1
	if i < 0 {
		return
	}
	moved := h.origins[last]
	h.origins = h.origins[:last]
	if h.at[origin] = 0; i < last {
		h.origins[i] = moved
		h.down(h.up(i))
	}
}

func (h *order) up(i int) int {
	origin, key := h.origins[i], h.keys[h.origins[i]]
	for i > 0 {
		parent := (i - 1) / 2
		if h.keys[h.origins[parent]] <= key {
			break
		}
		h.put(i, h.origins[parent])
		i = parent
	}
	h.put(i, origin)
	return i
}

func (h *order) down(i int) {
	origin, key := h.origins[i], h.keys[h.origins[i]]
	for {
		child := 2*i + 1
		if child >= len(h.origins) {
			break
		}
		if right := child + 1; right < len(h.origins) && h.keys[h.origins[right]] < h.keys[h.origins[child]] {
			child = right
		}
		if h.keys[h.origins[child]] >= key {
			break
		}
		h.put(i, h.origins[child])
		i = child
	}
	h.put(i, origin)
}

func (h *order) put(i int, origin int32) {
	h.origins[i] = origin
	h.at[origin] = int32(i) + 1
}

// next removes the first origin that take takes, if there is one whose key is not beyond most, and
// returns it. It leaves out those before it until restore.
func (h *order) next(most float64, take func(i int32) bool) (origin int32, key float64, ok bool) {
	for h.len() > 0 {
		i, key := h.first()
		if key > most {
			break
		}
		h.remove(i)
		if take(i) {
			return i, key, true
		}
		h.left = append(h.left, i)
	}
	return 0, 0, false
}

// restore brings back what next left out.
func (h *order) restore() {
	for _, i := range h.left {
		h.set(i, h.keys[i])
	}
	h.left = h.left[:0]
}
