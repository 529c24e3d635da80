package graphs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

const (
	archiveEvery   = 24 * time.Hour
	tasksAStep     = 10_000 // numbers of tasks a step
	archivedAtOnce = 100    // tasks in one transaction: they and their runs are in memory
)

// Archived counts archived rows.
type Archived struct {
	Tasks int64 `json:"tasks"`
	Runs  int64 `json:"runs"`
}

func (a Archived) String() string {
	return fmt.Sprintf("%d tasks with %d runs archived", a.Tasks, a.Runs)
}

// ArchiveOptions select the tasks to archive.
type ArchiveOptions struct {
	// Before has, by task type, the moment before which archived tasks ended. Other types stay.
	Before map[string]time.Time
	// Write, if not nil, writes tasks with their runs, a JSON object each, before they are deleted. If the
	// deletion then fails, a later call gets them again.
	Write func(tasks []string) error
	// Count, if not nil, gets the numbers of deleted tasks and runs by type.
	Count  func(taskType string, n Archived)
	DryRun bool // only count; delete and write nothing
}

// Archive deletes tasks that will not run again, with their runs, as the Python scheduler's archiver does:
// disabled ones and completed one-shot tasks. The tasks of a graph are deleted together, when the last one
// ended long enough ago. A task with an open dependent stays. A pass over all tasks and graphs begins once
// a day. Each call takes steps of it for about atMost, for tasks and again for graphs.
func (s Store) Archive(ctx context.Context, o ArchiveOptions, atMost time.Duration) error {
	for _, w := range s.archiveWalks(o) {
		if _, err := w.Take(ctx, s.q, atMost); err != nil {
			return err
		}
	}
	return nil
}

// ArchiveAll does a whole pass of Archive at once.
func (s Store) ArchiveAll(ctx context.Context, o ArchiveOptions) error {
	for _, w := range s.archiveWalks(o) {
		if _, err := w.Whole(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s Store) archiveWalks(o ArchiveOptions) []bulk.Walk[struct{}] {
	types := slices.Sorted(maps.Keys(o.Before))
	before := make([]time.Time, len(types))
	for i, taskType := range types {
		before[i] = o.Before[taskType]
	}
	return []bulk.Walk[struct{}]{{
		Name: "archived tasks", Period: archiveEvery, StepSize: tasksAStep,
		Begin: bulk.BeginAt(s.q.FirstTask), End: s.q.EndOfTasks,
		Step: func(ctx context.Context, first, end int64, _ *struct{}) error {
			tasks, err := s.q.ArchivableTasks(ctx, queries.ArchivableTasksParams{FirstTask: first, EndTask: end, Types: types, Before: before})
			for some := range slices.Chunk(tasks, archivedAtOnce) {
				if err == nil {
					err = s.archive(ctx, o, some)
				}
			}
			return err
		},
	}, {
		Name: "archived graphs", Period: archiveEvery, StepSize: graphsAStep,
		Begin: bulk.BeginAt(s.q.FirstGraph), End: s.q.EndOfGraphs,
		Step: func(ctx context.Context, first, end int64, _ *struct{}) error {
			graphs, err := s.q.ArchivableGraphs(ctx, queries.ArchivableGraphsParams{FirstGraph: first, EndGraph: end, Types: types, Before: before})
			for _, graph := range graphs {
				for after := int64(0); err == nil; {
					var tasks []int64
					tasks, err = s.q.TasksOfGraph(ctx, queries.TasksOfGraphParams{Graph: graph, After: after, MaxTasks: archivedAtOnce})
					if err != nil || len(tasks) == 0 {
						break
					}
					after = tasks[len(tasks)-1]
					err = s.archive(ctx, o, tasks)
				}
			}
			return err
		},
	}}
}

// archive writes and deletes tasks that have ended, in one transaction.
func (s Store) archive(ctx context.Context, o ArchiveOptions, tasks []int64) error {
	counts := make(map[string]Archived)
	err := s.inTx(ctx, postgres.Plainly, func(ctx context.Context, tx *Tx) error {
		if o.DryRun {
			rows, err := tx.q.CountRunsOfTasks(ctx, tasks)
			for _, r := range rows {
				counts[r.Type] = Archived{r.Tasks, r.Runs}
			}
			return err
		}
		rows, err := tx.q.ArchiveTasks(ctx, tasks)
		lines := make([]string, len(rows))
		for i, r := range rows {
			n := counts[r.Type]
			counts[r.Type] = Archived{n.Tasks + 1, n.Runs + r.Runs}
			lines[i] = r.Line
		}
		if err == nil && o.Write != nil && len(lines) > 0 {
			err = o.Write(lines)
		}
		return err
	})
	if err == nil && o.Count != nil {
		for taskType, n := range counts {
			o.Count(taskType, n)
		}
	}
	return stmt.Failed(err, "archive tasks")
}
