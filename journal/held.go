package journal

import (
	"context"
	"time"

	"swh-scheduler/internal/daemon"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

const (
	// heldPeriod is how often failed visits that were kept back are looked at.
	heldPeriod = 5 * time.Second
	// maxHeld is how many are counted in one transaction.
	maxHeld = 1000
)

// countHeld counts the failed visits that were kept back (see holdBack) and turned
// out to be failures, until ctx ends. Several members may do so at once: the one
// that comes second finds them counted.
func (c *Client) countHeld(ctx context.Context) {
	loop := daemon.Loop{
		RunOnce: func(ctx context.Context) (daemon.Result, error) {
			n, err := countReleased(ctx, c.o.Store, c.o.Rules)
			return daemon.Result{Again: n == maxHeld}, err
		},
		Period: heldPeriod, Jitter: true,
		Service: c.databaseState,
	}
	_ = loop.Run(ctx)
}

// countReleased counts some failed visits that were kept back, and returns how many.
func countReleased(ctx context.Context, store Store, rules Rules) (int, error) {
	released, err := store.ReleasedVisits(ctx, maxHeld)
	if err != nil || len(released) == 0 {
		return 0, err
	}
	visits := make([]Visit, len(released))
	for i, r := range released {
		visits[i] = Visit{OriginKey: r.OriginKey, Date: r.Date, Status: scheduler.VisitFailed}
	}
	return len(released), store.UpdateVisitStats(ctx, originsOf(visits), func(known sql.KnownVisits) sql.VisitChanges {
		known.Laned, known.Overs = nil, nil // what is underway now is a visit after these
		t := newTally(rules, known)
		t.apply(visits)
		changes := t.changes()
		changes.Counted = released
		return changes
	})
}
