package maintenance

import (
	"context"
	"time"

	"swh-scheduler/sql/db"
)

// Graphs returns the job that releases waiting tasks of graphs whose wake-up was lost.
func Graphs(store *db.Store) Job {
	return Job{Name: "graphs", Period: time.Minute, Do: func(ctx context.Context) (string, error) {
		return "", store.MendGraphs(ctx, countTime)
	}}
}
