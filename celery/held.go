package celery

import "sync"

// held bounds the bytes of deliveries that are in memory, from the moment that they are
// read from the socket until they are acknowledged. With the limit 0 it bounds nothing.
type held struct {
	limit uint64

	mu         sync.Mutex
	changed    *sync.Cond
	bytes      uint64
	deliveries []heldDelivery // those handed over, in order
	ended      bool
	last       uint64 // tag of the last delivery that was read from the socket
	released   uint64 // tag up to which deliveries are acknowledged
}

type heldDelivery struct{ tag, size uint64 }

func newHeld() *held {
	h := new(held)
	h.changed = sync.NewCond(&h.mu)
	return h
}

// take waits until the bytes of a body are below the limit, or until end. A single body never waits. take reports
// whether it waited.
func (h *held) take(size uint64) (waited bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for !h.ended && h.bytes > 0 && h.bytes+size > h.limit && h.limit > 0 {
		waited = true
		h.changed.Wait()
	}
	h.bytes += size
	return waited
}

// handOver records the tag of a delivery whose body was taken.
func (h *held) handOver(tag, size uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deliveries = append(h.deliveries, heldDelivery{tag, size})
}

// delivered records that the reading of a delivery begins.
func (h *held) delivered(tag uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = tag
}

// tags returns the tag of the last delivery that was read, and the tag up to which deliveries are acknowledged; 0
// for none.
func (h *held) tags() (last, released uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last, h.released
}

// release subtracts the deliveries up to tag, which are acknowledged.
func (h *held) release(tag uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for ; n < len(h.deliveries) && h.deliveries[n].tag <= tag; n++ {
		h.bytes -= h.deliveries[n].size
	}
	h.deliveries = append(h.deliveries[:0], h.deliveries[n:]...)
	h.released = max(h.released, tag)
	h.changed.Broadcast()
}

// end stops limiting, so that the connection can close in order.
func (h *held) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	h.changed.Broadcast()
}
