package maintenance

import (
	"context"
	"errors"
	"time"

	"swh-scheduler/sql/db"
)

// Failures returns the job that deletes old failures and old rows of visit turns.
func Failures(store *db.Store) Job {
	return Job{Name: "failures", Period: 5 * time.Minute, Origins: true, Do: func(ctx context.Context) (string, error) {
		return "", errors.Join(store.ForgetFailures(ctx), store.ForgetVisitTurns(ctx))
	}}
}
