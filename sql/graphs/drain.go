package graphs

import (
	"context"
	"errors"
	"time"

	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// A graph's tasks wait for other tasks. Rows of graph_edges are the dependencies; they never change. So
// neither the end of a task nor a release updates a row that many transactions update.
//
//	task ──trigger──► graph_changes ──spread──► graph_checks ──settle──► task
//	(any writer)      (which ended)             (whom to look at)        (released, or never run)
//
// A waiting task has status next_run_not_scheduled and a next run in the year 9999. No runner starts it,
// ours or the Python scheduler's, and every client can read it. (The status disabled would mark the task as
// done for the Python scheduler's archiver. The Python scheduler's clients can't read a next run at
// infinity.)
//
// # Recorded changes
//
// A waiting task watches one dependency that has not ended: the one with the highest number, which likely
// ends last (as SAT solvers watch literals). The trigger on a task's end records it only if it is watched.
// The waiting task then looks for another dependency to watch, from there downwards, so each edge is read
// about once. If none is left, the drain checks all of them in one snapshot and releases the task. The
// trigger records every failure, and every reopening, of a task with dependents.
//
// # Concurrent ends
//
// Two transactions may end the last two dependencies at once, and neither sees the other's change. So one
// drain at a time, under an advisory lock, decides afterwards. It share-locks the row of the dependency to
// watch until it commits. A later end of that task waits for the commit, and then sees the watch. A
// concurrent end holds the row; the drain never waits, so it skips the row for another dependency or for
// the next round. SubmitGraph locks the existing tasks that a graph depends on in the same way.
//
// A round is one transaction: all of it is done or none. A round doesn't release a task that no longer
// waits.
//
// # Failures
//
// The drain disables a task that can never run, and records the reason in graph_tasks. The same trigger
// records that for its dependents, a bounded part in each round.
//
// If a disabled task is open again (task respawn), the tasks that failed because of it wait again, and so
// on down to the last dependent. Rounds with such work do nothing else. Until it is done, the drain
// releases and disables no task because of others: a failure might be about to be taken back. Each decision
// checks, in the snapshot of its dependencies, for tasks that were opened again. A task whose row another
// transaction has locked delays this by up to reopenPatience; then the drain checks it like any other.

// Bounds of one round of the drain.
const (
	drainChanges    = 500
	drainEdges      = 20_000
	drainGraphTasks = 1000
	forgetTasks     = 5000
)

// reopenPatience is how long all graphs wait for a locked task that has to wait again.
const reopenPatience = 10 * time.Second

// Round is the result of one round of the drain.
type Round struct {
	Released int64 // tasks that may run now
	Failed   int64 // tasks that can never run
	More     bool  // more work can be done at once
	Waits    bool  // more work can be done once other transactions have ended
}

// AdvanceGraphs does one round: it releases tasks whose dependencies have ended, and disables those that
// can never run. While another process drains, it does nothing and sets Waits. A round that times out is
// rolled back, and the next one is half as large.
func (s Store) AdvanceGraphs(ctx context.Context, now time.Time) (Round, error) {
	var round Round
	pending, err := s.q.GraphsPending(ctx, now)
	if err == nil && pending {
		tasks := s.sizes.graphs.Of(drainGraphTasks)
		err = s.inTx(ctx, postgres.Plainly, func(ctx context.Context, tx *Tx) error {
			locked, err := tx.q.TryLockGraphs(ctx)
			if err == nil && locked {
				round, err = tx.advanceGraphs(ctx, now)
			} else {
				round.Waits = true
			}
			return err
		})
		if !round.Waits {
			s.NoteRound(tasks, err)
		}
	}
	return round, stmt.Failed(err, "release tasks of graphs")
}

// NoteRound records the outcome of a round of so many tasks. After a time-out the next one is half as
// large.
func (s Store) NoteRound(tasks int, err error) { s.sizes.graphs.Adjust(tasks, err) }

// advanceGraphs does a round in steps, as a task disabled by one step is a change for the next. The caller
// holds the lock of graphs.
func (tx *Tx) advanceGraphs(ctx context.Context, now time.Time) (Round, error) {
	tasks := tx.sizes.graphs.Of(drainGraphTasks)
	part := func(whole int) int64 { return int64(max(1, whole*tasks/drainGraphTasks)) }
	round, err := tx.takeBackFailures(ctx, tasks, part(drainEdges), now)
	if err != nil || round.More || round.Waits {
		return round, err
	}
	for lookedAt := int64(0); ; {
		overdue, err := tx.q.CheckDeadlines(ctx, queries.CheckDeadlinesParams{At: now, MaxTasks: int64(tasks)})
		if err != nil {
			return round, err
		}
		changes, err := tx.q.SpreadGraphChanges(ctx, queries.SpreadGraphChangesParams{MaxChanges: part(drainChanges), MaxEdges: part(drainEdges)})
		if err != nil {
			return round, err
		}
		step, err := tx.checkQueued(ctx, tasks, part(drainEdges), now)
		if err != nil {
			return round, err
		}
		round.Released += step.Released
		round.Failed += step.Failed
		round.Waits = step.PutOff > 0
		done := overdue + changes + step.LookedAt - step.PutOff
		round.More = overdue+changes > 0 || step.LookedAt > step.PutOff || step.Reopened
		if lookedAt += done; !round.More || step.Reopened || lookedAt >= int64(tasks) {
			break
		}
	}
	if round.Released > 0 {
		return round, tx.q.NotifyGraphs(ctx)
	}
	return round, nil
}

// takeBackFailures reopens tasks that could not run because of tasks that are open again. If it sets More
// or Waits, the round must do nothing else. It leaves a task that PostgreSQL refuses to change to
// checkQueued.
func (tx *Tx) takeBackFailures(ctx context.Context, tasks int, edges int64, now time.Time) (round Round, err error) {
	p := queries.TakeBackGraphFailuresParams{MaxEdges: edges, At: now, PatienceSeconds: reopenPatience.Seconds()}
	take := func(tasks int, onlyNote bool) error {
		p.MaxTasks, p.OnlyNote = int64(tasks), onlyNote
		done, err := tx.q.TakeBackGraphFailures(ctx, p)
		round.More = round.More || done.More || done.Taken > done.PutOff
		round.Waits = round.Waits || done.PutOff > 0
		return err
	}
	var unwritten error
	err = bulk.Bisect(0, tasks, func(first, end int) error {
		return postgres.AsRefused(tx.Savepoint(ctx, func() error { return take(end-first, false) }))
	}, func(int, *postgres.RefusedError) { unwritten = errors.Join(unwritten, take(1, true)) })
	return round, errors.Join(err, unwritten)
}

// checkQueued does up to tasks queued checks. It sets aside a task that PostgreSQL refuses to change.
func (tx *Tx) checkQueued(ctx context.Context, tasks int, edges int64, now time.Time) (done queries.SettleGraphTasksRow, err error) {
	var unwritten error
	err = bulk.Bisect(0, tasks, func(first, end int) error {
		return postgres.AsRefused(tx.Savepoint(ctx, func() error {
			step, err := tx.q.SettleGraphTasks(ctx, queries.SettleGraphTasksParams{MaxTasks: int64(end - first), MaxEdges: edges, At: now})
			done.LookedAt += step.LookedAt
			done.Released += step.Released
			done.Failed += step.Failed
			done.PutOff += step.PutOff
			done.Reopened = done.Reopened || step.Reopened
			return err
		}))
	}, func(_ int, err *postgres.RefusedError) {
		done.LookedAt++
		if unwritten == nil {
			unwritten = tx.q.SetGraphTaskAside(ctx, err.Error())
		}
	})
	return done, errors.Join(err, unwritten)
}

// AdvanceGraph checks tasks of one graph at once, before other queued checks. It checks up to
// drainGraphTasks tasks after a given one: those that wait and watch no dependency, or, in a cancelled
// graph, those not sent. It returns the last task; 0 if no more are left. While another process drains, and
// while failures are taken back, it does nothing and sets Waits. AdvanceGraphs does the remaining checks.
func (s Store) AdvanceGraph(ctx context.Context, graph, after int64, now time.Time) (last int64, round Round, err error) {
	err = s.inTx(ctx, postgres.ByKey, func(ctx context.Context, tx *Tx) error {
		locked, err := tx.q.TryLockGraphs(ctx)
		if err != nil || !locked {
			round.Waits = true
			return err
		}
		round, err = tx.takeBackFailures(ctx, drainGraphTasks, drainEdges, now)
		if err != nil || round.More || round.Waits {
			return err
		}
		last, err = tx.advanceGraph(ctx, graph, after, now)
		return err
	})
	return last, round, stmt.Failed(err, "settle graph %d", graph)
}

// advanceGraph does the checks of AdvanceGraph. It leaves tasks that PostgreSQL refuses to change to the
// drain. The caller holds the lock of graphs.
func (tx *Tx) advanceGraph(ctx context.Context, graph, after int64, now time.Time) (last int64, err error) {
	tasks, err := tx.q.UnsettledGraphTasks(ctx, queries.UnsettledGraphTasksParams{Graph: graph, After: after, MaxTasks: drainGraphTasks})
	if err != nil || len(tasks) == 0 {
		return 0, err
	}
	err = postgres.AsRefused(tx.Savepoint(ctx, func() error {
		done, err := tx.q.SettleGraphTasks(ctx, queries.SettleGraphTasksParams{MaxEdges: drainEdges, At: now, These: tasks})
		if err == nil && done.Released > 0 {
			err = tx.q.NotifyGraphs(ctx)
		}
		return err
	}))
	if _, refuses := errors.AsType[*postgres.RefusedError](err); refuses {
		err = nil
	}
	return tasks[len(tasks)-1], err
}

// These are the period of walks over graphs, and the numbers a step.
const (
	mendEvery       = 10 * time.Minute
	graphTasksAStep = 10_000
	graphsAStep     = 1000
)

// MendGraphs queues checks of waiting tasks without a recorded change: their dependencies ended while
// triggers were off, or were truncated. It also forgets graphs without tasks. It takes steps of each walk
// for about atMost.
func (s Store) MendGraphs(ctx context.Context, atMost time.Duration) error {
	_, err := bulk.Walk[struct{}]{
		Name: "graphs", Period: mendEvery, StepSize: graphsAStep,
		Begin: bulk.BeginAt(s.q.FirstGraph), End: s.q.EndOfGraphs,
		Step: func(ctx context.Context, first, end int64, _ *struct{}) error {
			empty, err := s.q.EmptyGraphs(ctx, queries.EmptyGraphsParams{FirstGraph: first, EndGraph: end})
			for _, graph := range empty {
				for more := true; more && err == nil; {
					err = s.locked(ctx, func(tx *Tx) (err error) {
						more, err = tx.forgetGraph(ctx, graph)
						return err
					})
				}
			}
			return err
		},
	}.Take(ctx, s.q, atMost)
	if err != nil {
		return err
	}
	_, err = bulk.Walk[struct{}]{
		Name: "tasks of graphs", Period: mendEvery, StepSize: graphTasksAStep,
		Begin: bulk.BeginAt(s.q.FirstGraphTask), End: s.q.EndOfGraphTasks,
		Step: func(ctx context.Context, first, end int64, _ *struct{}) error {
			return s.locked(ctx, func(tx *Tx) error {
				_, err := tx.q.CheckGraphTasks(ctx, queries.CheckGraphTasksParams{FirstTask: first, EndTask: end})
				return err
			})
		},
	}.Take(ctx, s.q, atMost)
	return err
}

// locked runs do in a transaction that holds the lock of graphs.
func (s Store) locked(ctx context.Context, do func(*Tx) error) error {
	return s.inTx(ctx, postgres.ByKey, func(ctx context.Context, tx *Tx) error {
		if err := tx.q.LockGraphs(ctx); err != nil {
			return err
		}
		return do(tx)
	})
}

// forgetGraph deletes a part of a graph without tasks, and reports whether more is left.
func (tx *Tx) forgetGraph(ctx context.Context, graph int64) (more bool, err error) {
	n, err := tx.q.ForgetGraphTasks(ctx, queries.ForgetGraphTasksParams{Graph: graph, MaxTasks: forgetTasks})
	if err != nil || n == forgetTasks {
		return true, err
	}
	return false, tx.q.ForgetGraph(ctx, graph)
}
