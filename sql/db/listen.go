package db

import "context"

// ListenGraphs calls wake each time tasks of graphs may have to be released, or
// have been, until ctx ends or the connection is lost. It keeps one connection of
// the pool for itself. Behind a pooler that shares connections between
// transactions nothing is heard, so nobody may depend on it.
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
	shared, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	conn := shared.Hijack() // it must not go back to the pool still listening
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, statements); err != nil {
		return err
	}
	for {
		wake() // the first time for what came before
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}
