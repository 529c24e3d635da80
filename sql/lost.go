package sql

import (
	"context"
	"fmt"
	"time"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// maxSilentRuns bounds one sweep; the next one takes the rest.
const maxSilentRuns = 10000

// SilentRun is a run that has not ended and of which nothing was heard for long.
type SilentRun struct {
	ID           int64
	Status       scheduler.RunStatus // scheduled or started
	TaskType     string
	WithPriority bool
}

// SilentRuns lists runs that were scheduled or started before the moment given
// for their task type and have not ended, while their tasks wait for them.
// Those whose messages are still in the outbox, or wait in a lane for their turn,
// are not silent. It reads the whole of task_run, and gives 10,000 at most.
func (a asker) SilentRuns(ctx context.Context, before map[string]time.Time) ([]SilentRun, error) {
	p := queries.SilentRunsParams{MaxRuns: maxSilentRuns}
	for taskType, moment := range before {
		p.Types = append(p.Types, taskType)
		p.Before = append(p.Before, moment)
	}
	rows, err := a.q.SilentRuns(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("look for silent runs: %w", err)
	}
	runs := make([]SilentRun, len(rows))
	for i, r := range rows {
		runs[i] = SilentRun{ID: r.ID, Status: r.Status, TaskType: r.Type, WithPriority: r.WithPriority}
	}
	return runs, nil
}

// LoseRuns ends runs as lost at now, except those of which something was heard
// since they were listed, and returns how many it ended. Their tasks are
// retried as after a failure.
func (a asker) LoseRuns(ctx context.Context, runs []SilentRun, now time.Time) (int, error) {
	p := queries.LoseRunsParams{Now: now}
	for _, r := range runs {
		p.Ids = append(p.Ids, r.ID)
		p.Statuses = append(p.Statuses, string(r.Status))
	}
	n, err := a.q.LoseRuns(ctx, p)
	if err != nil {
		return 0, fmt.Errorf("end lost runs: %w", err)
	}
	return int(n), nil
}
