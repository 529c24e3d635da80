package db

import (
	"context"
	"errors"
	"time"

	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// These are the times after which Forget deletes rows.
const (
	actionsKept      = 400 * postgres.Day
	rejectedKept     = 90 * postgres.Day // at most: rejectedEventsKept and maxRejectedRecords also apply
	runStartsKept    = 2 * postgres.Day  // a run's events repeat within minutes, or after an outage
	runDurationsKept = 14 * postgres.Day // enough for the recent durations of a task type
)

// Forget deletes rows that are too old at now. It deletes old estimates of freshness only for about atMost.
// It returns the number of rejected events and records that it deleted.
func (s *Store) Forget(ctx context.Context, now time.Time, atMost time.Duration) (rejected int64, err error) {
	q := s.MonitorStore.q
	events, eventsErr := q.ForgetOldRejectedEvents(ctx, now.Add(-rejectedKept))
	records, recordsErr := q.ForgetOldRejectedRecords(ctx, now.Add(-rejectedKept))
	return events + records, errors.Join(
		stmt.Failed(eventsErr, "forget old rejected events"),
		stmt.Failed(recordsErr, "forget old rejected records"),
		stmt.Failed(q.ForgetStarts(ctx, now.Add(-runStartsKept)), "forget old starts of runs"),
		stmt.Failed(q.ForgetDurations(ctx, now.Add(-runDurationsKept)), "forget old durations of runs"),
		stmt.Failed(q.ForgetActions(ctx, now.Add(-actionsKept)), "forget old actions"),
		stmt.Failed(q.ForgetListings(ctx), "forget the listings of listers that are gone"),
		stmt.Failed(q.ForgetDaemons(ctx), "forget daemons"),
		s.ForgetEventReaders(ctx, now), s.ForgetLanes(ctx, now), s.ForgetUnusedShares(ctx, now), s.ForgetDeliveries(ctx, now.Add(-time.Hour)),
		s.ForgetFreshness(ctx, now, atMost))
}
