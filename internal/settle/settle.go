// Package settle decides what the events of workers change: runs of tasks, messages of
// the ledger, charges of groups, and the memory of how long work takes.
//
// The decisions are pure functions of the events and of what the database holds;
// db.Store.Settle loads that under locks and writes the result, in one transaction.
//
// Events come in any order, in any batches, and more than once: results are sent by a
// worker's child and overtake the events of its parent, and a batch that was applied
// but not acknowledged comes again. Whatever the order, the first end of a run counts,
// its newest start too, and a repeat changes nothing.
//
// # States of a message
//
//	                          start heard               end heard
//	outgoing or sent ──────────────► (started set) ──────────────► gone
//	     │                                 │                         ▲ runtime heard,
//	     │ end heard, runtime unknown      │ timed out, lanes left   │ or too late
//	     └────► settled ───────────────────┼─────────────────────────┘
//	                                       └──► backlog of the next lane, under a new task id
package settle

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"swh-scheduler/sql/db"
)

// Store is a database to which outcomes are applied.
type Store struct {
	*db.Store
	Metrics *Metrics // may be nil
}

// ApplyOutcomes writes outcomes in one transaction, in the order given. Outcomes of
// unknown runs and work are ignored. Applying an outcome again changes nothing, so a
// caller that doesn't know whether the transaction was committed applies it again.
//
// The rules for an open run (scheduled or started) are those of the Python scheduler's
// swh_scheduler_start_task_run and swh_scheduler_end_task_run. For a run that has ended
// they make up for the order of the events: a start fills in what it tells (never an end
// before a start), a second end adds the error text of a failure that had none, and
// neither touches the run's status or its task.
//
// It returns a *postgres.RefusedError if PostgreSQL refuses one of them.
func (s Store) ApplyOutcomes(ctx context.Context, outcomes []Outcome) error {
	if len(outcomes) == 0 {
		return nil
	}
	byID := gather(outcomes)
	var shown []observation
	var records db.LaneRecords
	err := s.Settle(ctx, keysOf(byID), func(runs []db.HeardRun, work []db.HeardWork) db.Settlement {
		decided := decide(byID, runs, work, uuid.New)
		shown, records = observe(byID, runs, work, decided), decided.Records
		decided.Ends = s.Metrics.ends(shown)
		return decided
	})
	if err != nil {
		return fmt.Errorf("apply %d outcomes: %w", len(outcomes), err)
	}
	s.Metrics.count(shown, records)
	return nil
}

// decide returns what a batch changes. It is pure, except for the ids of newID.
func decide(byID map[string]*report, runs []db.HeardRun, work []db.HeardWork, newID func() uuid.UUID) db.Settlement {
	w := newWorkSettler(runs, newID)
	for _, row := range work {
		w.settle(row, byID[row.TaskID.String()])
	}
	settleRuns(&w.Settlement, byID, runs, w.requeued, w.final)
	return w.Settlement
}
