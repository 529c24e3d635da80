package sql

import (
	"context"
	"fmt"
	"time"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// Candidates are a copy, in scheduler_go.candidates, of what visit policies
// select and order by: one row an enabled listed origin, with an index in the
// order of each policy, so that picking the next n origins reads about n rows,
// whatever the size of the peer's tables.
//
//	peer's tables ──trigger──► candidate_changes ──drain──► candidates ◄──► parked
//	 (any writer)               (which origins)   (one at a time)    due / cooling down
//
// A trigger only notes which origin changed, in the transaction that changed it.
// Draining takes notes away and reads the origins anew, under an advisory lock,
// in one snapshot. So in every snapshot a candidate is right, or its origin is
// among the noted changes; a grab reads both, and is exact at any time: see
// candidates_grab.go. What gives way when there are too many notes
// (maxPendingChanges for the visit type) is speed: until enough of them are
// drained, grabs use the general query, which costs what the peer's does.
//
// A candidate that was not due when it was looked at is parked: kept out of the
// indexes of the policies, which would otherwise start with everything that is
// cooling down. That is a hint only. Grabs look at parked candidates too, by
// their due date.
const (
	// drainBatch is how many changes are drained in one transaction, and how
	// many candidates unparked: a few hundred milliseconds' worth.
	drainBatch = 5000

	// maxPendingChanges is how many changes of a visit type a grab reads by
	// itself. More of them would cost more than reading the peer's tables.
	maxPendingChanges = 10_000

	// grabDrains is with how many pending changes a real grab drains some first,
	// twice as many, so that where nothing else drains, grabs alone keep up with
	// what they mark.
	grabDrains = 5000
)

// Kept is what one call of KeepCandidates did.
type Kept struct {
	Drained int64 // changes
	More    bool  // there is more to do at once
}

// KeepCandidates does a part of the work that keeps candidates up to date:
// draining, unparking, and building them where they are not built (a table was
// emptied). It does nothing while somebody else is at it.
func (s *Store) KeepCandidates(ctx context.Context) (Kept, error) {
	var kept Kept
	phase := phaseReady
	err := s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		locked, err := tx.q.TryLockCandidates(ctx)
		if err != nil || !locked {
			return err
		}
		build, err := tx.q.BuildPhase(ctx)
		if err != nil {
			return err
		}
		if phase = build.Phase; phase != phaseReady {
			return nil
		}
		kept, err = tx.keepCandidates(ctx)
		return err
	})
	if err == nil && phase != phaseReady {
		kept.More = true
		_, err = buildStep(ctx, s.pool)
	}
	if err != nil {
		return Kept{}, fmt.Errorf("keep candidates up to date: %w", err)
	}
	return kept, nil
}

// keepCandidates drains a batch of each visit type and unparks one. The lock is
// held.
func (tx *Tx) keepCandidates(ctx context.Context) (Kept, error) {
	var kept Kept
	visitTypes, err := tx.q.ChangedVisitTypes(ctx)
	if err != nil {
		return Kept{}, err
	}
	for _, visitType := range visitTypes {
		n, err := tx.q.DrainCandidates(ctx, queries.DrainCandidatesParams{VisitType: visitType, MaxChanges: drainBatch})
		if err != nil {
			return Kept{}, err
		}
		kept.Drained += n
		kept.More = kept.More || n == drainBatch
	}
	n, err := tx.q.UnparkCandidates(ctx, drainBatch)
	kept.More = kept.More || n == drainBatch
	return kept, err
}

// VacuumCandidateChanges clears away what is left of drained changes: reading
// the table passes by it. Without the right to do so, it does nothing.
func (s *Store) VacuumCandidateChanges(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, "vacuum scheduler_go.candidate_changes")
	return err
}

// CandidateBacklog counts the changes that are not drained yet, up to limit.
func (s *Store) CandidateBacklog(ctx context.Context, limit int64) (int64, error) {
	return s.q.CandidateBacklog(ctx, limit)
}

// drainPending drains some changes of a visit type if there are many, so that
// those that a grab reads by itself stay few.
func (tx *Tx) drainPending(ctx context.Context, visitType string) error {
	pending, err := tx.q.PendingChanges(ctx, queries.PendingChangesParams{VisitType: visitType, Bound: grabDrains})
	if err != nil || pending < grabDrains {
		return err
	}
	if err := tx.q.LockCandidates(ctx); err != nil {
		return err
	}
	ready, err := tx.q.CandidatesReady(ctx)
	if err != nil || !ready {
		return err
	}
	_, err = tx.q.DrainCandidates(ctx, queries.DrainCandidatesParams{VisitType: visitType, MaxChanges: 2 * grabDrains})
	return err
}

// CandidateGroups says how many enabled listed origins of a visit type have no
// known last update (the design's group A), and how many have one (group B). They
// are counted as candidates change, so what is not drained yet is not among them;
// while candidates are being built, there are none.
func (tx *Tx) CandidateGroups(ctx context.Context, visitType string) (without, with int64, err error) {
	groups, err := tx.q.CandidateGroups(ctx, visitType)
	if err != nil || len(groups) == 0 {
		return 0, 0, err
	}
	return groups[0].WithoutUpdate, groups[0].WithUpdate, nil
}

// NextDue is from when on more candidates of a visit type may be picked than at a
// moment that is not in the past; zero: never. Changes that are pending may say
// otherwise.
func (a asker) NextDue(ctx context.Context, visitType string, at time.Time) (time.Time, error) {
	next, err := a.q.NextDue(ctx, queries.NextDueParams{VisitType: visitType, At: at})
	if err != nil || len(next) == 0 {
		return time.Time{}, err
	}
	return next[0], nil
}

// KnownToCandidates tells whether candidates can answer what a filter asks.
func KnownToCandidates(f scheduler.VisitFilter) bool { return fromCandidates(f) }
