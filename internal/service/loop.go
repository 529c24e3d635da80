package service

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Result is what one round of work asks of the loop around it.
type Result struct {
	Next  time.Duration // the wait before the next round; 0 means the loop's Period
	Again bool          // start the next round at once: there is more work
}

// Loop calls RunOnce again and again, from Run's call to its return.
type Loop struct {
	// Name says what the loop does ("maintenance", "claiming tasks"), in health, metrics and
	// the log, which has a line when rounds begin to fail and when they work again.
	Name string
	Log  *slog.Logger
	// RunOnce does one round of work. Its context is the one of InFlight, which
	// outlives the request to stop, so that a round is finished.
	RunOnce func(ctx context.Context) (Result, error)
	Period  time.Duration // between the end of a round and the next
	Jitter  bool          // delay the first round by a random part of Period
	// Wake, if not nil, starts the next round early, but not after an error, as
	// that would defeat the back-off.
	Wake <-chan struct{}
	// Listen, if not nil, calls wake when there is news, until ctx ends or it fails: it takes
	// the place of Wake. While it fails, Period alone decides, which is only slower.
	Listen  func(ctx context.Context, wake func()) error
	Backoff Backoff // the waits after an error
	// Beside says that the daemon is alive and ready without this loop, however slow it is
	// or whatever fails.
	Optional bool
}

// Run works until ctx ends, finishes the round it is in, and returns nil. An
// error of RunOnce never ends it.
func (l *Loop) Run(ctx context.Context) error {
	if l.Listen != nil {
		var listening sync.WaitGroup
		defer listening.Wait()
		news := make(chan struct{}, 1)
		l.Wake = news
		listening.Go(func() { l.listen(ctx, news) })
	}
	var wait time.Duration
	if l.Jitter {
		wait = time.Duration(rand.Float64() * float64(l.Period))
	}
	wake := l.Wake
	pulse := newPulse(l.Log, l.Name)
	pulse.beside, pulse.awaited = l.Optional, !l.Optional
	HealthOf(ctx).add(pulse)
	defer pulse.Gone() // nobody waits for a loop that has ended
	pulse.Done(wait)
	for l.wait(ctx, wait, wake) {
		pulse.Begin()
		result, err := l.RunOnce(InFlight(ctx))
		if err != nil {
			pulse.Failed(err)
			wait, wake = l.Backoff.Next(), nil
			continue
		}
		l.Backoff.Reset()
		wait, wake = cmp.Or(max(0, result.Next), l.Period), l.Wake
		if result.Again {
			wait = 0
		}
		pulse.Done(max(wait, 1)) // 0 would be: never due
	}
	return nil
}

// Every calls do each period until ctx ends, beside the daemon's work (Loop.Beside). name
// says what do does. The first call comes at once, the second early by a random part of the
// period, so that daemons that start together don't stay in step.
func Every(ctx context.Context, period time.Duration, log *slog.Logger, name string, do func(ctx context.Context) error) error {
	next := rand.N(period)
	return (&Loop{
		Name: name, Log: log, Period: period, Optional: true,
		RunOnce: func(ctx context.Context) (Result, error) {
			result, err := Result{Next: next}, do(ctx)
			if err == nil {
				next = period
			}
			return result, err
		},
	}).Run(ctx)
}

// listen calls Listen again and again until ctx ends. Each time that calls wake, it puts a
// value into news unless one is there.
func (l *Loop) listen(ctx context.Context, news chan<- struct{}) {
	var backoff Backoff
	for {
		err := l.Listen(ctx, func() {
			backoff.Reset()
			select {
			case news <- struct{}{}:
			default:
			}
		})
		if ctx.Err() == nil {
			l.Log.Debug(l.Name+" is no longer woken by news", "error", err)
		}
		if backoff.Wait(ctx) != nil {
			return
		}
	}
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
