package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// Failure is a failed run of a task, or a failed visit in the ledger.
type Failure struct {
	At        time.Time
	Type      string // task type
	Exception string // the class in the counts of ends
	Message   string // MaxMessage characters at most
	Worker    string // "" if unknown
	Task      int64  // task.id; 0: no run of a task
	VisitType string // "" unless it is a load
	Work      uuid.UUID
}

// MaxMessage bounds the message of a failure, in characters.
const MaxMessage = 500

// These bound the stored failures.
const (
	keptOfAKind  = 10_000 // of a type and an exception; see db.TaskSearch.Exception
	keptFailures = 1_000_000
)

// FoundFailure is a stored failure.
type FoundFailure = queries.SchedulerGoFailure

// ForgetFailures deletes failures older than 30 days, and the oldest beyond the bounds.
func (s Store) ForgetFailures(ctx context.Context) error {
	return stmt.Failed(s.q.ForgetFailures(ctx, queries.ForgetFailuresParams{MostOfAKind: keptOfAKind, Most: keptFailures}), "forget old failures")
}

// LastFailures returns the last failures of a task type with an exception, the newest first.
func (a Queries) LastFailures(ctx context.Context, taskType, exception string, limit int) ([]FoundFailure, error) {
	rows, err := a.q.LastFailures(ctx, queries.LastFailuresParams{Type: taskType, Exception: exception, Most: int32(limit)})
	return rows, stmt.Failed(err, "read failures of %s", taskType)
}

// SampleFailures returns the last failure for each of the task types and exceptions that have one.
func (a Queries) SampleFailures(ctx context.Context, types, exceptions []string) ([]FoundFailure, error) {
	rows, err := a.q.SampleFailures(ctx, queries.SampleFailuresParams{Type: types, Exception: exceptions})
	return rows, stmt.Failed(err, "read samples of failures")
}

// FailuresOfOrigin returns the last failures of the loads of an origin, the newest first.
func (a Queries) FailuresOfOrigin(ctx context.Context, url string, limit int) ([]FoundFailure, error) {
	rows, err := a.q.FailuresOfOrigin(ctx, queries.FailuresOfOriginParams{URL: url, Most: int32(limit)})
	return rows, stmt.Failed(err, "read the failures of an origin")
}

// LastFailureOfVisit returns the last failure of a load of an origin with a visit type; nil if none is among the last
// 100 of the origin.
func (a Queries) LastFailureOfVisit(ctx context.Context, key model.OriginKey) (*FoundFailure, error) {
	rows, err := a.FailuresOfOrigin(ctx, key.URL, 100)
	for _, f := range rows {
		if f.VisitType != nil && *f.VisitType == key.VisitType {
			return &f, err
		}
	}
	return nil, err
}

// SlowRun is a successful run, with its runtime in seconds.
type SlowRun = queries.SlowestRunsRow

// slowestLooked bounds the runs that SlowestRuns reads.
const slowestLooked = 10_000

// SlowestRuns returns the slowest of the last 10,000 runs of a type that succeeded since a moment.
func (a Queries) SlowestRuns(ctx context.Context, taskType string, since time.Time, limit int) ([]SlowRun, error) {
	rows, err := a.q.SlowestRuns(ctx, queries.SlowestRunsParams{Type: taskType, Since: since, Looked: slowestLooked, Most: int32(limit)})
	return rows, stmt.Failed(err, "read the slowest runs of %s", taskType)
}
