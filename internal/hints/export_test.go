package hints

import (
	"net/http"
	"time"

	"swh-scheduler/internal/model"
)

// Pending returns how many requests wait for a transaction.
func Pending(b *Batcher) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.pending)
}

// HintsOf reads a webhook of a kind of forge.
func HintsOf(kind string, header http.Header, body []byte) ([]model.Hint, error) {
	return forges[kind].hintsOf(header, body)
}

// Signed reports whether a webhook of a kind of forge has a signature of a secret.
func Signed(kind string, header http.Header, body []byte, secret string) bool {
	return forges[kind].signed(header, body, []string{secret}, time.Now())
}

// Room returns the bytes that bodies may still take.
func Room(w *Webhooks) int64 {
	for n := int64(maxBodies); n > 0; n -= bodyStep {
		if w.bodies.TryAcquire(n) {
			w.bodies.Release(n)
			return n
		}
	}
	return 0
}
