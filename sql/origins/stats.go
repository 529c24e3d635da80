package origins

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// UpsertVisitStats writes stats; nil and empty fields keep their values. If an origin occurs several times,
// later ones overwrite earlier ones in the same way.
func (a Queries) UpsertVisitStats(ctx context.Context, stats []model.VisitStats) error {
	if len(stats) == 0 {
		return nil
	}
	order := make(map[model.OriginKey]int, len(stats))
	unique := make([]model.VisitStats, 0, len(stats))
	for _, s := range stats {
		key := model.OriginKey{URL: s.URL, VisitType: s.VisitType}
		if at, found := order[key]; found {
			unique[at] = overwrite(unique[at], s)
			continue
		}
		order[key] = len(unique)
		unique = append(unique, s)
	}
	for i := range unique {
		s := &unique[i]
		s.LastSuccessful, s.LastVisit, s.LastScheduled = stmt.InMicroseconds(s.LastSuccessful), stmt.InMicroseconds(s.LastVisit), stmt.InMicroseconds(s.LastScheduled)
	}
	document, err := stmt.EncodeRows(unique)
	if err == nil {
		err = a.q.UpsertOriginStats(ctx, document)
	}
	return stmt.Failed(err, "write the visit stats of %d origins", len(unique))
}

// overwrite returns the row that the statement makes of old and s.
func overwrite(old, s model.VisitStats) model.VisitStats {
	s.LastSuccessful = cmp.Or(s.LastSuccessful, old.LastSuccessful)
	s.LastVisit = cmp.Or(s.LastVisit, old.LastVisit)
	s.LastVisitStatus = cmp.Or(s.LastVisitStatus, old.LastVisitStatus)
	s.LastScheduled = cmp.Or(s.LastScheduled, old.LastScheduled)
	s.NextVisitQueuePosition = cmp.Or(s.NextVisitQueuePosition, old.NextVisitQueuePosition)
	if s.LastSnapshot == nil {
		s.LastSnapshot = old.LastSnapshot
	}
	return s
}

// VisitStats returns the stats of the origins that have any, in the order of the call.
func (a Queries) VisitStats(ctx context.Context, keys []model.OriginKey) ([]model.VisitStats, error) {
	rows, err := a.q.OriginStats(ctx, stmt.Columns[queries.OriginStatsParams](keys))
	return stmt.List(rows, stmt.Failed(err, "read visit stats"), func(r queries.OriginVisitStat) model.VisitStats {
		return model.VisitStats{
			URL: r.URL, VisitType: r.VisitType, LastSuccessful: r.LastSuccessful, LastVisit: r.LastVisit, LastVisitStatus: stmt.OrZero(r.LastVisitStatus),
			LastScheduled: r.LastScheduled, LastSnapshot: r.LastSnapshot, NextVisitQueuePosition: r.NextVisitQueuePosition,
			NextPositionOffset: r.NextPositionOffset, SuccessiveVisits: r.SuccessiveVisits,
		}
	})
}

// VisitQueuePosition is a visit type's position in its queue of visits.
type VisitQueuePosition = queries.VisitSchedulerQueuePosition

// VisitQueuePositions returns the positions of all visit types that have one.
func (a Queries) VisitQueuePositions(ctx context.Context) ([]VisitQueuePosition, error) {
	rows, err := a.q.VisitQueuePositions(ctx)
	return rows, stmt.Failed(err, "read queue positions")
}

// SetVisitQueuePosition writes a visit type's position, which may decrease.
func (a Queries) SetVisitQueuePosition(ctx context.Context, p VisitQueuePosition) error {
	return stmt.Failed(a.q.SetVisitQueuePosition(ctx, queries.SetVisitQueuePositionParams(p)), "set the queue position of %q", p.VisitType)
}

func metricsOf(row queries.SchedulerMetric) model.Metrics { return model.Metrics(row) }

// UpdateMetrics counts the origins of a lister or of all, and returns the counts. They are dated now, or at
// the transaction's time if now is zero.
func (a Queries) UpdateMetrics(ctx context.Context, lister uuid.NullUUID, now time.Time) ([]model.Metrics, error) {
	rows, err := a.q.UpdateMetrics(ctx, queries.UpdateMetricsParams{Lister: lister, Now: stmt.NullableTime(now)})
	return stmt.List(rows, stmt.Failed(err, "update metrics"), metricsOf)
}

// UpdateStaleMetrics updates the metrics of the lister whose counts are missing or the oldest, if they are
// older than age. It passes over the listers in skip. It returns the lister, also with an error; zero if
// there was none.
func (a Queries) UpdateStaleMetrics(ctx context.Context, age time.Duration, skip []uuid.UUID) (lister uuid.UUID, err error) {
	lister, err = stmt.FirstOrZero(a.q.StaleMetrics(ctx, queries.StaleMetricsParams{Seconds: age.Seconds(), Skip: append([]uuid.UUID{}, skip...)}))
	if err == nil && lister != uuid.Nil {
		_, err = a.UpdateMetrics(ctx, uuid.NullUUID{UUID: lister, Valid: true}, time.Time{})
	}
	return lister, stmt.Failed(err, "update the metrics of lister %s", lister)
}

// Metrics returns the last counts of a lister or all, and of a visit type or all ("").
func (a Queries) Metrics(ctx context.Context, lister uuid.NullUUID, visitType string) ([]model.Metrics, error) {
	rows, err := a.q.Metrics(ctx, queries.MetricsParams{Lister: lister, VisitType: stmt.Nullable(visitType)})
	return stmt.List(rows, stmt.Failed(err, "read metrics"), metricsOf)
}
