package sql

import (
	"context"
	"fmt"
)

// ListenGraphs calls wake each time tasks of graphs may have to be released, or
// have been, until ctx ends or the connection is lost. It keeps one connection of
// the pool for itself. Behind a pooler that shares connections between
// transactions nothing is heard: nobody may depend on it.
func (s *Store) ListenGraphs(ctx context.Context, wake func()) error {
	return s.listen(ctx, "listen scheduler_go_graph", wake)
}

// ListenPriorityTasks is ListenGraphs that also calls wake each time a task with
// priority may have become ready (the trigger scheduler_go_priority_task).
func (s *Store) ListenPriorityTasks(ctx context.Context, wake func()) error {
	return s.listen(ctx, "listen scheduler_go_graph; listen scheduler_go_priority_task", wake)
}

func (s *Store) listen(ctx context.Context, statements string, wake func()) error {
	shared, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("listen for tasks: %w", err)
	}
	conn := shared.Hijack() // it must not go back to the pool still listening
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, statements); err != nil {
		return fmt.Errorf("listen for tasks: %w", err)
	}
	wake() // for what came while nobody listened
	for {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return fmt.Errorf("listen for tasks: %w", err)
		}
		wake()
	}
}
