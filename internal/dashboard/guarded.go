package dashboard

import (
	"cmp"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
)

// guarded calls do. It logs a panic and returns it as an error: outside of a request's goroutine, a panic would end the
// process.
func guarded[T any](log *slog.Logger, what string, do func() (T, error)) (value T, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			log.Error("panic", "in", what, "panic", cause, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return do()
}

// inParallel runs functions at the same time, and returns the first error in their order. It logs a panic as one of what,
// and returns it as an error.
func (r *Request) inParallel(what string, all ...func() error) error {
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, one := range all {
		running.Go(func() {
			_, errs[i] = guarded(r.Log, what, func() (struct{}, error) { return struct{}{}, one() })
		})
	}
	running.Wait()
	return cmp.Or(errs...)
}
