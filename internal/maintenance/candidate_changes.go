package maintenance

import (
	"context"
	"log/slog"
	"time"

	"swh-scheduler/sql/db"
	"swh-scheduler/sql/origins"
)

// CandidateChanges returns the job that bounds undrained changes of candidates, for databases without a daemon that
// schedules visits.
func CandidateChanges(store *db.Store, log *slog.Logger) Job {
	return Job{Name: "changes of candidates", Period: time.Minute, Origins: true, Do: func(ctx context.Context) (string, error) {
		bounded, err := store.BoundChanges(ctx, origins.MaxCandidateChanges, boundTime)
		if bounded.GivenUp {
			log.Warn(`candidates are given up: too many changes of origins were not drained; schedule-recurrent, or "swh-scheduler migrate", builds them anew`, "deleted", bounded.Deleted)
		}
		return bounded.String(), err
	}}
}

// boundTime bounds a run of CandidateChanges, well below DefaultTimeout.
const boundTime = 15 * time.Second
