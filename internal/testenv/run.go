package testenv

import (
	"context"
	"sync"
	"testing"
)

// Run calls run until stop is called or the test ends, and waits for its return. The test fails if run returns an
// error, or returns early.
func Run(t testing.TB, run func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); err != nil || ctx.Err() == nil {
			t.Errorf("ended with: %v", err)
		}
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}
