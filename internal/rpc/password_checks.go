package rpc

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// Bounds of checks of passwords, each of which takes about 100 ms of a processor and up to 64 MiB. One check runs at
// a time.
const (
	maxChecks     = 64 // waiting or running
	maxChecksFrom = 8  // one address
	checkWait     = 5 * time.Second
)

// passwordChecks bounds checks of passwords.
type passwordChecks struct {
	one chan struct{} // has a slot for the running check

	mu   sync.Mutex
	all  int
	from map[netip.Prefix]int
}

func newPasswordChecks() *passwordChecks {
	return &passwordChecks{one: make(chan struct{}, 1), from: map[netip.Prefix]int{}}
}

// check returns the identity for a user's password, nil if it is wrong. Requests with the same password at once
// share a check. The error is errBusy, or the context's.
func (c *passwordChecks) check(ctx context.Context, a *access, from netip.Prefix, user, password string) (*identity, error) {
	sum := a.sum(user, password)
	flight := a.flights.DoChan(string(sum[:]), func() (any, error) {
		a.mu.Lock()
		id := a.right[sum]
		a.mu.Unlock()
		if id != nil {
			return id, nil // of the flight before
		}
		leave, ok := c.enter(from)
		if !ok {
			return nil, errBusy
		}
		defer leave()
		timeout := time.NewTimer(checkWait)
		defer timeout.Stop()
		select {
		case c.one <- struct{}{}:
		case <-timeout.C:
			return nil, errBusy
		}
		defer func() { <-c.one }()
		return a.slow(user, password), nil
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case done := <-flight:
		id, _ := done.Val.(*identity)
		return id, done.Err
	}
}

// enter counts a check until leave. It returns false if there are too many.
func (c *passwordChecks) enter(from netip.Prefix) (leave func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= maxChecks || c.from[from] >= maxChecksFrom {
		return nil, false
	}
	c.all++
	c.from[from]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all--
		if c.from[from]--; c.from[from] == 0 {
			delete(c.from, from)
		}
	}, true
}
