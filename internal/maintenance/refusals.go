package maintenance

import (
	"context"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

const (
	refusedPeriod = 15 * time.Second
	maxReleased   = 2000 // origins in a transaction
)

// Refusals returns the job that lets origins be visited again whose hosters refused them, and that deletes old rows
// about refusals.
func Refusals(store *db.Store) Job {
	return Job{Name: "refusals", Period: refusedPeriod, Do: func(ctx context.Context) (string, error) {
		total, n := int64(0), int64(maxReleased)
		for n == maxReleased {
			var err error
			if n, err = store.ReleaseRefused(ctx, store.Now(), maxReleased); err != nil {
				return "", err
			}
			total += n
		}
		if err := store.ForgetRefusals(ctx, store.Now()); err != nil || total == 0 {
			return "", err
		}
		return model.Count(int(total), "origin", "origins") + " may be visited again", nil
	}}
}
