package rpc

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

// Large bodies share room in memory: a call whose body is larger than smallBody waits
// until it fits beside the large ones that are being answered. Small calls never wait.
const (
	smallBody       = 64 << 10
	defaultRoomWait = 20 * time.Second // below bodyTimeout, within which the rest must come
	retryAfter      = "5"              // seconds
)

// room bounds the bytes of large bodies in memory.
type room struct {
	*semaphore.Weighted
	wait time.Duration
}

func newRoom(size int64, wait time.Duration) room {
	return room{semaphore.NewWeighted(size), wait}
}

// reserve waits for room for a body of at most size bytes, until it is released. It
// returns an error with the status 503 if that takes too long.
func (r room) reserve(ctx context.Context, size int64) error {
	waiting, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	if err := r.Acquire(waiting, size); err != nil {
		return httpError(http.StatusServiceUnavailable, "ServiceUnavailable", "The server has too many large requests in hand; try again later.")
	}
	return nil
}
