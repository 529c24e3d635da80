package maintenance

import (
	"context"
	"time"

	"swh-scheduler/sql/db"
)

// RecordSending returns the job that notes that a runner of this program sends tasks, with priority or without.
// LostRuns leaves earlier runs alone.
func RecordSending(store *db.Store, withPriority bool) Job {
	name := "note of sending"
	if withPriority {
		name += " with priority"
	}
	return Job{Name: name, Period: 30 * time.Second, Do: func(ctx context.Context) (string, error) {
		return "", store.NoteSending(ctx, withPriority)
	}}
}
