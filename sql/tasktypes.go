package sql

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// TaskTypes lists all task types, by name.
func (a asker) TaskTypes(ctx context.Context) ([]scheduler.TaskType, error) {
	rows, err := a.q.TaskTypes(ctx)
	if err != nil {
		return nil, fmt.Errorf("read task types: %w", err)
	}
	types := make([]scheduler.TaskType, len(rows))
	for i, row := range rows {
		types[i] = taskTypeOf(row)
	}
	return types, nil
}

// TaskType is the task type of that name; scheduler.ErrUnknownTaskType if there
// is none.
func (a asker) TaskType(ctx context.Context, name string) (scheduler.TaskType, error) {
	row, err := a.q.TaskType(ctx, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return scheduler.TaskType{}, fmt.Errorf("%w: %q", scheduler.ErrUnknownTaskType, name)
	}
	if err != nil {
		return scheduler.TaskType{}, fmt.Errorf("read task type %q: %w", name, err)
	}
	return taskTypeOf(row), nil
}

// CreateTaskType adds a task type. One of that name that is there already stays
// as it is, without an error: services register their types at each start, and
// operators tune them afterwards.
func (a asker) CreateTaskType(ctx context.Context, t scheduler.TaskType) error {
	err := a.q.CreateTaskType(ctx, queries.CreateTaskTypeParams{
		Type:            t.Type,
		Description:     t.Description,
		BackendName:     t.BackendName,
		DefaultInterval: intervalOf(t.DefaultInterval),
		MinInterval:     intervalOf(t.MinInterval),
		MaxInterval:     intervalOf(t.MaxInterval),
		BackoffFactor:   t.BackoffFactor,
		MaxQueueLength:  t.MaxQueueLength,
		NumRetries:      t.NumRetries,
		RetryDelay:      intervalOf(t.RetryDelay),
	})
	if err != nil {
		return fmt.Errorf("create task type %q: %w", t.Type, err)
	}
	return nil
}

func taskTypeOf(row queries.TaskType) scheduler.TaskType {
	return scheduler.TaskType{
		Type:            row.Type,
		Description:     row.Description,
		BackendName:     row.BackendName,
		DefaultInterval: durationOf(row.DefaultInterval),
		MinInterval:     durationOf(row.MinInterval),
		MaxInterval:     durationOf(row.MaxInterval),
		BackoffFactor:   row.BackoffFactor,
		MaxQueueLength:  row.MaxQueueLength,
		NumRetries:      row.NumRetries,
		RetryDelay:      durationOf(row.RetryDelay),
	}
}
