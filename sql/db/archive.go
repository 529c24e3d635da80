package db

import (
	"context"
	"fmt"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/tasks"
)

// ArchivedRun is a run to archive, with its task.
type ArchivedRun struct {
	queries.RunsToArchiveRow
	Arguments model.TaskArguments
}

// ArchiveFilter selects runs to archive. A run's time is its start, or its sending if it never started; it
// lies from After on and before Before. Both are texts that PostgreSQL parses as timestamps. FromTask is
// the lowest task number.
type ArchiveFilter = queries.RunsToArchiveParams

// RunsToArchive returns runs to archive, in the order of tasks and starts. It only returns runs of tasks
// that will not run again.
func (a ArchiveStore) RunsToArchive(ctx context.Context, f ArchiveFilter) ([]ArchivedRun, error) {
	rows, err := a.q.RunsToArchive(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("read runs to archive: %w", err)
	}
	runs := make([]ArchivedRun, len(rows))
	for i, r := range rows {
		runs[i].RunsToArchiveRow = r
		if runs[i].Arguments, err = tasks.DecodeArguments(r.Arguments); err != nil {
			return nil, fmt.Errorf("task %d: %w", r.TaskID, err)
		}
	}
	return runs, nil
}

// DeleteArchived deletes the runs, and those of the tasks that have no run left.
func (a ArchiveStore) DeleteArchived(ctx context.Context, tasks, runs []int64) error {
	err := a.q.DeleteArchived(ctx, queries.DeleteArchivedParams{Tasks: tasks, Runs: runs})
	return stmt.Failed(err, "delete %d archived runs", len(runs))
}
