package maintenance

import (
	"context"
	"sync"
	"time"

	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// overlap is how long a transaction may take that writes the start of a run: a look sees what was not committed at the last one.
const overlap = 5 * time.Minute

// Running returns the job that lists what runs. A process looks at the starts of the last two days first, then at those since it last
// looked.
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
