package dashboard

import (
	"fmt"
	"log/slog"
	"runtime/debug"
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
