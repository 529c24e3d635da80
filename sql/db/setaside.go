package db

import (
	"context"
	"errors"

	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// Some tasks and origins cannot be sent as they are (scheduler_go.odd_task, odd_origin), or PostgreSQL
// refuses them in a claim or a drain. They are set aside, with the reason, in the tables set_aside_tasks
// and set_aside_origins. Claims pass them by and take the others. They are tried again when they change,
// and after a day at most.
const (
	// maxListed bounds the rows that NewlySetAside returns.
	maxListed = 100

	// maxCounted bounds the counts of rows set aside.
	maxCounted = 100_000
)

// SetAside is the reason why a task or an origin is set aside, and the time (Since). It is tried again at
// Until, even without a change.
type SetAside = queries.SetAsideTaskRow

// SetAsideTask returns why a task is set aside, or nil if it isn't.
func (a ExplainStore) SetAsideTask(ctx context.Context, task int64) (*SetAside, error) {
	rows, err := a.q.SetAsideTask(ctx, task)
	return stmt.First(rows, stmt.Failed(err, "check whether task %d is set aside", task))
}

// SetAsideOrigins returns the set-aside origins with the URL, by visit type and lister.
func (a ExplainStore) SetAsideOrigins(ctx context.Context, url string) ([]queries.SetAsideOriginsRow, error) {
	rows, err := a.q.SetAsideOrigins(ctx, url)
	return rows, stmt.Failed(err, "check whether %s is set aside", url)
}

// RetrySetAside takes back tasks and origins that have changed or whose Until has passed.
func (s JobStore) RetrySetAside(ctx context.Context) error {
	return stmt.Failed(errors.Join(s.q.RetryTasks(ctx), s.q.RetryOrigins(ctx)), "try again what was set aside")
}

// NewlySetAside returns tasks and origins that were set aside since its last call, once each.
func (s JobStore) NewlySetAside(ctx context.Context) (tasks []queries.NewlySetAsideTasksRow, origins []queries.NewlySetAsideOriginsRow, err error) {
	if tasks, err = s.q.NewlySetAsideTasks(ctx, maxListed); err == nil {
		origins, err = s.q.NewlySetAsideOrigins(ctx, maxListed)
	}
	return tasks, origins, stmt.Failed(err, "list what was set aside")
}
