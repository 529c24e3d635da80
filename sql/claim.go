package sql

import (
	"context"
	"time"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// ReadyTaskTypes lists the types that have a task to run at now: one without
// priority, or one with any.
func (s *Store) ReadyTaskTypes(ctx context.Context, now time.Time, withPriority bool) ([]string, error) {
	return s.q.ReadyTaskTypes(ctx, queries.ReadyTaskTypesParams{Now: now, WithPriority: withPriority})
}

// TaskClaim says which tasks ClaimTasks takes and where their messages go.
type TaskClaim struct {
	Type         scheduler.TaskType
	Queue        string
	WithPriority bool // tasks of any priority, highest first, instead of those without
	Max          int
	Now          time.Time
}

// ClaimTasks marks up to c.Max ready tasks as scheduled, with a run and an
// outbox row each, as the peer's runner leaves them (its runs have no metadata
// yet). It returns how many it took.
func (tx *Tx) ClaimTasks(ctx context.Context, c TaskClaim) (int, error) {
	params := queries.ClaimTasksParams{
		Type: c.Type.Type, TaskName: c.Type.BackendName, Queue: c.Queue,
		Now: c.Now, MaxTasks: int32(c.Max),
	}
	var n int64
	var err error
	if c.WithPriority {
		n, err = tx.q.ClaimPriorityTasks(ctx, queries.ClaimPriorityTasksParams(params))
	} else {
		n, err = tx.q.ClaimTasks(ctx, params)
	}
	return int(n), err
}
