package tasks

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// TaskTypes lists all task types, by name.
func (a Queries) TaskTypes(ctx context.Context) ([]model.TaskType, error) {
	rows, err := a.q.TaskTypes(ctx)
	return stmt.List(rows, stmt.Failed(err, "read task types"), a.taskType)
}

// TaskType returns the task type with the name, or model.ErrUnknownTaskType.
func (a Queries) TaskType(ctx context.Context, name string) (model.TaskType, error) {
	row, err := a.q.TaskType(ctx, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return model.TaskType{}, fmt.Errorf("%w: %q", model.ErrUnknownTaskType, name)
	}
	return a.taskType(row), stmt.Failed(err, "read task type %q", name)
}

// CreateTaskType adds a task type. It doesn't change an existing one with the name, and returns no error
// then: services register their types at each start, and operators tune them afterwards.
func (a Queries) CreateTaskType(ctx context.Context, t model.TaskType) error {
	err := a.q.CreateTaskType(ctx, queries.CreateTaskTypeParams{
		Type: t.Type, Description: t.Description, BackendName: t.BackendName,
		DefaultInterval: postgres.IntervalOf(t.DefaultInterval), MinInterval: postgres.IntervalOf(t.MinInterval), MaxInterval: postgres.IntervalOf(t.MaxInterval),
		BackoffFactor: t.BackoffFactor, MaxQueueLength: t.MaxQueueLength, NumRetries: t.NumRetries, RetryDelay: postgres.IntervalOf(t.RetryDelay),
	})
	return stmt.Failed(err, "create task type %q", t.Type)
}

func (a Queries) taskType(row queries.TaskType) model.TaskType {
	t := model.TaskType{
		Type: row.Type, Description: row.Description, BackendName: row.BackendName,
		DefaultInterval: postgres.DurationOf(row.DefaultInterval), MinInterval: postgres.DurationOf(row.MinInterval), MaxInterval: postgres.DurationOf(row.MaxInterval),
		BackoffFactor: row.BackoffFactor, MaxQueueLength: row.MaxQueueLength, NumRetries: row.NumRetries, RetryDelay: postgres.DurationOf(row.RetryDelay),
	}
	if a.route != nil {
		t.Routed = a.route(t.BackendName)
	}
	return t
}
