package freshsim

// hosted orders origins and can exclude full hosters: a heap of origins for each hoster, and a heap of hosters.
type hosted struct {
	origins []origin
	at      []int32  // as in order; shared by the heaps of all hosters
	hosters []*order // by hoster: its origins
	firsts  *order   // hosters with origins, by the key of the first origin
	full    []int32  // hosters that next has excluded
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

// key returns the key of an origin if it is in the order.
func (h *hosted) key(i int32) (key float64, ok bool) {
	of := h.hosters[h.origins[i].hoster]
	if at := int(h.at[i]) - 1; at >= 0 {
		return of.items[at].key, true
	}
	return 0, false
}

// set adds an origin or changes its key.
func (h *hosted) set(i int32, key float64) {
	hoster := h.origins[i].hoster
	h.hosters[hoster].set(i, key)
	h.file(int32(hoster))
}

// remove removes an origin if it is in the order.
func (h *hosted) remove(i int32) {
	hoster := h.origins[i].hoster
	h.hosters[hoster].remove(i)
	h.file(int32(hoster))
}

// file updates the key of a hoster to that of its first origin.
func (h *hosted) file(hoster int32) {
	if h.hosters[hoster].Len() == 0 {
		h.firsts.remove(hoster)
		return
	}
	_, key := h.hosters[hoster].first()
	h.firsts.set(hoster, key)
}

// next removes and returns the first origin that take accepts, if its key is at most most. It excludes the hosters of
// refused origins until restore is called.
func (h *hosted) next(most float64, take func(i int32) bool) (origin int32, key float64, ok bool) {
	for h.firsts.Len() > 0 {
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

// restore includes all hosters again.
func (h *hosted) restore() {
	for _, hoster := range h.full {
		h.file(hoster)
	}
	h.full = h.full[:0]
}
