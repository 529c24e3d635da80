package maintenance

import (
	"context"
	"log/slog"
	"time"

	"swh-scheduler/sql/db"
)

// LowWater returns the job that raises the low-water marks. Deliverers and drains skip rows below them.
func LowWater(store *db.Store) Job {
	return Job{Name: "low water", Period: 10 * time.Second, Do: func(ctx context.Context) (string, error) {
		return "", store.RaiseLowWater(ctx)
	}}
}

// BelowLowWater returns the job that finds outgoing work and changes below the marks, which deliverers and drains
// skip, and lowers the marks to them.
func BelowLowWater(store *db.Store, log *slog.Logger) Job {
	return Job{Name: "work below low water", Period: time.Hour, Do: func(ctx context.Context) (string, error) {
		lowered, err := store.LowerLowWater(ctx)
		if !lowered {
			return "", err
		}
		log.Error("outgoing messages, or changes of candidates or graphs, were below the low-water marks, and skipped; the marks are lowered")
		return "lowered", err
	}}
}
