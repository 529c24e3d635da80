package service

import (
	"context"
	"log/slog"
)

// Listen keeps calling listen until ctx ends. Each time listen calls wake, it puts
// a value into the channel, a Loop's Wake, unless one is there. While listening
// fails, the loop's period alone decides, which is only slower: so failures are
// logged at debug level.
func Listen(ctx context.Context, log *slog.Logger, listen func(ctx context.Context, wake func()) error, wake chan<- struct{}) {
	var backoff Backoff
	for {
		err := listen(ctx, func() {
			backoff.Reset()
			select {
			case wake <- struct{}{}:
			default:
			}
		})
		if ctx.Err() == nil {
			log.Debug("no longer woken by the database", "error", err)
		}
		if backoff.Wait(ctx) != nil {
			return
		}
	}
}
