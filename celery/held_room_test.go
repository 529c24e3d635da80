package celery

import "testing"

// Acknowledging a delivery frees the bytes of it and of all earlier deliveries.
func TestAcknowledgedBytesMakeRoom(t *testing.T) {
	t.Parallel()
	h := newHeld()
	h.limit = 10
	for tag := uint64(1); tag <= 3; tag++ {
		h.take(tag)
		h.handOver(tag, tag)
	}
	for _, step := range []struct{ tag, left uint64 }{{0, 6}, {2, 3}, {2, 3}, {3, 0}} {
		if h.release(step.tag); h.bytes != step.left {
			t.Errorf("%d bytes are held after %d, want %d", h.bytes, step.tag, step.left)
		}
	}
}
