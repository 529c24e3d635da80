package listener

import (
	"context"
	"sync"
	"time"

	"swh-scheduler/internal/service"
)

// atOnce is how many batches are applied at the same time. Each has a transaction of its own.
const atOnce = 2

// turn is a batch's place in the order of batches. A batch begins once the one before it holds its locks, so their changes to the same
// runs, tasks and messages keep the order of events. Only if PostgreSQL refuses or ends a batch, the next one may precede it.
// Batches are acknowledged in their order. The time limits of a batch include its wait for the locks of the one before it.
type turn struct {
	number  int
	before  *turn         // nil once that has ended
	locked  chan struct{} // closed once the batch holds its locks, or has ended
	ended   chan struct{} // closed once the batch is acknowledged or given up
	settled bool          // the batch and all before it are written; it is set before ended is closed

	hold func() // closes locked
}

func newTurn(before *turn) *turn {
	t := &turn{number: 1, before: before, locked: make(chan struct{}), ended: make(chan struct{})}
	if before != nil {
		t.number += before.number
	}
	t.hold = sync.OnceFunc(func() { close(t.locked) })
	return t
}

// firstTurn returns the turn before the first batch.
func firstTurn() *turn {
	t := newTurn(nil)
	t.end(true)
	return t
}

func (t *turn) end(settled bool) {
	t.before, t.settled = nil, settled
	close(t.ended)
	t.hold()
}

// givenUp reports whether the batch has ended unwritten, or one before it.
func (t *turn) givenUp() bool {
	select {
	case <-t.ended:
		return !t.settled
	default:
		return false
	}
}

// lockedUpTo returns the function to call when outcomes up to end are locked; nil if others follow.
func (b *batch) lockedUpTo(end int) func() {
	if end < len(b.outcomes) {
		return nil
	}
	return b.turn.hold
}

// begin applies a batch in the background. First it waits until the batch before holds its locks, and all earlier ones have ended.
func (l *Listener) begin(ctx context.Context, b *batch) {
	l.slots <- struct{}{}
	<-l.newest.locked
	l.newest = b.turn
	go func() {
		settled := l.settle(ctx, b)
		<-l.slots
		b.turn.end(settled)
	}()
}

// settle applies a batch, and retries until the database takes it. After the batch before it, it acknowledges the batch. It reports
// false if it gives up, as ctx or the grace period has ended, or if the batch before it has: both are then delivered again.
func (l *Listener) settle(ctx context.Context, b *batch) bool {
	before := b.turn.before
	if before.givenUp() {
		return false
	}
	inFlight := service.InFlight(ctx)
	var backoff service.Backoff
	for err := l.try(inFlight, b); err != nil; err = l.try(inFlight, b) {
		if inFlight.Err() != nil {
			return false
		}
		l.metrics.databaseErrors.Inc()
		l.pulse.Failed(err)
		if backoff.Wait(ctx) != nil {
			return false
		}
	}
	b.turn.hold()
	if <-before.ended; before.givenUp() {
		return false
	}
	l.trace(b.outcomes)
	if b.last != nil {
		if err := l.Source.AckUpTo(*b.last); err != nil {
			// The connection was lost: the batch comes again, and changes nothing.
			l.Log.Debug("batch not acknowledged", "error", err)
		} else {
			l.metrics.lag.acknowledged(b.turn.number, time.Now(), l.Store.Now())
		}
	}
	l.pulse.Done(0)
	if len(l.slots) > 1 {
		l.pulse.Begin() // of the next batch, which began before this one was done
	}
	return true
}

// try applies a batch within a time limit, during which the listener does not count as stuck.
func (l *Listener) try(ctx context.Context, b *batch) error {
	l.pulse.Begin()
	return service.Within(ctx, applyTimeout, func(ctx context.Context) error { return l.apply(ctx, b) })
}
