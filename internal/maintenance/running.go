package maintenance

import (
	"context"
	"sync"
	"time"

	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// overlap bounds the duration of a transaction that writes the start of a run. A query reads that far back, for rows
// that the last one couldn't see.
const overlap = 5 * time.Minute

// Running returns the job that lists running work. A process reads the starts of the last two days first, then those
// since its last query.
func Running(store *db.Store) Job {
	var mu sync.Mutex
	var last time.Time
	return Job{Name: "what runs", Period: 15 * time.Second, Origins: true, Do: func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		now, since := store.Now(), last.Add(-overlap)
		if last.IsZero() || since.After(now) {
			since = now.Add(-2 * postgres.Day)
		}
		err := store.NoteRunning(ctx, since)
		if err == nil {
			last = now
		}
		return "", err
	}}
}
