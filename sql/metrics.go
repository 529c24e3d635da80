package sql

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// UpdateMetrics counts the origins of a lister, or of all, and returns the
// counts. They are dated now, or with the transaction's time if that is zero.
func (a asker) UpdateMetrics(ctx context.Context, lister uuid.NullUUID, now time.Time) ([]scheduler.Metrics, error) {
	rows, err := a.q.UpdateMetrics(ctx, queries.UpdateMetricsParams{Lister: lister, Now: nullableTime(now)})
	if err != nil {
		return nil, fmt.Errorf("update metrics: %w", err)
	}
	return metricsOf(rows), nil
}

// Metrics are the counts as they were last made, of a lister or all, of a visit
// type or ("") all.
func (a asker) Metrics(ctx context.Context, lister uuid.NullUUID, visitType string) ([]scheduler.Metrics, error) {
	rows, err := a.q.Metrics(ctx, queries.MetricsParams{Lister: lister, VisitType: nullable(visitType)})
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return metricsOf(rows), nil
}

func metricsOf(rows []queries.SchedulerMetric) []scheduler.Metrics {
	metrics := make([]scheduler.Metrics, len(rows))
	for i, row := range rows {
		metrics[i] = scheduler.Metrics(row)
	}
	return metrics
}
