package origins

import (
	"context"
	"errors"
	"time"

	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/internal/queries"
)

const (
	checkEvery     = 24 * time.Hour
	checkedPages   = 128 // of a table, in one step: some 10,000 rows
	checkedBacklog = MaxPendingChanges / 2
)

// errBacklog ends a step of the check; the next call repeats the step.
var errBacklog = errors.New("too many changes of candidates are pending")

// CheckCandidates compares candidates with the tables that they are made from. It records a change for each
// origin that the triggers missed; the next drains repair them. It returns their number. Called once a
// minute, for about atMost, it compares all rows in about a day. It does nothing during a build or while
// many changes are pending.
func (s Store) CheckCandidates(ctx context.Context, atMost time.Duration) (noted int64, err error) {
	check := func(name string, end func(context.Context) (int64, error), step func(ctx context.Context, first, end int64) (int64, error)) error {
		_, err := bulk.Walk[struct{}]{
			Name: name, Period: checkEvery, Over: checkEvery, StepSize: checkedPages,
			Begin: bulk.BeginAt(func(context.Context) (int64, error) { return 0, nil }), End: end,
			Step: func(ctx context.Context, first, end int64, _ *struct{}) error {
				pending, err := s.q.CandidateBacklog(ctx, checkedBacklog)
				if err == nil && pending == checkedBacklog {
					err = errBacklog
				}
				if err != nil {
					return err
				}
				n, err := step(ctx, first, end)
				noted += n
				return err
			},
		}.Take(ctx, s.q, atMost/2)
		if errors.Is(err, errBacklog) {
			return nil
		}
		return err
	}
	// First it checks candidates that differ or should not exist, then missing ones.
	err = check("check of candidates", s.q.CandidatePages, func(ctx context.Context, first, end int64) (int64, error) {
		return s.q.CheckCandidates(ctx, queries.CheckCandidatesParams{FirstPage: first, EndPage: end})
	})
	if err == nil {
		err = check("check of listed origins", s.q.ListedOriginPages, func(ctx context.Context, first, end int64) (int64, error) {
			return s.q.CheckListedOrigins(ctx, queries.CheckListedOriginsParams{FirstPage: first, EndPage: end})
		})
	}
	return noted, err
}
