package journal

import (
	"context"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/ledger"
)

const (
	heldPeriod = 5 * time.Second // between looks at failed visits that were kept back
	maxHeld    = 1000            // of them in one transaction
)

// countHeld counts the failed visits that were kept back (see holdBack) and turned
// out to be failures, until ctx ends. Several members may do so at once: the one
// that comes second finds them counted.
func (c *Client) countHeld(ctx context.Context) {
	loop := service.Loop{
		Name: "counting failed visits", Log: c.o.Log,
		RunOnce: func(ctx context.Context) (service.Result, error) {
			most := c.heldSize.Of(maxHeld)
			n, applied, err := countReleased(ctx, c.o.Store, c.o.Rules, most)
			if err == nil {
				c.metrics.visits(applied)
			}
			c.heldSize.Note(n, err)
			return service.Result{Again: n == most}, err
		},
		Period: heldPeriod, Jitter: true, Optional: true,
	}
	_ = loop.Run(ctx)
}

// countReleased counts up to most failed visits that were kept back, in a transaction of
// its own, and returns how many it tried, and those that changed something.
func countReleased(ctx context.Context, store Store, rules Rules, most int) (n int, applied Applied, err error) {
	released, err := store.ReleasedVisits(ctx, most)
	if err != nil || len(released) == 0 {
		return 0, nil, err
	}
	visits := make([]Visit, len(released))
	for i, r := range released {
		visits[i] = Visit{OriginKey: r.OriginKey, Date: r.Date, Status: model.VisitFailed}
	}
	err = store.UpdateVisitStats(ctx, originsOf(visits), func(known ledger.KnownVisits) ledger.VisitChanges {
		known.Laned, known.TimedOut = nil, nil // what is underway now is a visit after these
		t := newTally(rules, known)
		t.apply(visits)
		applied = t.applied
		changes := t.changes()
		changes.Counted = released
		return changes
	})
	return len(released), applied, err
}
