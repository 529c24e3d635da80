package rpc

import (
	"container/list"
	"context"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	maxCalls       = 1024         // in progress
	maxCallsOfOne  = maxCalls / 2 // of one address
	maxAwaited     = 512          // bodies that have not arrived
	maxAwaitedFrom = 128          // of one address
	// hurried is the time left for the oldest body when too many are awaited.
	hurried = time.Second
	// largeHurried is the time limit of a large body, from when it has room, while others wait for room.
	largeHurried = 10 * time.Second
)

// callers counts by source address: bodies that are awaited, and calls in progress. The zero netip.Prefix is an
// address without bounds of its own.
type callers struct {
	mu      sync.Mutex
	calls   int
	by      map[netip.Prefix]*caller
	awaited int // bodies, without those that were hurried

	waiting int                   // calls that wait for room for a large body
	reading map[*arrival]struct{} // large bodies that have room
}

type caller struct {
	uses    int
	calls   int
	awaited list.List           // of *arrival, the oldest first
	large   *semaphore.Weighted // of half the room for bodies, or one body
}

// arrival is a body that is being read. deadline sets its time limit.
type arrival struct {
	deadline func(time.Time)
	place    *list.Element // in awaited; nil: it is not awaited, or was hurried
	since    time.Time     // it has room, if it is large
}

func newCallers() *callers {
	return &callers{by: map[netip.Prefix]*caller{}, reading: map[*arrival]struct{}{}}
}

// of returns the counts of an address, which are kept until [callers.left].
func (c *callers) of(from netip.Prefix, bodies int64) *caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	who := c.by[from]
	if who == nil {
		who = &caller{large: semaphore.NewWeighted(max(1, bodies/2))}
		c.by[from] = who
	}
	who.uses++
	return who
}

func (c *callers) left(from netip.Prefix, who *caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if who.uses--; who.uses == 0 {
		delete(c.by, from)
	}
}

// await counts an awaited body. If there are too many of its address, or in all, the oldest body of that address, or
// of the address with the most, gets one more second.
func (c *callers) await(who *caller, bounded bool, a *arrival) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.place = who.awaited.PushBack(a)
	c.awaited++
	switch {
	case bounded && who.awaited.Len() > maxAwaitedFrom:
	case c.awaited > maxAwaited:
		for _, other := range c.by {
			if other.awaited.Len() > who.awaited.Len() {
				who = other
			}
		}
	default:
		return
	}
	oldest := who.awaited.Front().Value.(*arrival)
	c.forget(who, oldest)
	oldest.deadline(time.Now().Add(hurried))
}

// forget ends the wait for a body. The caller holds the lock.
func (c *callers) forget(who *caller, a *arrival) {
	if a.place != nil {
		who.awaited.Remove(a.place)
		a.place = nil
		c.awaited--
	}
}

// arrived records that a body has arrived, or is not read further. The connection has time again only after a body
// that has arrived.
func (c *callers) arrived(who *caller, a *arrival, whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(who, a)
	delete(c.reading, a)
	if whole {
		a.deadline(time.Time{})
	}
}

// enter takes a slot for a call.
func (c *callers) enter(who *caller, bounded bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls >= maxCalls || bounded && who.calls >= maxCallsOfOne {
		return false
	}
	c.calls++
	who.calls++
	return true
}

func (c *callers) leave(who *caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls--
	who.calls--
}

// large waits for room for a large body, and bounds the time that it may take. An address has at most half of the
// room, or one body, so that its bodies don't all precede those of others.
func (c *callers) large(ctx context.Context, r room, who *caller, a *arrival, size int64) error {
	c.mu.Lock()
	c.forget(who, a)
	a.deadline(time.Time{})
	c.waiting++
	for other := range c.reading {
		other.deadline(other.until(c.waiting))
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, r.wait) // for both
	defer cancel()
	err := r.reserve(ctx, who.large, r.ofOne(size))
	if err == nil {
		if err = r.reserve(ctx, r.bodies, size); err != nil {
			who.large.Release(r.ofOne(size))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
	a.since = time.Now()
	if err != nil {
		a.deadline(time.Now().Add(hurried)) // for the server, which reads the rest of a body
		return err
	}
	c.reading[a] = struct{}{}
	a.deadline(a.until(c.waiting))
	return nil
}

// until returns the time limit of a large body.
func (a *arrival) until(waiting int) time.Time {
	if waiting == 0 {
		return a.since.Add(bodyTimeout)
	}
	soon := time.Now().Add(hurried)
	if at := a.since.Add(largeHurried); at.After(soon) {
		return at
	}
	return soon
}
