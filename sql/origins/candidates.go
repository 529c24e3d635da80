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

// Candidates (scheduler_go.candidates) are a copy of the columns that visit policies select and order by:
// one row per enabled listed origin. Each policy has an index in its order. So picking the next n origins
// reads about n rows, for any size of the Python scheduler's tables.
//
//	peer's tables ──trigger──► candidate_changes ──drain──► candidates ◄──► parked
//	 (any writer)               (which origins)   (one at a time)    due / cooling down
//	 claims, journal client ──────under the lock of drains─────────►
//
// A trigger records each changed origin in the transaction of the change. A drain deletes these records and
// reads the origins again, under an advisory lock and in one snapshot. So in every snapshot a candidate is
// right, or its origin has a recorded change. A grab reads both and is always exact (candidates_grab.go).
//
// A transaction of ours that gets that lock at once moves the candidates of its origins instead: a claim in grab.go,
// visits of the journal by ledger.Store.UpdateVisitStats. It takes the lock in a statement of its own, before. So the
// next statement sees what earlier holders of the lock have written. It changes only candidates of rows that it has
// locked. Other transactions don't get the lock meanwhile, and record their changes.
//
// With more than MaxPendingChanges of the visit type, grabs use the general query at the Python scheduler's
// cost, until enough changes are drained.
//
// Drained changes stay in the index as long as the oldest snapshot of the database. Scans of changes begin
// after them (ledger.Queries.RaiseLowWater).
//
// A drain parks a candidate that is not due, which takes it out of the policies' indexes. Otherwise these
// would begin with all origins that are cooling down. Parking is only a hint: grabs also read parked
// candidates by their due date.
const (
	// drainBatch bounds the changes drained, and the candidates unparked, in one transaction: a few hundred
	// milliseconds.
	drainBatch = 5000

	// MaxPendingChanges bounds the changes of a visit type that a grab reads. Reading more would cost more
	// than reading the Python scheduler's tables.
	MaxPendingChanges = 10_000

	// grabDrains is the number of pending changes at which a marking grab first drains twice as many. So
	// grabs drain their own marks if no other process does.
	grabDrains = 5000
)

// MaintainResult is the result of one call of MaintainCandidates.
type MaintainResult struct {
	Drained int64            // changes
	More    bool             // more work can be done at once
	Build   candidates.Build // the progress of the build; without a phase if another process holds the lock
}

// MaintainCandidates does a part of the maintenance of candidates: it drains changes, unparks, and takes
// steps of a build after a truncate. It does nothing while another process holds the lock. Only the owner
// of candidates builds; RPC servers connect as the owner. A batch that times out is returned as an error.
// Batches before it stay done, and the next call takes half as many rows.
func (s Store) MaintainCandidates(ctx context.Context) (MaintainResult, error) {
	var kept MaintainResult
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

// maintainCandidates drains a batch of each visit type and unparks one batch. The caller holds the lock of
// candidates. late joins the time-outs of batches; the other batches still run.
func (tx *Tx) maintainCandidates(ctx context.Context) (kept MaintainResult, late, err error) {
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
	tx.sizes.parked.Adjust(most, err)
	if postgres.TimedOut(err) {
		late, err = errors.Join(late, err), nil
	}
	return kept, late, err
}

// drain drains up to most changes of a visit type and reports whether there may be more. It sets aside an
// origin that PostgreSQL refuses. The caller holds the lock of candidates. After a time-out nothing is
// drained, and the transaction can go on.
func (tx *Tx) drain(ctx context.Context, visitType string, most int) (drained int64, more bool, err error) {
	most = tx.sizes.changes.Of(most)
	aside, err := bulk.BisectIn(ctx, tx.Tx, most, func(first, end int) (int64, error) {
		n, err := tx.q.DrainCandidates(ctx, queries.DrainCandidatesParams{VisitType: visitType, MaxChanges: int64(end - first)})
		if err == nil {
			drained += n
		}
		return n, err
	}, func(_ int, err *postgres.RefusedError) error { return tx.setNextAside(ctx, visitType, err) })
	tx.sizes.changes.Adjust(most, err)
	return drained, aside > 0 || drained == int64(most), stmt.Failed(err, "drain changes of visit type %q", visitType)
}

// setNextAside sets aside the origin of the next change. A trigger records that as a change of the origin,
// whose drain deletes its candidates.
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

// CandidateBacklog counts the pending changes, up to limit.
func (s Store) CandidateBacklog(ctx context.Context, limit int64) (int64, error) {
	return s.q.CandidateBacklog(ctx, limit)
}

// drainPending drains changes of a visit type if there are many. It does nothing while another process
// drains or builds.
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
		// After a time-out the grab goes on, and reads the tables if many changes are pending.
		if _, _, err = tx.drain(ctx, visitType, 2*grabDrains); postgres.TimedOut(err) && ctx.Err() == nil {
			err = nil
		}
	}
	return err
}

// CandidateGroups counts a visit type's enabled listed origins without a known last update (the design's
// group A), and with one (group B). The stored counts lack pending changes, and are 0 during a build.
func (tx *Tx) CandidateGroups(ctx context.Context, visitType string) (without, with int64, err error) {
	group, err := stmt.FirstOrZero(tx.q.CandidateGroups(ctx, visitType))
	return group.WithoutUpdate, group.WithUpdate, err
}

// NextDue returns when the visit type's next candidates become eligible after at, which must not be in the
// past. Zero: never. Pending changes may make origins eligible earlier.
func (a Queries) NextDue(ctx context.Context, visitType string, at time.Time) (time.Time, error) {
	return stmt.FirstOrZero(a.q.NextDue(ctx, queries.NextDueParams{VisitType: visitType, At: at}))
}
