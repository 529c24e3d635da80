package sql

import (
	"context"
	"fmt"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// ArchivedRun is a run to archive, and what is to be archived of its task.
type ArchivedRun struct {
	scheduler.TaskRun // ID is the run's number, Task the task's
	TaskType          string
	TaskPolicy        scheduler.TaskPolicy
	TaskStatus        scheduler.TaskStatus
	Arguments         scheduler.TaskArguments
}

// ArchiveFilter says which runs to archive: those that started (or were sent, if
// they never did) from After on and before Before, of tasks that will not run
// again. The two are texts that PostgreSQL reads as timestamps.
type ArchiveFilter struct {
	After, Before string
	FromTask      int64 // tasks of this number or a greater one
	Limit         int64 // how many runs at most
}

// RunsToArchive reads runs to archive, by task and start.
func (a asker) RunsToArchive(ctx context.Context, f ArchiveFilter) ([]ArchivedRun, error) {
	rows, err := a.q.RunsToArchive(ctx, queries.RunsToArchiveParams{
		AfterTs: f.After, BeforeTs: f.Before, FromTask: f.FromTask, MaxRuns: f.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("read runs to archive: %w", err)
	}
	runs := make([]ArchivedRun, len(rows))
	for i, row := range rows {
		arguments, err := decodeArguments(row.Arguments)
		if err != nil {
			return nil, fmt.Errorf("task %d: %w", row.TaskID, err)
		}
		runs[i] = ArchivedRun{
			TaskRun: scheduler.TaskRun{
				ID: row.TaskRunID, Task: row.TaskID, BackendID: row.BackendID, Metadata: row.Metadata,
				Scheduled: row.Scheduled, Started: row.Started, Ended: row.Ended, Status: row.TaskRunStatus,
			},
			TaskType: row.Type, TaskPolicy: row.TaskPolicy, TaskStatus: row.TaskStatus, Arguments: arguments,
		}
	}
	return runs, nil
}

// DeleteArchived deletes these runs, and those of these tasks that have no run
// left.
func (a asker) DeleteArchived(ctx context.Context, tasks, runs []int64) error {
	if err := a.q.DeleteArchived(ctx, queries.DeleteArchivedParams{Tasks: tasks, Runs: runs}); err != nil {
		return fmt.Errorf("delete %d archived runs: %w", len(runs), err)
	}
	return nil
}
