package journal

import (
	"context"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/ledger"
)

const (
	heldPeriod = 5 * time.Second // between two queries for held visits that count
	maxHeld    = 1000            // visits in one transaction
)

// countHeld counts held visits (see holdBack) that turn out to be failures of their origins, until ctx
// ends. Several members may do so at once: the second one finds them counted.
func (c *Client) countHeld(ctx context.Context) {
	loop := service.Loop{
		Name: "counting failed visits", Log: c.o.Log,
		RunOnce: func(ctx context.Context) (service.Result, error) {
			most := c.heldSize.Of(maxHeld)
			n, applied, err := countReleased(ctx, c.o.Store, c.o.Rules, most)
			if err == nil {
				c.metrics.visits(applied)
			}
			c.heldSize.Adjust(n, err)
			return service.Result{Again: n == most}, err
		},
		Period: heldPeriod, Jitter: true, Optional: true,
	}
	_ = loop.Run(ctx)
}

// countReleased counts up to most held visits in one transaction. It returns the number that it tried, and
// the visits that changed something.
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
		known.Laned, known.TimedOut = nil, nil // work underway now is for a later visit
		t := newTally(rules, known)
		t.apply(visits)
		applied = t.applied
		changes := t.changes()
		changes.Counted = released
		return changes
	})
	return len(released), applied, err
}
