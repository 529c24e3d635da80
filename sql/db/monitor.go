package db

import (
	"context"
	"time"

	"swh-scheduler/sql/internal/queries"
)

// LightFigures are figures for monitoring that take a few steps along indexes.
type LightFigures struct {
	Outgoing  []queries.OutgoingByQueueRow
	Ready     []queries.OldestReadyRow
	Origins   []queries.OriginCountsRow
	Positions []queries.VisitSchedulerQueuePosition
	Active    []queries.ActiveOriginsRow
	SetAside  queries.CountSetAsideRow
	Rejected  queries.CountRejectedRow

	// CandidateChanges counts the changes that candidates don't show yet, up to
	// MaxCandidateChanges.
	CandidateChanges int64
}

// LightFigures takes figures as of now.
func (s MonitorStore) LightFigures(ctx context.Context, now time.Time) (f LightFigures, err error) {
	if f.Outgoing, err = s.q.OutgoingByQueue(ctx); err != nil {
		return f, failed(err, "look at outgoing messages")
	}
	if f.Ready, err = s.q.OldestReady(ctx, now); err != nil {
		return f, failed(err, "look at ready tasks")
	}
	if f.Origins, err = s.q.OriginCounts(ctx); err != nil {
		return f, failed(err, "read the counts of origins")
	}
	if f.Positions, err = s.q.VisitQueuePositions(ctx); err != nil {
		return f, failed(err, "read queue positions")
	}
	if f.Active, err = s.q.ActiveOrigins(ctx); err != nil {
		return f, failed(err, "read the counts of active origins")
	}
	if f.SetAside, err = s.q.CountSetAside(ctx, maxCounted); err != nil {
		return f, failed(err, "count what is set aside")
	}
	if f.Rejected, err = s.q.CountRejected(ctx); err != nil {
		return f, failed(err, "count the rejected events and records")
	}
	f.CandidateChanges, err = s.q.CandidateBacklog(ctx, MaxCandidateChanges)
	return f, failed(err, "count the changes of candidates")
}

// HeavyFigures are figures for monitoring that read whole tables.
type HeavyFigures struct {
	Pools      []queries.PoolCountsRow
	Unanswered int64 // runs of which nothing was heard
}

// HeavyFigures takes heavy figures, with the runs unheard of since unansweredSince, and
// counts the active origins that LightFigures returns. taken is false if another process
// is doing so.
func (s MonitorStore) HeavyFigures(ctx context.Context, unansweredSince time.Time) (f HeavyFigures, taken bool, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		if taken, err = tx.q.TryLockMonitor(ctx); err != nil || !taken {
			return err
		}
		if f.Pools, err = tx.q.PoolCounts(ctx); err != nil {
			return err
		}
		if f.Unanswered, err = tx.q.UnansweredRuns(ctx, &unansweredSince); err != nil {
			return err
		}
		// Last, as listers wait for the rows that it locks.
		return tx.q.CountActiveOrigins(ctx, maxPendingChanges)
	})
	return f, taken && err == nil, failed(err, "count origins and runs")
}
