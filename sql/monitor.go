package sql

import (
	"context"
	"fmt"
	"time"

	"swh-scheduler/sql/internal/queries"
)

// Figures of the database for monitoring. Those of LightFigures are taken by a few
// steps along indexes; those of HeavyFigures by reading whole tables.

// LightFigures are what OutboxByQueue and the others of the same names tell.
type LightFigures struct {
	Outbox    []queries.OutboxByQueueRow
	Ready     []queries.OldestReadyRow
	Origins   []queries.OriginCountsRow
	Positions []queries.VisitSchedulerQueuePosition
	Active    []queries.ActiveOriginsRow
}

// LightFigures takes figures as of now.
func (s *Store) LightFigures(ctx context.Context, now time.Time) (f LightFigures, err error) {
	if f.Outbox, err = s.q.OutboxByQueue(ctx); err != nil {
		return f, fmt.Errorf("look at the outbox: %w", err)
	}
	if f.Ready, err = s.q.OldestReady(ctx, now); err != nil {
		return f, fmt.Errorf("look at ready tasks: %w", err)
	}
	if f.Origins, err = s.q.OriginCounts(ctx); err != nil {
		return f, fmt.Errorf("read the counts of origins: %w", err)
	}
	if f.Positions, err = s.q.QueuePositions(ctx); err != nil {
		return f, fmt.Errorf("read queue positions: %w", err)
	}
	if f.Active, err = s.q.ActiveOrigins(ctx); err != nil {
		return f, fmt.Errorf("read the counts of active origins: %w", err)
	}
	return f, nil
}

// HeavyFigures are what PoolCounts and the others of the same names tell.
type HeavyFigures struct {
	Pools      []queries.PoolCountsRow
	Unanswered int64
}

// HeavyFigures takes figures that read whole tables, and counts the active origins
// that LightFigures tell; of runs, those unheard of since unansweredSince. taken is
// false if somebody else is at it.
func (s *Store) HeavyFigures(ctx context.Context, unansweredSince time.Time) (f HeavyFigures, taken bool, err error) {
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
		// The last, as listers wait for the rows that it locks.
		return tx.q.CountActiveOrigins(ctx, maxPendingChanges)
	})
	if err != nil {
		return f, false, fmt.Errorf("count origins and runs: %w", err)
	}
	return f, taken, nil
}
