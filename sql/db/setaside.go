package db

import (
	"context"
	"errors"

	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// Tasks and origins that cannot be sent as they are (scheduler_go.odd_task, odd_origin),
// or that PostgreSQL refuses in a claim or in the drain of candidates or graphs, are set aside in the
// tables set_aside_tasks and set_aside_origins, with the reason: claims pass them by, and
// the others go on. They are tried again when they change, and after a day at most.
const (
	// maxListed bounds how many are logged at once.
	maxListed = 100

	// maxCounted bounds their counts.
	maxCounted = 100_000
)

// SetAside says why a task or an origin is set aside, since when, and until when: then it is tried again,
// changed or not.
type SetAside = queries.SetAsideTaskRow

// SetAsideTask returns why a task is set aside; nil if it isn't.
func (a ExplainStore) SetAsideTask(ctx context.Context, task int64) (*SetAside, error) {
	rows, err := a.q.SetAsideTask(ctx, task)
	return stmt.First(rows, stmt.Failed(err, "look whether task %d is set aside", task))
}

// SetAsideOrigins returns the origins with a URL that are set aside, by visit type and lister.
func (a ExplainStore) SetAsideOrigins(ctx context.Context, url string) ([]queries.SetAsideOriginsRow, error) {
	rows, err := a.q.SetAsideOrigins(ctx, url)
	return rows, stmt.Failed(err, "look whether %s is set aside", url)
}

// RetrySetAside puts back tasks and origins that changed, or whose Until has passed.
func (s JobStore) RetrySetAside(ctx context.Context) error {
	return stmt.Failed(errors.Join(s.q.RetryTasks(ctx), s.q.RetryOrigins(ctx)), "try again what was set aside")
}

// NewlySetAside returns tasks and origins that were set aside and that it has not returned before.
func (s JobStore) NewlySetAside(ctx context.Context) (tasks []queries.NewlySetAsideTasksRow, origins []queries.NewlySetAsideOriginsRow, err error) {
	if tasks, err = s.q.NewlySetAsideTasks(ctx, maxListed); err == nil {
		origins, err = s.q.NewlySetAsideOrigins(ctx, maxListed)
	}
	return tasks, origins, stmt.Failed(err, "list what was set aside")
}
