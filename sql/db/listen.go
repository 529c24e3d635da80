package db

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/service"
)

// ListenGraphs calls wake each time tasks of graphs may have to be released, or
// have been, until ctx ends or the connection is lost. It has a connection of its own, to
// [Options.Direct] if that is given: a pooler that shares connections between transactions
// passes on no notifications. So nobody may depend on it.
func (s *Store) ListenGraphs(ctx context.Context, wake func()) error {
	return s.listen(ctx, "listen scheduler_go_graph", wake)
}

// ListenPriorityTasks does what ListenGraphs does, and also calls wake each time a task
// with priority may have become ready (the trigger scheduler_go_priority_task).
func (s *Store) ListenPriorityTasks(ctx context.Context, wake func()) error {
	return s.listen(ctx, "listen scheduler_go_graph; listen scheduler_go_priority_task", wake)
}

// ListenLanes calls wake each time work may have come into the backlog of a further
// lane, until ctx ends or the connection is lost; see ListenGraphs.
func (s *Store) ListenLanes(ctx context.Context, wake func()) error {
	return s.listen(ctx, "listen scheduler_go_lanes", wake)
}

func (s *Store) listen(ctx context.Context, statements string, wake func()) (err error) {
	defer func() { err = failed(err, "listen for tasks") }()
	conn, err := pgx.ConnectConfig(ctx, s.watch.config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, statements); err != nil {
		return err
	}
	wake() // for what came before
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

// listenPing is how often a connection that hears nothing is asked whether it is alive,
// and how long it may take to say so: nobody would notice otherwise that it has fallen
// silent.
const listenPing = 15 * time.Second
