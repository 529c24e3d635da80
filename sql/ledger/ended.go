package ledger

import (
	"context"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/stmt"
)

// These are the sources of counts.
const (
	EndedByWorker  = "worker"  // events, by task type
	EndedByJournal = "journal" // visits, by visit type
	EndedWait      = "wait"    // time from claim to start, by task type; status and exception are ""
)

// Ends sums the ends and starts of a batch, so that each row is written once.
type Ends map[endKey]endSum

type endKey struct {
	Source, Type, Status, Exception string
	Bucket                          int16
}

type endSum struct {
	Pieces  int64
	Seconds float64
}

// Add adds n ends of a type from a source. Each took the seconds; below 0 means unknown.
func (e Ends) Add(source, typ, status, exception string, seconds float64, n int) {
	key := endKey{source, typ, status, exception, -1}
	if seconds >= 0 {
		key.Bucket = lanes.Bucket(seconds)
	}
	sum := e[key]
	e[key] = endSum{sum.Pieces + int64(n), sum.Seconds + max(0, seconds)*float64(n)}
}

// countEnded writes the counts. It must come last in a transaction: it locks rows that other transactions
// write, too.
func (tx *Tx) countEnded(e Ends) stmt.Step { return stmt.Arrays(stmt.Entries(e), tx.q.CountEnded) }

// Ended counts a type's ends in the last whole minutes.
type Ended struct {
	Minute, Five, Hour int64            // in 1, 5 and 60 minutes
	Statuses           map[string]int64 // in 60 minutes
	FiveStatuses       map[string]int64 // in 5 minutes
	Exceptions         map[string]int64 // failures in 60 minutes, by class of exception; "": none was reported
	FiveExceptions     map[string]int64 // failures in 5 minutes, likewise
	// Took has the known runtimes of the last 60 minutes; Seconds is their sum.
	Took    lanes.Sketch
	Seconds float64
}

// EndedKey is a source, and a task type or visit type.
type EndedKey struct{ Source, Type string }

// EndedInHour returns the counts of the last hour.
func (a Queries) EndedInHour(ctx context.Context) (map[EndedKey]*Ended, error) {
	rows, err := a.q.EndedInHour(ctx)
	ended := map[EndedKey]*Ended{}
	for _, r := range rows {
		key := EndedKey{r.Source, r.Type}
		e := ended[key]
		if e == nil {
			e = &Ended{Statuses: map[string]int64{}, FiveStatuses: map[string]int64{}, Exceptions: map[string]int64{}, FiveExceptions: map[string]int64{}, Took: lanes.Sketch{}}
			ended[key] = e
		}
		e.Minute, e.Five, e.Hour = e.Minute+r.InMinute, e.Five+r.InFive, e.Hour+r.InHour
		e.Statuses[r.Status] += r.InHour
		e.FiveStatuses[r.Status] += r.InFive
		if r.Exception != "" || r.Source == EndedByWorker && model.RunStatus(r.Status).Failed() {
			e.Exceptions[r.Exception] += r.InHour
			e.FiveExceptions[r.Exception] += r.InFive
		}
		if r.Bucket >= 0 {
			e.Took[r.Bucket] += float64(r.InHour)
			e.Seconds += r.Seconds
		}
	}
	return ended, stmt.Failed(err, "read what ended in the last hour")
}
