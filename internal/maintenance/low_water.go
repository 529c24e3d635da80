package maintenance

import (
	"context"
	"log/slog"
	"time"

	"swh-scheduler/sql/db"
)

// LowWater returns the job that raises the low-water marks, below which deliverers and drains find nothing.
func LowWater(store *db.Store) Job {
	return Job{Name: "low water", Period: 10 * time.Second, Do: func(ctx context.Context) (string, error) {
		return "", store.RaiseLowWater(ctx)
	}}
}

// BelowLowWater returns the job that finds outgoing work that deliverers don't see, and changes that drains don't, and
// lowers the marks to them.
func BelowLowWater(store *db.Store, log *slog.Logger) Job {
	return Job{Name: "work below low water", Period: time.Hour, Do: func(ctx context.Context) (string, error) {
		lowered, err := store.LowerLowWater(ctx)
		if !lowered {
			return "", err
		}
		log.Error("outgoing messages, or changes of candidates or graphs, were below the low-water marks; they are looked at now")
		return "lowered", err
	}}
}
