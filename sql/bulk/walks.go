package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// Walk reads a whole table in short steps along its places, which are numbers of pages or rows. A row of
// scheduler_go.walks has its place and its results so far. Any process continues the walk, and reads the
// result of the last complete walk.
type Walk[T any] struct {
	Name     string
	Period   time.Duration // the least time between two beginnings
	StepSize int           // places a step
	// Over, if not 0, is the duration of a whole walk if Take is called once a minute: each call takes that
	// part of the places.
	Over time.Duration

	Begin func(ctx context.Context) (place int64, soFar T, err error)
	End   func(ctx context.Context) (int64, error) // the place after the last; below 0 ends the walk without a result, and another one is due at once
	Step  func(ctx context.Context, first, end int64, soFar *T) error
	// Finish, if not nil, is called with the walk's result, possibly more than once.
	Finish func(ctx context.Context, found T) error
}

// Take begins the walk if it is due, and takes steps for about atMost. It reports whether the walk has
// ended. A step that times out is halved.
func (w Walk[T]) Take(ctx context.Context, q *queries.Queries, atMost time.Duration) (ended bool, err error) {
	ended, err = w.steps(ctx, q, atMost)
	return ended, stmt.Failed(err, "%s", w.Name)
}

func (w Walk[T]) steps(ctx context.Context, q *queries.Queries, atMost time.Duration) (ended bool, err error) {
	var size BatchSize
	taken := int64(0) // places
	for began, took := time.Now(), time.Duration(0); took < atMost; took = time.Since(began) {
		at, soFar, err := w.place(ctx, q)
		if err != nil || at < 0 {
			return false, err
		}
		end, err := w.End(ctx)
		if err != nil {
			return false, err
		}
		if end < 0 {
			return false, q.CancelWalk(ctx, w.Name)
		}
		next := min(at+int64(size.Of(w.StepSize)), end)
		if w.Over > 0 {
			part := max(1, int64(float64(end)*float64(time.Minute)/float64(w.Over)))
			if taken >= part {
				return false, nil
			}
			next = min(next, at+part-taken)
		}
		taken += next - at
		if at < next {
			err := w.Step(ctx, at, next, &soFar)
			size.Adjust(int(next-at), err)
			if postgres.TimedOut(err) && ctx.Err() == nil && next-at > 1 {
				continue
			}
			if err != nil {
				return false, fmt.Errorf("from %d: %w", at, err)
			}
		}
		found, err := json.Marshal(soFar)
		if err != nil {
			return false, err
		}
		if next >= end {
			if w.Finish != nil {
				if err := w.Finish(ctx, soFar); err != nil {
					return false, err
				}
			}
			_, err := q.EndWalk(ctx, queries.EndWalkParams{Name: w.Name, Place: at, Result: found})
			return true, err
		}
		kept, err := q.StepWalk(ctx, queries.StepWalkParams{Name: w.Name, Place: at, Next: next, SoFar: found})
		if err != nil || kept == 0 { // another process has continued the walk
			return false, err
		}
	}
	return false, nil
}

// Whole takes all steps at once, without a row in scheduler_go.walks, and returns the result.
func (w Walk[T]) Whole(ctx context.Context) (soFar T, err error) {
	at, soFar, err := w.Begin(ctx)
	var end int64
	if err == nil {
		end, err = w.End(ctx)
	}
	var size BatchSize
	for at < end && err == nil {
		next := min(at+int64(size.Of(w.StepSize)), end)
		err = w.Step(ctx, at, next, &soFar)
		size.Adjust(int(next-at), err)
		if err == nil {
			at = next
		} else if postgres.TimedOut(err) && ctx.Err() == nil && next-at > 1 {
			err = nil
		}
	}
	return soFar, stmt.Failed(err, "%s", w.Name)
}

// place returns the walk's place and its results so far. It begins a walk if one is due. The place is below
// 0 if none is underway or due.
func (w Walk[T]) place(ctx context.Context, q *queries.Queries) (place int64, soFar T, err error) {
	p := queries.WalkStateParams{Name: w.Name, Every: w.Period.Seconds()}
	at, err := q.WalkState(ctx, p)
	if errors.Is(err, pgx.ErrNoRows) {
		at, err = queries.WalkStateRow{Place: -1, Due: true}, nil
	}
	if err != nil {
		return -1, soFar, err
	}
	if at.Place >= 0 {
		return at.Place, soFar, json.Unmarshal(at.SoFar, &soFar)
	}
	if !at.Due {
		return -1, soFar, nil
	}
	if place, soFar, err = w.Begin(ctx); err != nil {
		return -1, soFar, err
	}
	text, err := json.Marshal(soFar)
	if err != nil {
		return -1, soFar, err
	}
	return place, soFar, q.BeginWalk(ctx, queries.BeginWalkParams{Name: w.Name, Place: place, SoFar: text})
}

// BeginAt returns a Begin of a walk without a result; first returns its first place.
func BeginAt(first func(ctx context.Context) (int64, error)) func(ctx context.Context) (int64, struct{}, error) {
	return func(ctx context.Context) (place int64, none struct{}, err error) {
		place, err = first(ctx)
		return place, none, err
	}
}

// ResultOf returns the result of the last complete walk with the name; zero if there was none.
func ResultOf[T any](ctx context.Context, q *queries.Queries, name string) (found T, err error) {
	found, _, err = RecentResultOf[T](ctx, q, name, math.MaxInt64)
	return found, err
}

// RecentResultOf returns the result of the last complete walk with the name, and whether it is younger than
// within.
func RecentResultOf[T any](ctx context.Context, q *queries.Queries, name string, within time.Duration) (found T, young bool, err error) {
	r, err := q.WalkResult(ctx, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return found, false, nil
	}
	if err == nil {
		err = json.Unmarshal(r.Result, &found)
	}
	if err != nil {
		return found, false, fmt.Errorf("read the result of %s: %w", name, err)
	}
	return found, r.Age < within.Seconds(), nil
}
