package db

import (
	"context"
	"errors"
	"time"

	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// How long rows are kept.
const (
	actionsKept      = 400 * postgres.Day
	rejectedKept     = 90 * postgres.Day // at most: see rejectedEventsKept and maxRejectedRecords
	runStartsKept    = 2 * postgres.Day  // repeats of a run's events come within minutes, or after an outage
	runDurationsKept = 14 * postgres.Day // enough to see what a task type takes lately
)

// Forget deletes what is too old at now to matter; of the estimates of freshness a part, for about
// atMost. It returns the number of rejected events and records that it deleted.
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
