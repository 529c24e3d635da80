package tasks

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

func runOf(row queries.TaskRun) model.TaskRun { return model.TaskRun(row) }

// ScheduleTaskRun records that a run of a task was sent under a Celery task id.
func (a Queries) ScheduleTaskRun(ctx context.Context, task int64, backendID string, metadata json.RawMessage, at time.Time) (model.TaskRun, error) {
	row, err := a.q.ScheduleTaskRun(ctx, queries.ScheduleTaskRunParams{
		Task: task, BackendID: &backendID, Scheduled: &at, Metadata: stmt.OrEmptyObject(metadata),
	})
	return runOf(row), stmt.Failed(err, "note a run of task %d", task)
}

// UrgentRun is a run of a task with priority.
type UrgentRun struct {
	Priority model.TaskPriority
	Ready    time.Time // when its task became ready
}

// UrgentRuns returns, by Celery task id, those of the runs whose tasks have a priority.
func (a Queries) UrgentRuns(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]UrgentRun, error) {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	rows, err := a.q.UrgentRuns(ctx, texts)
	runs := make(map[uuid.UUID]UrgentRun, len(rows))
	for _, r := range rows {
		runs[uuid.MustParse(r.BackendID)] = UrgentRun{Priority: model.TaskPriority(r.Priority), Ready: r.NextRun}
	}
	return runs, stmt.Failed(err, "read the priorities of %d runs", len(ids))
}

// ScheduleTaskRuns records sent runs, all or none, with their Task, BackendID, Scheduled and Metadata.
func (a Queries) ScheduleTaskRuns(ctx context.Context, runs []model.TaskRun) error {
	if len(runs) == 0 {
		return nil
	}
	type row struct {
		Task      int64           `json:"task"`
		BackendID *string         `json:"backend_id"`
		Scheduled *time.Time      `json:"scheduled"`
		Metadata  json.RawMessage `json:"metadata,omitempty"`
	}
	rows := make([]row, len(runs))
	for i, r := range runs {
		rows[i] = row{r.Task, r.BackendID, stmt.InMicroseconds(r.Scheduled), r.Metadata}
	}
	document, err := stmt.EncodeRows(rows)
	if err == nil {
		err = a.q.ScheduleTaskRuns(ctx, document)
	}
	return stmt.Failed(err, "note %d runs of tasks", len(runs))
}

// StartTaskRun records that a worker started a run, and returns the run; nil if there is no such run. It
// merges metadata into the run's. As in the Python scheduler, it reopens a run that has ended.
func (a Queries) StartTaskRun(ctx context.Context, backendID string, metadata json.RawMessage, at time.Time) (*model.TaskRun, error) {
	rows, err := a.q.StartTaskRun(ctx, queries.StartTaskRunParams{
		BackendID: backendID, Metadata: stmt.OrEmptyObject(metadata), Started: &at,
	})
	return stmt.First(stmt.List(rows, stmt.Failed(err, "note the start of run %q", backendID), runOf))
}

// EndTaskRun records the end of a run, and returns the run; nil if there is no such run. Each call moves
// the run's task on, as in the Python scheduler.
func (a Queries) EndTaskRun(ctx context.Context, backendID string, status model.RunStatus, metadata json.RawMessage, at time.Time) (*model.TaskRun, error) {
	rows, err := a.q.EndTaskRun(ctx, queries.EndTaskRunParams{
		BackendID: backendID, Status: status, Metadata: stmt.OrEmptyObject(metadata), Ended: &at,
	})
	return stmt.First(stmt.List(rows, stmt.Failed(err, "note the end of run %q", backendID), runOf))
}

// TaskRuns returns the runs of the tasks, by number; at most limit, or all if limit is 0.
func (a Queries) TaskRuns(ctx context.Context, tasks []int64, limit int) ([]model.TaskRun, error) {
	rows, err := a.q.TaskRuns(ctx, queries.TaskRunsParams{Tasks: tasks, MaxRuns: stmt.Nullable(int64(limit))})
	return stmt.List(rows, stmt.Failed(err, "read runs of tasks"), runOf)
}

// LastTaskRun returns the last run of a task, nil if it has none.
func (a Queries) LastTaskRun(ctx context.Context, task int64) (*model.TaskRun, error) {
	rows, err := a.q.LastTaskRun(ctx, task)
	runs, err := stmt.List(rows, stmt.Failed(err, "read the last run of task %d", task), runOf)
	if len(runs) == 0 {
		return nil, err
	}
	return &runs[0], err
}

// OpenRun is a run that has not ended, with the Celery id of its message.
type OpenRun = queries.OpenRunsRow

// OpenRuns returns the open runs of the tasks.
func (a Queries) OpenRuns(ctx context.Context, tasks []int64) ([]OpenRun, error) {
	rows, err := a.q.OpenRuns(ctx, tasks)
	return rows, stmt.Failed(err, "read open runs of tasks")
}
