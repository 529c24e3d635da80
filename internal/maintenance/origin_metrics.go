package maintenance

import (
	"context"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// OriginMetrics returns the job that counts the origins of listers again (update-metrics) when the counts are old. It
// has a Keeper of its own, as a large lister takes minutes.
func OriginMetrics(store *db.Store, after time.Duration) Job {
	var failed []uuid.UUID // tried again after all others
	return Job{Name: "origin metrics", Period: time.Minute, Timeout: updateMetricsTimeout, Unconfigured: after <= 0, Do: func(ctx context.Context) (string, error) {
		for n := 0; ; n++ {
			lister, err := store.UpdateStaleMetrics(ctx, after, failed)
			switch {
			case err != nil && lister != uuid.Nil:
				failed = append(failed, lister)
			case err == nil && lister == uuid.Nil:
				failed = nil
			}
			if err != nil || lister == uuid.Nil {
				return model.Count(n, "lister", "listers") + " counted", err
			}
		}
	}}
}

// updateMetricsTimeout is below the 15 minutes after which a loop counts as stuck.
const updateMetricsTimeout = 12 * time.Minute
