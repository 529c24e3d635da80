package service

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Result sets when the loop starts the next round.
type Result struct {
	Next  time.Duration // the wait before the next round; 0 means the loop's Period
	Again bool          // start the next round at once: there is more work
}

// Loop calls RunOnce repeatedly, from Run's call to its return.
type Loop struct {
	// Name is the name of the work ("maintenance", "claiming tasks") in health, metrics and the log. The log has a
	// line when rounds begin to fail and one when they succeed again.
	Name string
	Log  *slog.Logger
	// RunOnce does one round of work. Its context is that of InFlight, which outlives ctx, so that a round is
	// finished, or ctx itself with CutShort.
	RunOnce func(ctx context.Context) (Result, error)
	// CutShort is for rounds that need no end: those that only measure, or that Run's caller continues.
	CutShort bool
	Period   time.Duration // between the end of a round and the next
	Jitter   bool          // delay the first round by a random part of Period
	// Wake, if not nil, starts the next round early, but not after an error: that would defeat the back-off.
	Wake <-chan struct{}
	// Listen, if not nil, calls wake when there is new work, until ctx ends or it fails: it replaces Wake. While it
	// fails, rounds start by Period only.
	Listen  func(ctx context.Context, wake func()) error
	Backoff Backoff // the waits after an error
	// Optional: the daemon counts as alive and ready whatever the state of this loop.
	Optional bool
}

// Run works until ctx ends, waits for the end of its round, and returns nil. An error of RunOnce never ends it.
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
	defer pulse.Remove() // an ended loop is no longer expected to report
	pulse.Done(wait)
	round := InFlight(ctx)
	if l.CutShort {
		round = ctx
	}
	for l.wait(ctx, wait, wake) {
		pulse.Begin()
		result, err := l.RunOnce(round)
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
		pulse.Done(max(wait, 1)) // 0 would mean: never due
	}
	return nil
}

// Every calls do once a period until ctx ends, as an optional loop (Loop.Optional). name is the name of the work.
// The first call comes at once, the second early by a random part of the period, so that daemons that start together
// don't stay in step. A stop cuts a call short.
func Every(ctx context.Context, period time.Duration, log *slog.Logger, name string, do func(ctx context.Context) error) error {
	next := rand.N(period)
	return (&Loop{
		Name: name, Log: log, Period: period, Optional: true, CutShort: true,
		RunOnce: func(ctx context.Context) (Result, error) {
			result, err := Result{Next: next}, do(ctx)
			if err == nil {
				next = period
			}
			return result, err
		},
	}).Run(ctx)
}

// listen calls Listen repeatedly until ctx ends. Each call of wake puts a value into news, unless it has one.
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

// wait returns false when ctx has ended.
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
