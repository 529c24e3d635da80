package maintenance

import (
	"context"
	"log/slog"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// OldRows returns the job that deletes rows too old to be of use.
func OldRows(store *db.Store, log *slog.Logger) Job {
	return Job{Name: "old notes", Period: time.Hour, Origins: true, Do: func(ctx context.Context) (string, error) {
		n, err := store.Forget(ctx, store.Now(), countTime)
		if n == 0 || err != nil {
			return "", err
		}
		log.Info("deleted old rows of what was set aside", "rows", n)
		return model.Count(n, "row that was set aside", "rows that were set aside") + " forgotten", nil
	}}
}
