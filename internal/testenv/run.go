package testenv

import (
	"context"
	"sync"
	"testing"
)

// Run runs something until stop is called, or the test ends, and waits for its end. The test
// fails if it returns an error, or ends by itself.
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
