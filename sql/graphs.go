package sql

import (
	"context"
	"fmt"
	"time"

	"swh-scheduler/sql/internal/queries"
)

// Graphs are tasks that wait for tasks. Which waits for which are rows of
// graph_edges, never changed once made, so that neither the end of a task nor
// the number of those that wait for it, or that it waited for, touches a row that
// many touch.
//
//	task ──trigger──► graph_changes ──spread──► graph_checks ──settle──► task
//	(any writer)      (which ended)             (whom to look at)        (released, or never run)
//
// A waiting task has status next_run_not_scheduled and a next run in the year
// 9999: no runner starts it, ours or the peer's, and every client can read it.
// (Status disabled would do for the runners, but the peer's archiver takes that
// for a task that is done with, and nobody could tell it from one that failed;
// of a next run at infinity the peer's clients can't read the row.)
//
// # What is noted
//
// A waiting task watches one dependency that has not ended, the one of the
// highest number, which likely ends last. The trigger on the end of a task notes
// it only if it is watched, so of a thousand dependencies that end, few are
// noted. When the watched one has ended, the task looks for another to watch,
// from there downwards: each edge is passed about once. When there is none left
// it looks at all of them in one snapshot, and is released. (SAT solvers know
// that a clause is not yet decided by watching two of its literals: the same
// idea.) A failure is always noted if anybody depends on the task, and so is a
// failed task that is open again: both are rare.
//
// # Why no last release is lost
//
// Two transactions may end the last two dependencies at once, neither seeing the
// other. So nothing is decided in them: one drain at a time (an advisory lock)
// decides afterwards. It shares the lock of the row of the dependency that is to
// be watched until it commits: who ends that task later waits for the commit and
// then sees that it is watched; who is ending it now holds the row locked, so
// that the drain, which never waits, passes by it, to another dependency or to
// the next round. Submitting a graph locks the existing tasks that it depends on
// in the same way.
//
// All of a round is one transaction: it either happened or is there to be done,
// and a task that is not waiting any more is not released again.
//
// # Failures
//
// A task that can never run is disabled, with the reason in graph_tasks; the same
// trigger notes that, and so on to what waits for it, a bounded part of it in
// each round. If the dependency is open again (task respawn), those that failed
// by it wait again.

// Bounds of one round of the drain.
const (
	drainChanges    = 500
	drainEdges      = 20_000
	drainGraphTasks = 1000
	forgetTasks     = 5000
)

// GraphRound is what one round of the drain did.
type GraphRound struct {
	Released int64 // tasks that may run now
	Failed   int64 // tasks that never will
	More     bool  // there is more to do at once
	Waits    bool  // there is more to do when others have ended their transactions
}

// DrainGraphs does a part of what there is to do for graphs at a moment: it
// releases tasks whose dependencies have ended, and disables those that can
// never run. While somebody else is at it, it only waits.
func (s *Store) DrainGraphs(ctx context.Context, now time.Time) (GraphRound, error) {
	var round GraphRound
	pending, err := s.q.GraphsPending(ctx, now)
	if err == nil && pending {
		err = s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
			locked, err := tx.q.TryLockGraphs(ctx)
			if err == nil && locked {
				round, err = tx.drainGraphs(ctx, now)
			} else {
				round.Waits = true
			}
			return err
		})
	}
	if err != nil {
		return GraphRound{}, fmt.Errorf("release tasks of graphs: %w", err)
	}
	return round, nil
}

// drainGraphs is a round: step by step, as what one step disables is a change for
// the next. The lock is held.
func (tx *Tx) drainGraphs(ctx context.Context, now time.Time) (GraphRound, error) {
	var round GraphRound
	for lookedAt := int64(0); ; {
		step, err := tx.drainStep(ctx, now)
		if err != nil {
			return GraphRound{}, err
		}
		round.Released += step.Released
		round.Failed += step.Failed
		round.Waits = step.PutOff > 0
		done := step.LookedAt - step.PutOff
		round.More = step.begun > 0 || done > 0
		if lookedAt += done + step.begun; !round.More || lookedAt >= drainGraphTasks {
			break
		}
	}
	if round.Released > 0 {
		return round, tx.q.NotifyGraphs(ctx)
	}
	return round, nil
}

// drainStep is what one step did.
type drainStep struct {
	begun int64 // tasks found to be overdue, and changes taken
	queries.SettleGraphTasksRow
}

func (tx *Tx) drainStep(ctx context.Context, now time.Time) (drainStep, error) {
	overdue, err := tx.q.CheckDeadlines(ctx, queries.CheckDeadlinesParams{At: now, MaxTasks: drainGraphTasks})
	if err != nil {
		return drainStep{}, err
	}
	changes, err := tx.q.SpreadGraphChanges(ctx, queries.SpreadGraphChangesParams{MaxChanges: drainChanges, MaxEdges: drainEdges})
	if err != nil {
		return drainStep{}, err
	}
	settled, err := tx.q.SettleGraphTasks(ctx, queries.SettleGraphTasksParams{MaxTasks: drainGraphTasks, MaxEdges: drainEdges, At: now})
	return drainStep{overdue + changes, settled}, err
}

// MendGraphs has those waiting tasks looked at that nothing would wake: whose
// dependencies ended while triggers were off, or were emptied away with their
// table. It also forgets graphs of which no task is left. It is for now and then.
func (s *Store) MendGraphs(ctx context.Context) error {
	for {
		var more bool
		err := s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
			locked, err := tx.q.TryLockGraphs(ctx)
			if err != nil || !locked {
				return err
			}
			if _, err := tx.q.CheckForgotten(ctx); err != nil {
				return err
			}
			more, err = tx.forgetGraph(ctx)
			return err
		})
		if err != nil {
			return fmt.Errorf("look after graphs: %w", err)
		}
		if !more {
			return nil
		}
	}
}

// forgetGraph deletes a part of what is kept of a graph without tasks, if there
// is one, and says so.
func (tx *Tx) forgetGraph(ctx context.Context) (bool, error) {
	empty, err := tx.q.EmptyGraph(ctx)
	if err != nil || empty == 0 {
		return false, err
	}
	n, err := tx.q.ForgetGraphTasks(ctx, queries.ForgetGraphTasksParams{Graph: empty, MaxTasks: forgetTasks})
	if err != nil || n == forgetTasks {
		return true, err
	}
	if _, err := tx.q.ForgetGone(ctx); err != nil {
		return false, err
	}
	return true, tx.q.ForgetGraph(ctx, empty)
}
