package maintenance

import (
	"context"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// SumEnded returns the job that sums the counts of ended runs and visits from minutes to hours and days, and deletes
// counts older than two years.
func SumEnded(store *db.Store) Job {
	return Job{Name: "what ended", Period: 5 * time.Minute, Origins: true, Do: func(ctx context.Context) (string, error) {
		hours, err := store.MoveEnded(ctx, countTime)
		if hours == 0 || err != nil {
			return "", err
		}
		return model.Count(hours, "hour", "hours") + " moved", nil
	}}
}
