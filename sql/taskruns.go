package sql

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// GrabReadyTasks marks the tasks of a type that PeekReadyTasks returns as
// scheduled, and returns them, those waiting longest first. It is for who sends
// them by itself: nothing goes to the outbox. Two grabs at once take different
// tasks.
func (a asker) GrabReadyTasks(ctx context.Context, taskType string, now time.Time, limit int) ([]scheduler.Task, error) {
	return a.grabTasks(ctx, taskType, now, limit, false)
}

// GrabReadyPriorityTasks is GrabReadyTasks for tasks with any priority.
func (a asker) GrabReadyPriorityTasks(ctx context.Context, taskType string, now time.Time, limit int) ([]scheduler.Task, error) {
	return a.grabTasks(ctx, taskType, now, limit, true)
}

func (a asker) grabTasks(ctx context.Context, taskType string, now time.Time, limit int, withPriority bool) ([]scheduler.Task, error) {
	rows, err := a.q.GrabReadyTasks(ctx, queries.GrabReadyTasksParams{
		Type: taskType, Now: now, WithPriority: withPriority, MaxTasks: nullable(int64(limit)),
	})
	if err != nil {
		return nil, fmt.Errorf("grab ready tasks of type %q: %w", taskType, err)
	}
	slices.SortFunc(rows, func(a, b queries.Task) int {
		return cmp.Or(a.NextRun.Compare(b.NextRun), cmp.Compare(a.ID, b.ID))
	})
	return tasksOf(rows)
}

// ScheduleTaskRun notes that a run of a task was sent, with Celery's id of it.
func (a asker) ScheduleTaskRun(ctx context.Context, task int64, backendID string, metadata json.RawMessage, at time.Time) (scheduler.TaskRun, error) {
	row, err := a.q.ScheduleTaskRun(ctx, queries.ScheduleTaskRunParams{
		Task: task, BackendID: &backendID, Scheduled: &at, Metadata: orEmptyObject(metadata),
	})
	if err != nil {
		return scheduler.TaskRun{}, fmt.Errorf("note a run of task %d: %w", task, err)
	}
	return scheduler.TaskRun(row), nil
}

// ScheduleTaskRuns notes that runs were sent, all or none. Of each it takes
// Task, BackendID, Scheduled and Metadata.
func (a asker) ScheduleTaskRuns(ctx context.Context, runs []scheduler.TaskRun) error {
	if len(runs) == 0 {
		return nil
	}
	document, err := encodeTaskRuns(runs)
	if err == nil {
		err = a.q.ScheduleTaskRuns(ctx, document)
	}
	if err != nil {
		return fmt.Errorf("note %d runs of tasks: %w", len(runs), err)
	}
	return nil
}

// encodeTaskRuns writes runs as the JSON list that the query reads.
func encodeTaskRuns(runs []scheduler.TaskRun) (json.RawMessage, error) {
	type row struct {
		Task      int64           `json:"task"`
		BackendID *string         `json:"backend_id"`
		Scheduled *time.Time      `json:"scheduled"`
		Metadata  json.RawMessage `json:"metadata,omitempty"`
	}
	rows := make([]row, len(runs))
	for i, r := range runs {
		rows[i] = row{r.Task, r.BackendID, inMicroseconds(r.Scheduled), r.Metadata}
	}
	return encodeRows(rows)
}

// encodeRows writes rows as a JSON list, with texts as they are.
func encodeRows[T any](rows []T) (json.RawMessage, error) {
	var document bytes.Buffer
	encoder := json.NewEncoder(&document)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(rows)
	return document.Bytes(), err
}

// StartTaskRun notes that a worker took a run, and returns it; nil if there is no
// such run. Metadata are added to those it has. As with the peer, nothing is said
// of the order of calls: a run that ended is open again.
func (a asker) StartTaskRun(ctx context.Context, backendID string, metadata json.RawMessage, at time.Time) (*scheduler.TaskRun, error) {
	rows, err := a.q.StartTaskRun(ctx, queries.StartTaskRunParams{
		BackendID: backendID, Metadata: orEmptyObject(metadata), Started: &at,
	})
	if err != nil {
		return nil, fmt.Errorf("note the start of run %q: %w", backendID, err)
	}
	return firstRun(rows), nil
}

// EndTaskRun notes how a run ended, and returns it; nil if there is no such run.
// Its task moves on at each call, as with the peer.
func (a asker) EndTaskRun(ctx context.Context, backendID string, status scheduler.RunStatus, metadata json.RawMessage, at time.Time) (*scheduler.TaskRun, error) {
	rows, err := a.q.EndTaskRun(ctx, queries.EndTaskRunParams{
		BackendID: backendID, Status: status, Metadata: orEmptyObject(metadata), Ended: &at,
	})
	if err != nil {
		return nil, fmt.Errorf("note the end of run %q: %w", backendID, err)
	}
	return firstRun(rows), nil
}

func firstRun(rows []queries.TaskRun) *scheduler.TaskRun {
	if len(rows) == 0 {
		return nil
	}
	run := scheduler.TaskRun(rows[0])
	return &run
}

// TaskRuns are the runs of some tasks, by number; at most limit of them, or all
// if it is 0.
func (a asker) TaskRuns(ctx context.Context, tasks []int64, limit int) ([]scheduler.TaskRun, error) {
	rows, err := a.q.TaskRuns(ctx, queries.TaskRunsParams{Tasks: tasks, MaxRuns: nullable(int64(limit))})
	if err != nil {
		return nil, fmt.Errorf("read runs of tasks: %w", err)
	}
	runs := make([]scheduler.TaskRun, len(rows))
	for i, row := range rows {
		runs[i] = scheduler.TaskRun(row)
	}
	return runs, nil
}
