package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/service"
)

// silentPublisher gets no answer from the broker for its first batches, and then confirms at once.
type silentPublisher struct {
	silent  int64         // batches
	batches atomic.Int64  // that began
	begun   chan struct{} // a value for each silent batch
	reached atomic.Int64  // silent batches that a stop ended, not their own time limit
}

func newSilentPublisher(silent int64) *silentPublisher {
	return &silentPublisher{silent: silent, begun: make(chan struct{}, silent)}
}

func (*silentPublisher) DeclareQueue(context.Context, string) error { return nil }

func (p *silentPublisher) Publish(ctx context.Context, m []celery.TaskMessage) []error {
	errs := make([]error, len(m))
	if p.batches.Add(1) > p.silent {
		return errs
	}
	p.begun <- struct{}{}
	<-ctx.Done()
	if errors.Is(ctx.Err(), context.Canceled) {
		p.reached.Add(1)
	}
	for i := range errs {
		errs[i] = fmt.Errorf("%w: %w", celery.ErrNotSent, ctx.Err())
	}
	return errs
}

// stopAfter runs a deliverer as a daemon's component, stops it once n batches have begun, and returns the result.
func (p *silentPublisher) stopAfter(t *testing.T, n int, d *dispatch.Deliverer, grace time.Duration) error {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- service.Group{Log: slog.New(slog.DiscardHandler), Grace: grace}.Run(ctx, service.Component{Name: "deliverer", Run: d.Run})
	}()
	for range n {
		<-p.begun
	}
	stop()
	return <-ended
}

// A stop reaches the batch that a daemon's deliverer sends. What is left is sent within StopBound.
func TestStopReachesTheBatchThatIsSent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "q", 10)
	p := newSilentPublisher(1)
	if err := p.stopAfter(t, 1, b.deliverer(t, p), 0); err != nil {
		t.Error(err)
	}
	if p.reached.Load() != 1 {
		t.Error("the batch ended by its own time limit")
	}
	if n := b.outbox(t); n != 0 {
		t.Errorf("%d messages were not sent", n)
	}
}

// The end of the grace period reaches the messages that are sent after a stop, so that the transaction of those that
// are confirmed is committed.
func TestEndOfGraceReachesTheDrain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "q", 10)
	p := newSilentPublisher(100)
	err := p.stopAfter(t, 1, b.deliverer(t, p), 1500*time.Millisecond)
	if err != nil && (!errors.Is(err, service.ErrForced) || strings.Contains(err.Error(), "busy")) {
		t.Errorf("the deliverer has not returned: %v", err)
	}
	if sent, reached := p.batches.Load(), p.reached.Load(); sent != reached || sent < 2 {
		t.Errorf("the stop ended %d of %d batches, want all", reached, sent)
	}
}

// failingPublisher sends nothing.
type failingPublisher struct{}

func (failingPublisher) DeclareQueue(context.Context, string) error { return nil }

func (failingPublisher) Publish(_ context.Context, m []celery.TaskMessage) []error {
	errs := make([]error, len(m))
	for i := range errs {
		errs[i] = fmt.Errorf("%w: the broker is away", celery.ErrNotSent)
	}
	return errs
}

// DrainUntil stops at the first error, also if the claimer waits for the deliverer to make room.
func TestDrainUntilStopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "q", 3)
	d := b.deliverer(t, failingPublisher{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := d.DrainUntil(ctx, nil); !errors.Is(err, celery.ErrNotSent) || ctx.Err() != nil { // the claimer never ends by itself
		t.Errorf("it returned %v", err)
	}
}
