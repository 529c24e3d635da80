package service

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// The waits of a zero Backoff.
const (
	DefaultMinWait = 500 * time.Millisecond
	DefaultMaxWait = 10 * time.Second
)

// Backoff returns the waits between tries of a failing operation. The upper bound doubles with each try, from twice
// Min up to Max. The wait is drawn evenly between Min and that bound ("full jitter"), so that many daemons do not
// return to a restarted server all at once.
//
// The zero Backoff is ready to use. It belongs to one goroutine.
type Backoff struct {
	Min  time.Duration  // shortest wait; 0 means DefaultMinWait
	Max  time.Duration  // longest wait; 0 means DefaultMaxWait
	Rand func() float64 // in [0, 1); nil means math/rand/v2

	bound time.Duration // upper bound of the last wait; 0 before the first
}

// Next returns the wait before the next try.
func (b *Backoff) Next() time.Duration {
	shortest, longest := b.limits()
	b.bound = cmp.Or(b.bound, shortest)
	if b.bound > longest/2 { // doubling could overflow
		b.bound = longest
	} else {
		b.bound *= 2
	}
	random := rand.Float64
	if b.Rand != nil {
		random = b.Rand
	}
	spread := b.bound - shortest
	return shortest + min(spread, time.Duration(random()*float64(spread)))
}

// Reset starts again from the shortest waits; call it after a success.
func (b *Backoff) Reset() { b.bound = 0 }

// Wait sleeps for Next, or returns the error of ctx if that ends first.
func (b *Backoff) Wait(ctx context.Context) error { return Sleep(ctx, b.Next()) }

func (b *Backoff) limits() (shortest, longest time.Duration) {
	shortest = cmp.Or(max(0, b.Min), DefaultMinWait)
	longest = cmp.Or(max(0, b.Max), DefaultMaxWait)
	return shortest, max(shortest, longest)
}

// Sleep waits for d, or returns the error of ctx if that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Background runs functions at the same time until stop is called. stop waits for them.
func Background(ctx context.Context, run ...func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, f := range run {
		running.Go(func() { f(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// Within calls do with a context that ends after d.
func Within(ctx context.Context, d time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return do(ctx)
}
