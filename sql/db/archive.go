package db

import (
	"context"
	"fmt"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
)

// ArchivedRun is a run to archive, with its task.
type ArchivedRun struct {
	model.TaskRun // ID is the run's number, Task the task's
	TaskType      string
	TaskPolicy    model.TaskPolicy
	TaskStatus    model.TaskStatus
	Arguments     model.TaskArguments
}

// ArchiveFilter selects runs to archive: those that started (or were sent, if they never
// started) from After on and before Before, of tasks that will not run again. The two
// are texts that PostgreSQL reads as timestamps.
type ArchiveFilter struct {
	After, Before string
	FromTask      int64 // tasks of this number or a greater one
	Limit         int64
}

// RunsToArchive reads runs to archive, by task and start.
func (a ArchiveQueries) RunsToArchive(ctx context.Context, f ArchiveFilter) ([]ArchivedRun, error) {
	rows, err := a.q.RunsToArchive(ctx, queries.RunsToArchiveParams{
		AfterTs: f.After, BeforeTs: f.Before, FromTask: f.FromTask, MaxRuns: f.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("read runs to archive: %w", err)
	}
	runs := make([]ArchivedRun, len(rows))
	for i, r := range rows {
		arguments, err := decodeArguments(r.Arguments)
		if err != nil {
			return nil, fmt.Errorf("task %d: %w", r.TaskID, err)
		}
		runs[i] = ArchivedRun{
			TaskRun: model.TaskRun{
				ID: r.TaskRunID, Task: r.TaskID, BackendID: r.BackendID, Metadata: r.Metadata,
				Scheduled: r.Scheduled, Started: r.Started, Ended: r.Ended, Status: r.TaskRunStatus,
			},
			TaskType: r.Type, TaskPolicy: r.TaskPolicy, TaskStatus: r.TaskStatus, Arguments: arguments,
		}
	}
	return runs, nil
}

// DeleteArchived deletes these runs, and those of these tasks that have no run left.
func (a ArchiveQueries) DeleteArchived(ctx context.Context, tasks, runs []int64) error {
	err := a.q.DeleteArchived(ctx, queries.DeleteArchivedParams{Tasks: tasks, Runs: runs})
	return failed(err, "delete %d archived runs", len(runs))
}
