package sql

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// ListersWithFirstVisits lists the listers that have finished a listing, have a
// queue prefix for first visits, and whose first visits are not all scheduled.
func (a asker) ListersWithFirstVisits(ctx context.Context) ([]scheduler.Lister, error) {
	rows, err := a.q.ListersWithFirstVisits(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the listers with first visits to schedule: %w", err)
	}
	listers := make([]scheduler.Lister, len(rows))
	for i, row := range rows {
		listers[i] = listerOf(row)
	}
	return listers, nil
}

// ListedVisitTypes lists the visit types of what a lister lists.
func (a asker) ListedVisitTypes(ctx context.Context, lister uuid.UUID) ([]string, error) {
	types, err := a.q.ListedVisitTypes(ctx, lister)
	if err != nil {
		return nil, fmt.Errorf("read the visit types of lister %s: %w", lister, err)
	}
	return types, nil
}

// FinishFirstVisits notes at now that all first visits of a lister are
// scheduled. It says false, and changes nothing, if some enabled origin has not
// been scheduled since the listing ended, or the lister has changed since l was
// read.
func (a asker) FinishFirstVisits(ctx context.Context, l scheduler.Lister, now time.Time) (bool, error) {
	n, err := a.q.FinishFirstVisits(ctx, queries.FinishFirstVisitsParams{Now: now, ID: l.ID, Updated: l.Updated})
	if err != nil {
		return false, fmt.Errorf("finish the first visits of lister %s: %w", l.ID, err)
	}
	return n > 0, nil
}
