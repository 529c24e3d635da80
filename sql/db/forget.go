package db

import (
	"context"
	"errors"
	"time"
)

// How long rows are kept.
const (
	actionsKept      = 400 * day
	rejectedKept     = 90 * day // at most: see rejectedEventsKept and maxRejectedRecords
	runStartsKept    = 2 * day  // repeats of a run's events come within minutes, or after an outage
	runDurationsKept = 14 * day // enough to see what a task type takes lately
)

// Forget deletes what is too old at now to matter; of the estimates of freshness a part, for about
// atMost. It returns the number of rejected events and records that it deleted.
func (s *Store) Forget(ctx context.Context, now time.Time, atMost time.Duration) (rejected int64, err error) {
	q := s.MonitorStore.q
	events, eventsErr := q.ForgetOldRejectedEvents(ctx, now.Add(-rejectedKept))
	records, recordsErr := q.ForgetOldRejectedRecords(ctx, now.Add(-rejectedKept))
	return events + records, errors.Join(
		failed(eventsErr, "forget old rejected events"),
		failed(recordsErr, "forget old rejected records"),
		failed(q.ForgetStarts(ctx, now.Add(-runStartsKept)), "forget old starts of runs"),
		failed(q.ForgetDurations(ctx, now.Add(-runDurationsKept)), "forget old durations of runs"),
		failed(q.ForgetActions(ctx, now.Add(-actionsKept)), "forget old actions"),
		failed(q.ForgetListings(ctx), "forget the listings of listers that are gone"),
		failed(q.ForgetDaemons(ctx), "forget daemons"),
		failed(q.ForgetEnded(ctx), "forget what ended hours ago"),
		s.ForgetEventReaders(ctx, now), s.ForgetLanes(ctx, now), s.ForgetUnusedShares(ctx, now), s.ForgetDeliveries(ctx, now.Add(-time.Hour)),
		s.ForgetFreshness(ctx, now, atMost))
}
