package maintenance

import (
	"context"
	"sync"
	"time"

	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/postgres"
)

const (
	// overlap bounds the duration of a transaction that writes the start of a run. Each start is read again when it is
	// that old, for rows that earlier queries couldn't see.
	overlap = 5 * time.Minute
	// shortOverlap is how much of what the query before has read is read again. Few transactions last longer.
	shortOverlap = 10 * time.Second
)

// startsRead is the time of the last query for starts of runs. Its zero value has read none.
type startsRead struct{ last time.Time }

// spans returns which starts a query at now reads, by when they were recorded.
func (r startsRead) spans(now time.Time) []ledger.Span {
	end := now.Add(postgres.Day) // clocks differ
	switch {
	case r.last.IsZero(), r.last.Add(-overlap).After(now): // or the clock was set back
		return []ledger.Span{{From: now.Add(-2 * postgres.Day), To: end}}
	case now.Sub(r.last) > overlap:
		return []ledger.Span{{From: r.last.Add(-overlap), To: end}}
	}
	return []ledger.Span{{From: r.last.Add(-overlap), To: now.Add(-overlap)}, {From: r.last.Add(-shortOverlap), To: end}}
}

// Running returns the job that lists running work. A process reads the starts of the last two days first, then those
// since its last query.
func Running(store *db.Store) Job {
	var mu sync.Mutex
	var read startsRead
	return Job{Name: "what runs", Period: 15 * time.Second, Origins: true, Do: func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		now := store.Now()
		err := store.NoteRunning(ctx, read.spans(now))
		if err == nil {
			read.last = now
		}
		return "", err
	}}
}
