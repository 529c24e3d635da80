package maintenance

import (
	"context"
	"time"

	"swh-scheduler/sql/db"
)

// Running returns the job that lists running work.
func Running(store *db.Store) Job {
	return Job{Name: "what runs", Period: 15 * time.Second, Origins: true, Do: func(ctx context.Context) (string, error) {
		return "", store.NoteRunning(ctx, store.Now(), 10*time.Second)
	}}
}
