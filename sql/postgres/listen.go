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
	return func(ctx context.Context, wake func()) error { return d.listen(ctx, channels, wake) }
}

func (d *DB) listen(ctx context.Context, channels []string, wake func()) (err error) {
	defer func() { err = stmt.Failed(err, "listen for tasks") }()
	conn, err := pgx.ConnectConfig(ctx, d.watch.config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "listen "+strings.Join(channels, "; listen ")); err != nil {
		return err
	}
	wake() // for notifications before the LISTEN
	for {
		err := service.Within(ctx, listenPing, func(ctx context.Context) error {
			_, err := conn.WaitForNotification(ctx)
			return err
		})
		switch {
		case err == nil:
			wake()
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
