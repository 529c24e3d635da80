package origins

import (
	"context"
	"errors"
	"time"

	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/candidates"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// Candidates (scheduler_go.candidates) are a copy of what visit policies select and
// order by: one row per enabled listed origin, with an index in the order of each
// policy, so that picking the next n origins reads about n rows, whatever the size of
// the Python scheduler's tables.
//
//	peer's tables ──trigger──► candidate_changes ──drain──► candidates ◄──► parked
//	 (any writer)               (which origins)   (one at a time)    due / cooling down
//
// A trigger notes which origin changed, in the transaction that changed it. Draining
// removes notes and reads the origins anew, under an advisory lock, in one snapshot. So
// in every snapshot a candidate is right, or its origin is among the noted changes; a
// grab reads both, and is always exact (candidates_grab.go). With more than
// MaxPendingChanges notes for the visit type, grabs use the general query instead, at
// the Python scheduler's cost, until enough of them are drained.
//
// Drained notes stay in the index as long as the oldest snapshot of the database; looks at notes
// begin after them (ledger.Queries.RaiseLowWater).
//
// A candidate that was not due when it was looked at is parked: kept out of the policies'
// indexes, which would otherwise start with everything that is cooling down. That is a
// hint only: grabs look at parked candidates too, by their due date.
const (
	// drainBatch is how many changes are drained in one transaction, and how many
	// candidates unparked: a few hundred milliseconds.
	drainBatch = 5000

	// MaxPendingChanges is how many changes of a visit type a grab reads itself. More
	// would cost more than reading the Python scheduler's tables.
	MaxPendingChanges = 10_000

	// grabDrains is the number of pending changes at which a grab that marks first drains twice
	// as many, so that grabs keep up with their own marks where nothing else sizes.
	grabDrains = 5000
)

// Maintained is what one call of MaintainCandidates did.
type Maintained struct {
	Drained int64            // changes
	More    bool             // there is more to do at once
	Build   candidates.Build // how far the build is; without a phase while another process works on it
}

// MaintainCandidates does a part of the work that keeps candidates up to date:
// draining, unparking, and building them where they are not built (a table was
// truncated). It does nothing while another process is doing it, and leaves building to the owner of
// candidates, as which RPC servers work. A batch that times out
// is an error, but what went well stays done, and the next call takes half as many.
func (s Store) MaintainCandidates(ctx context.Context) (Maintained, error) {
	var kept Maintained
	var late error
	var build queries.BuildPhaseRow
	locked := false
	err := s.inTx(ctx, postgres.Plainly, func(ctx context.Context, tx *Tx) (err error) {
		locked, err = tx.q.TryLockCandidates(ctx)
		if err != nil || !locked {
			return err
		}
		if build, err = tx.q.BuildPhase(ctx); err == nil && build.Phase == candidates.PhaseReady {
			kept, late, err = tx.maintainCandidates(ctx)
		}
		return err
	})
	mayBuild := false
	if err == nil && locked && build.Phase != candidates.PhaseReady {
		err = s.db.Pool().QueryRow(ctx, "select pg_has_role(relowner, 'usage') from pg_class where oid = 'scheduler_go.candidates'::regclass").Scan(&mayBuild)
	}
	if mayBuild {
		kept.More = true
		build, err = candidates.BuildStep(ctx, s.db.Pool(), &s.sizes.copied)
	}
	kept.Build = candidates.Build(build)
	return kept, stmt.Failed(errors.Join(err, late), "keep candidates up to date")
}

// maintainCandidates drains a batch of each visit type and unparks one. The lock of candidates is held.
// late joins the time-outs of batches, which stop no other batch.
func (tx *Tx) maintainCandidates(ctx context.Context) (kept Maintained, late, err error) {
	visitTypes, err := tx.q.ChangedVisitTypes(ctx)
	if err != nil {
		return kept, nil, err
	}
	for _, visitType := range visitTypes {
		n, more, err := tx.drain(ctx, visitType, drainBatch)
		if postgres.TimedOut(err) {
			late = errors.Join(late, err)
		} else if err != nil {
			return kept, late, err
		}
		kept.Drained += n
		kept.More = kept.More || more
	}
	most := tx.sizes.parked.Of(drainBatch)
	err = tx.Savepoint(ctx, func() error {
		n, err := tx.q.UnparkCandidates(ctx, int64(most))
		kept.More = kept.More || n == int64(most)
		return err
	})
	tx.sizes.parked.Note(most, err)
	if postgres.TimedOut(err) {
		late, err = errors.Join(late, err), nil
	}
	return kept, late, err
}

// drain drains up to most changes of a visit type and reports whether there may be more.
// An origin that PostgreSQL refuses is set aside. The lock of candidates is held. After a time-out
// the transaction can go on, with nothing drained.
func (tx *Tx) drain(ctx context.Context, visitType string, most int) (drained int64, more bool, err error) {
	most = tx.sizes.changes.Of(most)
	aside, err := bulk.BisectIn(ctx, tx.Tx, most, func(first, end int) (int64, error) {
		n, err := tx.q.DrainCandidates(ctx, queries.DrainCandidatesParams{VisitType: visitType, MaxChanges: int64(end - first)})
		if err == nil {
			drained += n
		}
		return n, err
	}, func(_ int, err *postgres.RefusedError) error { return tx.setNextAside(ctx, visitType, err) })
	tx.sizes.changes.Note(most, err)
	return drained, aside > 0 || drained == int64(most), stmt.Failed(err, "drain changes of visit type %q", visitType)
}

// setNextAside sets aside the origin whose change would be drained next. A trigger notes that as a
// change of the origin, whose drain deletes its candidates.
func (tx *Tx) setNextAside(ctx context.Context, visitType string, reason *postgres.RefusedError) error {
	url, err := tx.q.NextCandidateChange(ctx, visitType)
	if err != nil {
		return err
	}
	if _, err := tx.q.DropCandidateChanges(ctx, queries.DropCandidateChangesParams{VisitType: visitType, URL: url}); err != nil {
		return err
	}
	return tx.q.SetOriginAside(ctx, queries.SetOriginAsideParams{Reason: reason.Error(), URL: url, VisitType: visitType})
}

// CandidateBacklog counts the changes that are not drained yet, up to limit.
func (s Store) CandidateBacklog(ctx context.Context, limit int64) (int64, error) {
	return s.q.CandidateBacklog(ctx, limit)
}

// drainPending drains changes of a visit type if there are many. It does nothing while another
// process is draining or building.
func (tx *Tx) drainPending(ctx context.Context, visitType string) error {
	pending, err := tx.q.PendingChanges(ctx, queries.PendingChangesParams{VisitType: visitType, Bound: grabDrains})
	if err != nil || pending < grabDrains {
		return err
	}
	locked, err := tx.q.TryLockCandidates(ctx)
	if err != nil || !locked { // another process drains or builds
		return err
	}
	ready, err := tx.q.CandidatesReady(ctx)
	if err == nil && ready {
		// After a time-out the grab goes on: with many changes it reads the tables.
		if _, _, err = tx.drain(ctx, visitType, 2*grabDrains); postgres.TimedOut(err) && ctx.Err() == nil {
			err = nil
		}
	}
	return err
}

// CandidateGroups counts the enabled listed origins of a visit type without a known last
// update (the design's group A), and those with one (group B). The counts are kept as
// candidates change, so undrained changes are missing; they are 0 during a build.
func (tx *Tx) CandidateGroups(ctx context.Context, visitType string) (without, with int64, err error) {
	group, err := stmt.FirstOrZero(tx.q.CandidateGroups(ctx, visitType))
	return group.WithoutUpdate, group.WithUpdate, err
}

// NextDue returns when the next candidates of a visit type become eligible after at, which is
// not in the past; zero: never. Pending changes may make some eligible earlier.
func (a Queries) NextDue(ctx context.Context, visitType string, at time.Time) (time.Time, error) {
	return stmt.FirstOrZero(a.q.NextDue(ctx, queries.NextDueParams{VisitType: visitType, At: at}))
}
