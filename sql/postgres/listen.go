package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/service"
	"swh-scheduler/sql/internal/stmt"
)

// Listener returns a function that calls wake at each notification on the channels, until ctx ends or the
// connection is lost. It opens a connection of its own, to [Options.Direct] if set. A pooler that shares
// connections between transactions passes on no notifications, so callers must not depend on them.
func (d *DB) Listener(channels ...string) func(ctx context.Context, wake func()) error {
	return func(ctx context.Context, wake func()) error {
		return d.listen(ctx, channels, func(string) { wake() })
	}
}

// ListenerBeside is Listener, and calls notified at each notification on the channel beside, by the same connection.
func (d *DB) ListenerBeside(beside string, notified func(), channels ...string) func(ctx context.Context, wake func()) error {
	return func(ctx context.Context, wake func()) error {
		return d.listen(ctx, append(channels[:len(channels):len(channels)], beside), func(channel string) {
			if channel == beside {
				notified()
			} else {
				wake()
			}
		})
	}
}

// listen calls notified with the channel of each notification, and once with "" when it has begun to listen.
func (d *DB) listen(ctx context.Context, channels []string, notified func(channel string)) (err error) {
	defer func() { err = stmt.Failed(err, "listen for tasks") }()
	conn, err := pgx.ConnectConfig(ctx, d.watch.config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "listen "+strings.Join(channels, "; listen ")); err != nil {
		return err
	}
	notified("") // for notifications before the LISTEN
	for {
		var channel string
		err := service.Within(ctx, listenPing, func(ctx context.Context) error {
			n, err := conn.WaitForNotification(ctx)
			if err == nil {
				channel = n.Channel
			}
			return err
		})
		switch {
		case err == nil:
			notified(channel)
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			if err := service.Within(ctx, listenPing, conn.Ping); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// listenPing is the period of pings on a connection without notifications, and their timeout. Without
// pings, a dead connection would go unnoticed.
const listenPing = 15 * time.Second
