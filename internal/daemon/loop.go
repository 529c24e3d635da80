package daemon

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Result is what one round of work asks of the loop around it.
type Result struct {
	// Next is the wait before the next round; 0 means the loop's Period. A
	// round that knows better (more work at hand, a full queue) sets it.
	Next time.Duration
	// Again asks for the next round at once: there was more than fitted in one.
	Again bool
}

// Loop is a thin ticker around RunOnce, which is where the work, and the tests,
// are. It lives from Run's call to its return.
type Loop struct {
	// RunOnce does one round of work. Its context is the one of InFlight: it
	// outlives the request to stop, so that a round is finished, not torn.
	RunOnce func(ctx context.Context) (Result, error)
	// Period is the wait between the end of a round and the next.
	Period time.Duration
	// Jitter delays the first round by a random part of Period, so that loops
	// started together spread out.
	Jitter bool
	// Wake, if not nil, starts the next round early. While a round fails it is
	// not listened to: news of work must not defeat the back-off.
	Wake <-chan struct{}
	// Backoff gives the waits after an error.
	Backoff Backoff
	// Service, if not nil, hears how each round ended.
	Service *Service
}

// Run works until ctx ends, finishes the round it is in, and returns nil. An
// error of RunOnce never ends it.
func (l *Loop) Run(ctx context.Context) error {
	var wait time.Duration
	if l.Jitter {
		wait = time.Duration(rand.Float64() * float64(l.Period))
	}
	wake := l.Wake
	begin, end, gone := HealthOf(ctx).loop(l)
	defer gone()
	for {
		if !l.wait(ctx, wait, wake) {
			return nil
		}
		begin()
		var ok bool
		wait, wake, ok = l.round(ctx)
		end(ok)
	}
}

// round runs RunOnce and says how long to wait after it, what may cut that wait
// short, and whether the round went well.
func (l *Loop) round(ctx context.Context) (wait time.Duration, wake <-chan struct{}, ok bool) {
	result, err := l.RunOnce(InFlight(ctx))
	if err != nil {
		if l.Service != nil && !errors.Is(err, context.Canceled) {
			l.Service.Failed(err)
		}
		return l.Backoff.Next(), nil, false
	}
	if l.Service != nil {
		l.Service.OK()
	}
	l.Backoff.Reset()
	switch {
	case result.Again:
		return 0, l.Wake, true
	case result.Next > 0:
		return result.Next, l.Wake, true
	}
	return l.Period, l.Wake, true
}

// wait is false when ctx has ended.
func (l *Loop) wait(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
	}
	return ctx.Err() == nil
}
