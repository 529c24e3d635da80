package freshsim

// hosted is an order of origins whose hosters can be full: a heap for each hoster, and one of hosters.
type hosted struct {
	origins []origin
	at      []int32  // see order, for the heaps of all hosters
	hosters []*order // of origins
	firsts  *order   // hosters with origins, by the key of the first
	full    []int32  // hosters that next left out
}

func newHosted(origins []origin) *hosted {
	h, n := &hosted{origins: origins, at: make([]int32, len(origins))}, 1
	for i := range origins {
		n = max(n, origins[i].hoster+1)
	}
	for range n {
		h.hosters = append(h.hosters, &order{at: h.at})
	}
	h.firsts = newOrder(n)
	return h
}

// has reports whether an origin is in the order.
func (h *hosted) has(i int32) bool { return h.at[i] != 0 }

// set adds an origin, or changes its key.
func (h *hosted) set(i int32, key float64) {
	hoster := h.origins[i].hoster
	h.hosters[hoster].set(i, key)
	h.file(int32(hoster))
}

// remove removes an origin if it is there.
func (h *hosted) remove(i int32) {
	hoster := h.origins[i].hoster
	h.hosters[hoster].remove(i)
	h.file(int32(hoster))
}

// file puts a hoster where its first origin belongs.
func (h *hosted) file(hoster int32) {
	if h.hosters[hoster].len() == 0 {
		h.firsts.remove(hoster)
		return
	}
	_, key := h.hosters[hoster].first()
	h.firsts.set(hoster, key)
}

// next removes the first origin that take takes, if there is one whose key is not beyond most, and
// returns it. It leaves out the hosters of those that take refuses until restore.
func (h *hosted) next(most float64, take func(i int32) bool) (origin int32, key float64, ok bool) {
	for h.firsts.len() > 0 {
		hoster, key := h.firsts.first()
		if key > most {
			break
		}
		i, _ := h.hosters[hoster].first()
		if take(i) {
			h.remove(i)
			return i, key, true
		}
		h.firsts.remove(hoster)
		h.full = append(h.full, hoster)
	}
	return 0, 0, false
}

// restore brings back what next left out.
func (h *hosted) restore() {
	for _, hoster := range h.full {
		h.file(hoster)
	}
	h.full = h.full[:0]
}
