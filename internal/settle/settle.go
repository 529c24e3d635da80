package settle

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// Store is a database with the method that applies outcomes.
type Store struct {
	*db.Store
	Metrics *Metrics      // may be nil
	Hosters model.Hosters // those that back off learn from visits that they refuse
}

// ApplyOutcomes writes outcomes in one transaction, in the order given. It ignores outcomes of unknown runs and
// work. Applying an outcome again changes nothing, so a caller that doesn't know whether the transaction was
// committed applies it again.
//
// The rules for an open run (scheduled or started) are those of the Python scheduler's swh_scheduler_start_task_run
// and swh_scheduler_end_task_run. The rules for an ended run make the order of events irrelevant. A start adds its
// worker and its time, which is at most the end's. A second end adds the error text of a failure that had none.
// Neither changes the run's status or its task.
//
// It returns a *postgres.RefusedError if PostgreSQL refuses one of them.
func (s Store) ApplyOutcomes(ctx context.Context, outcomes []Outcome) error {
	return s.ApplyInTurn(ctx, outcomes, nil)
}

// ApplyInTurn is ApplyOutcomes for batches that overlap. It calls locked when the transaction has the locks of all runs, tasks and
// messages of the batch: what begins then waits for its changes to them. A transaction that is repeated calls it again.
func (s Store) ApplyInTurn(ctx context.Context, outcomes []Outcome, locked func()) error {
	if len(outcomes) == 0 {
		return nil
	}
	byID := gather(outcomes)
	var shown []observation
	var records ledger.LaneRecords
	var hosters []hosterEnd
	err := s.Settle(ctx, keysOf(byID), func(runs []ledger.LockedRun, work []ledger.LockedWork) ledger.Settlement {
		decided := decide(byID, runs, work, uuid.New)
		decided.Locked = locked
		awaitResults(s.Hosters, byID, work, &decided)
		shown, records = observe(byID, runs, work, decided), decided.Records
		decided.Ends, decided.Failures = s.Metrics.ends(shown), s.Metrics.failed(shown)
		hosters = hosterEnds(s.Hosters, byID, work, decided)
		decided.Hosters = learning(s.Hosters, hosters)
		return decided
	})
	if err != nil {
		return fmt.Errorf("apply %d outcomes: %w", len(outcomes), err)
	}
	s.Metrics.count(shown, records)
	s.Metrics.countRefused(hosters)
	return nil
}

// decide returns what a batch changes. It is pure, except for the ids of newID.
func decide(byID map[string]*report, runs []ledger.LockedRun, work []ledger.LockedWork, newID func() uuid.UUID) ledger.Settlement {
	w := newWorkSettler(runs, newID)
	for _, row := range work {
		w.settle(row, byID[row.TaskID.String()])
	}
	settleRuns(&w.Settlement, byID, runs, w.requeued, w.final)
	return w.Settlement
}
