package daemon

import (
	"context"
	"log/slog"
)

// Listen keeps listening for news until ctx ends: each time listen calls wake, and
// when it has begun anew after a failure, there is something in the channel, which
// is a Loop's Wake. While listening fails the loop's period alone decides, which is
// slower and nothing else, so it is hardly worth a word.
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
