package ledger

import (
	"context"
	"time"

	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

const (
	runningWalk = "running work" // its name in the table of walks
	runningStep = 5 * time.Minute

	// overlap bounds the duration of a transaction that writes the start of a run. Each start is read again when it is
	// that old, for rows that earlier steps couldn't see.
	overlap = 5 * time.Minute
	// shortOverlap is how much of what the step before has read is read again. Few transactions last longer.
	shortOverlap = 10 * time.Second
)

// runningFound is the result of a walk over starts of runs.
type runningFound struct {
	Until int64 // Unix seconds
}

// NoteRunning updates the list of running work for about atMost: it adds runs that have started, and drops runs that
// have ended. It takes steps of a walk along the time at which starts were recorded, from where the last one ended, in
// any process. The first one begins two days before now, the time of the database.
func (s Store) NoteRunning(ctx context.Context, now time.Time, atMost time.Duration) error {
	_, err := bulk.Walk[runningFound]{
		Name: runningWalk, StepSize: int(runningStep / time.Second),
		Begin: func(ctx context.Context) (int64, runningFound, error) {
			last, err := bulk.ResultOf[runningFound](ctx, s.q, runningWalk)
			begin := last.Until
			if begin == 0 || begin > now.Unix() { // or the clock was set back
				begin = now.Add(-2 * postgres.Day).Unix()
			}
			return begin, last, err
		},
		End: func(context.Context) (int64, error) { return now.Unix(), nil },
		Step: func(ctx context.Context, first, end int64, found *runningFound) error {
			for _, span := range startsOfStep(first, end) {
				if err := s.q.AddRunning(ctx, queries.AddRunningParams{FromTime: span.from, ToTime: span.to}); err != nil {
					return err
				}
			}
			found.Until = end
			return nil
		},
	}.Take(ctx, s.q, atMost)
	if err != nil {
		return err
	}
	return stmt.Failed(s.q.DropRunning(ctx), "drop ended runs from the list of running work")
}

// span is a span of time, without its end.
type span struct{ from, to time.Time }

// startsOfStep returns which starts a step from first to end, in Unix seconds, reads: those recorded meanwhile, and those
// that became overlap old.
func startsOfStep(first, end int64) []span {
	from, to := time.Unix(first, 0), time.Unix(end, 0)
	return []span{
		{from.Add(-overlap), to.Add(-overlap)},
		{from.Add(-shortOverlap), to.Add(time.Second)}, // end is a whole second
	}
}

// RunningRun is a run of a task that has started and not ended.
type RunningRun = queries.RunningRunsRow

// RunningVisit is a visit in the ledger that has started and not ended.
type RunningVisit = queries.RunningVisitsRow

// Running lists the running work of a task type and of its tasks' Celery name, the oldest first; all if
// both are "". It reads ten times as many rows of each as it returns. It lacks runs that started after
// NoteRunning, and visits without groups, lanes and hosters.
func (a Queries) Running(ctx context.Context, taskType, name string, limit int) (runs []RunningRun, visits []RunningVisit, err error) {
	if runs, err = a.q.RunningRuns(ctx, queries.RunningRunsParams{Type: taskType, Looked: int32(10 * limit), Most: int32(limit)}); err == nil {
		visits, err = a.q.RunningVisits(ctx, queries.RunningVisitsParams{TaskName: name, Looked: int32(10 * limit), Most: int32(limit)})
	}
	return runs, visits, stmt.Failed(err, "list running work")
}

// RunningByType counts the running runs by task type.
func (a Queries) RunningByType(ctx context.Context) (map[string]int64, error) {
	rows, err := a.q.RunningByType(ctx)
	counts := make(map[string]int64, len(rows))
	for _, r := range rows {
		counts[r.Type] = r.Runs
	}
	return counts, stmt.Failed(err, "count running work")
}
