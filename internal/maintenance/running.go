package maintenance

import (
	"context"
	"sync"
	"time"

	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

const (
	// overlap bounds the duration of a transaction that writes the start of a run. Once in that time a query reads
	// that far back, for rows that earlier ones couldn't see.
	overlap = 5 * time.Minute
	// shortOverlap is how far back the other queries read. Few transactions last longer.
	shortOverlap = 10 * time.Second
)

// startsRead is the state of the queries for starts of runs. Its zero value has read none.
type startsRead struct{ last, far time.Time } // the last query, and the last one that read far back

// since returns from when on a query at now reads, and the state after it.
func (r startsRead) since(now time.Time) (time.Time, startsRead) {
	switch {
	case r.last.IsZero(), r.last.Add(-overlap).After(now): // or the clock was set back
		return now.Add(-2 * postgres.Day), startsRead{now, now}
	case now.Sub(r.far) >= overlap, r.far.After(now):
		return r.far.Add(-overlap), startsRead{now, now}
	}
	return r.last.Add(-shortOverlap), startsRead{now, r.far}
}

// Running returns the job that lists running work. A process reads the starts of the last two days first, then those
// since its last query.
func Running(store *db.Store) Job {
	var mu sync.Mutex
	var read startsRead
	return Job{Name: "what runs", Period: 15 * time.Second, Origins: true, Do: func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		since, after := read.since(store.Now())
		err := store.NoteRunning(ctx, since)
		if err == nil {
			read = after
		}
		return "", err
	}}
}
