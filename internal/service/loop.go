package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Result is what one round of work asks of the loop around it.
type Result struct {
	Next  time.Duration // the wait before the next round; 0 means the loop's Period
	Again bool          // start the next round at once: there is more work
}

// Loop calls RunOnce again and again, from Run's call to its return.
type Loop struct {
	// RunOnce does one round of work. Its context is the one of InFlight, which
	// outlives the request to stop, so that a round is finished.
	RunOnce func(ctx context.Context) (Result, error)
	Period  time.Duration // between the end of a round and the next
	Jitter  bool          // delay the first round by a random part of Period
	// Wake, if not nil, starts the next round early, but not after an error, as
	// that would defeat the back-off.
	Wake    <-chan struct{}
	Backoff Backoff  // the waits after an error
	Service *Service // if not nil, is told how each round ended
	// Beside says that the daemon is alive and ready without this loop, however slow it is
	// or whatever it waits for.
	Beside bool
}

// Run works until ctx ends, finishes the round it is in, and returns nil. An
// error of RunOnce never ends it.
func (l *Loop) Run(ctx context.Context) error {
	var wait time.Duration
	if l.Jitter {
		wait = time.Duration(rand.Float64() * float64(l.Period))
	}
	wake := l.Wake
	health := HealthOf(ctx)
	pulse, met := l.report(health)
	pulse.Done(wait)
	defer func() { // nobody waits for a loop that has ended
		pulse.Gone()
		met()
		if !l.Beside {
			health.unwatch(l.Service)
		}
	}()
	for {
		if !l.wait(ctx, wait, wake) {
			return nil
		}
		pulse.Begin()
		var ok bool
		if wait, wake, ok = l.round(ctx); !ok {
			pulse.Failed()
			continue
		}
		pulse.Done(max(wait, 1)) // 0 would be: never due
		met()
	}
}

// Every calls do each period until ctx ends, beside the daemon's work (Loop.Beside). needs
// names in the log what do fails without.
func Every(ctx context.Context, period time.Duration, log *slog.Logger, needs string, do func(ctx context.Context) error) error {
	return (&Loop{
		RunOnce: func(ctx context.Context) (Result, error) { return Result{}, do(ctx) },
		Period:  period, Service: NewService(log, needs), Beside: true,
	}).Run(ctx)
}

// report has h know the loop. The daemon is not ready before met is called.
func (l *Loop) report(h *Health) (pulse *Pulse, met func()) {
	name := "a loop"
	if l.Service != nil {
		name = l.Service.name
	}
	pulse = h.add(Pulse{name: name, beside: l.Beside})
	if l.Service == nil || l.Beside {
		return pulse, func() {}
	}
	h.Watch(l.Service)
	return pulse, h.Expect("a first round with " + name)
}

// round runs RunOnce. It returns how long to wait after it, what may cut that wait
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
	if result.Again {
		return 0, l.Wake, true
	}
	return cmp.Or(max(0, result.Next), l.Period), l.Wake, true
}

// wait reports false when ctx has ended.
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
