package dashboard

import (
	"context"
	"sync"
	"time"
)

const (
	refresh   = 2 * time.Second // how long data of a page is shown to all who read it
	maxShared = 500             // addresses whose data is kept at a time
)

// shared is the data of pages, by address: many readers of an address cost one reading.
type shared struct {
	mu   sync.Mutex
	byID map[string]*reading
}

// reading is data that is there, or on its way until done is closed.
type reading struct {
	since time.Time
	done  chan struct{}
	data  any
	err   error
}

// of returns the data of an address, which compute returns. It waits for it no longer than ctx
// lasts; compute goes on for the others.
func (s *shared) of(ctx context.Context, address string, compute func(ctx context.Context) (any, error)) (any, error) {
	s.mu.Lock()
	now := time.Now()
	r := s.byID[address]
	if r == nil || r.isDone() && now.Sub(r.since) > refresh { // since is written before it is done
		if len(s.byID) >= maxShared || s.byID == nil {
			s.byID = map[string]*reading{}
		}
		r = &reading{since: now, done: make(chan struct{})}
		s.byID[address] = r
		go func() {
			defer close(r.done)
			r.data, r.err = compute(context.WithoutCancel(ctx))
			r.since = time.Now()
		}()
	}
	s.mu.Unlock()
	select {
	case <-r.done:
		return r.data, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// forget has all read anew.
func (s *shared) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID = nil
}

func (r *reading) isDone() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}
