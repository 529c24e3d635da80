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

// Graphs are tasks that wait for tasks. Who waits for whom are rows of graph_edges,
// never changed once written, so that neither the end of a task nor a release updates a
// row that many transactions update.
//
//	task ──trigger──► graph_changes ──spread──► graph_checks ──settle──► task
//	(any writer)      (which ended)             (whom to look at)        (released, or never run)
//
// A waiting task has status next_run_not_scheduled and a next run in the year 9999: no
// runner starts it, ours or the Python scheduler's, and every client can read it. (The
// Python scheduler's archiver takes status disabled for a task that is done with; the
// Python scheduler's clients can't read a next run at infinity.)
//
// # What is noted
//
// A waiting task watches one dependency that has not ended, the one of the highest
// number, which likely ends last (as SAT solvers watch literals). The trigger on the end
// of a task notes it only if it is watched. When the watched one has ended, the task
// looks for another to watch, from there downwards: each edge is passed about once. When
// none is left, all of them are checked in one snapshot, and the task is released. A
// failure of a task with dependents is always noted, and so is its reopening.
//
// # Why no last release is lost
//
// Two transactions may end the last two dependencies at once, neither seeing the other.
// So one drain at a time (an advisory lock) decides afterwards. It share-locks the row
// of the dependency to watch until it commits: who ends that task later waits for the
// commit and then sees that it is watched; who is ending it now holds the row, so the
// drain, which never waits, skips it, to another dependency or to the next round.
// Submitting a graph locks the existing tasks that it depends on in the same way.
//
// A round is one transaction: it happened or is still to be done, and a task that is no
// longer waiting is not released again.
//
// # Failures
//
// A task that can never run is disabled, with the reason in graph_tasks; the same
// trigger notes that for its dependents, a bounded part in each round.
//
// If a disabled task is open again (task respawn), those that failed by it wait again, and so on down to
// the last one. That comes first: rounds that do it do nothing else. Until it is done, no task is released or
// disabled because of others, as it might be for a failure that is about to be taken back. Each decision
// looks, in the snapshot in which it reads the dependencies, for tasks that were opened again meanwhile. A
// task whose row others have locked holds this up for up to reopenPatience; then it is checked like any other.

// Bounds of one round of the drain.
const (
	drainChanges    = 500
	drainEdges      = 20_000
	drainGraphTasks = 1000
	forgetTasks     = 5000
)

// reopenPatience is how long all graphs wait for a locked task that is to wait again.
const reopenPatience = 10 * time.Second

// Round is what one round of the drain did.
type Round struct {
	Released int64 // tasks that may run now
	Failed   int64 // tasks that never will
	More     bool  // there is more to do at once
	Waits    bool  // there is more to do once other transactions have ended
}

// AdvanceGraphs does one round for graphs: it releases tasks whose dependencies have ended,
// and disables those that can never run. While another process is draining, it does
// nothing and sets Waits. A round that times out is undone, and the next is half as large.
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

// NoteRound records how a round of so many tasks went. After a time-out the next is half as large.
func (s Store) NoteRound(tasks int, err error) { s.sizes.graphs.Note(tasks, err) }

// advanceGraphs does a round in steps, as what one step disables is a change for the next.
// The lock is held.
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

// takeBackFailures has tasks wait again that could not run because of tasks that are open again. If it sets More or
// Waits, nothing else may be done in this round. It leaves a task that PostgreSQL refuses to change to checkQueued.
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

// checkQueued does up to tasks queued checks. It sets aside a task that PostgreSQL refuses to
// change.
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

// AdvanceGraph checks tasks of a graph at once, whatever else is queued: of those after a given one, up to
// drainGraphTasks that wait and watch no dependency, or, if the graph is cancelled, were not sent. It returns the last
// of them; 0 if there are no more. As AdvanceGraphs, it does nothing and sets Waits while another process is draining, and
// while failures are taken back. What is left is in the queue of AdvanceGraphs.
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

// advanceGraph does the checks of AdvanceGraph. It leaves tasks that PostgreSQL refuses to change to the drain. The lock is held.
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

// Walks over graphs begin mendEvery after each other, and take so many numbers a step.
const (
	mendEvery       = 10 * time.Minute
	graphTasksAStep = 10_000
	graphsAStep     = 1000
)

// MendGraphs queues checks of the waiting tasks that nothing would wake, as their dependencies ended
// while triggers were off, or were truncated with their table. It also forgets graphs without
// tasks. It takes steps of a walk for about atMost for either.
func (s Store) MendGraphs(ctx context.Context, atMost time.Duration) error {
	_, err := bulk.Walk[struct{}]{
		Name: "graphs", Every: mendEvery, Most: graphsAStep,
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
		Name: "tasks of graphs", Every: mendEvery, Most: graphTasksAStep,
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

// locked runs do in a transaction that has the lock of graphs.
func (s Store) locked(ctx context.Context, do func(*Tx) error) error {
	return s.inTx(ctx, postgres.ByKey, func(ctx context.Context, tx *Tx) error {
		if err := tx.q.LockGraphs(ctx); err != nil {
			return err
		}
		return do(tx)
	})
}

// forgetGraph deletes a part of a graph without tasks, and reports whether there is more.
func (tx *Tx) forgetGraph(ctx context.Context, graph int64) (more bool, err error) {
	n, err := tx.q.ForgetGraphTasks(ctx, queries.ForgetGraphTasksParams{Graph: graph, MaxTasks: forgetTasks})
	if err != nil || n == forgetTasks {
		return true, err
	}
	return false, tx.q.ForgetGraph(ctx, graph)
}
