package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/sql/internal/queries"
)

// walk reads a whole table in short steps along its places, which are pages or numbers of rows. Its
// place and what it has found so far are a row of scheduler_go.walks: any process continues it, and
// reads the result of the last whole walk.
type walk[T any] struct {
	name  string
	every time.Duration // from one beginning to the next, at least
	most  int           // places of one step
	// over, if not 0, is about how long a whole walk takes if take is called once a minute: each call
	// takes that part of the places.
	over time.Duration

	begin func(ctx context.Context) (place int64, soFar T, err error)
	end   func(ctx context.Context) (int64, error) // after the last place; below 0 ends the walk without a result, and another one is due at once
	step  func(ctx context.Context, first, end int64, soFar *T) error
	// finish, if not nil, is called with all that was found, perhaps more than once.
	finish func(ctx context.Context, found T) error
}

// take begins the walk if it is due and takes steps for about atMost. It reports whether
// the walk has ended. A step that times out is halved.
func (w walk[T]) take(ctx context.Context, q *queries.Queries, atMost time.Duration) (ended bool, err error) {
	ended, err = w.steps(ctx, q, atMost)
	return ended, failed(err, "%s", w.name)
}

func (w walk[T]) steps(ctx context.Context, q *queries.Queries, atMost time.Duration) (ended bool, err error) {
	var size BatchSize
	taken := int64(0) // places
	for began, took := time.Now(), time.Duration(0); took < atMost; took = time.Since(began) {
		at, soFar, err := w.place(ctx, q)
		if err != nil || at < 0 {
			return false, err
		}
		end, err := w.end(ctx)
		if err != nil {
			return false, err
		}
		if end < 0 {
			return false, q.CancelWalk(ctx, w.name)
		}
		next := min(at+int64(size.Of(w.most)), end)
		if w.over > 0 {
			part := max(1, int64(float64(end)*float64(time.Minute)/float64(w.over)))
			if taken >= part {
				return false, nil
			}
			next = min(next, at+part-taken)
		}
		taken += next - at
		if at < next {
			err := w.step(ctx, at, next, &soFar)
			size.Note(int(next-at), err)
			if TimedOut(err) && ctx.Err() == nil && next-at > 1 {
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
			if w.finish != nil {
				if err := w.finish(ctx, soFar); err != nil {
					return false, err
				}
			}
			_, err := q.EndWalk(ctx, queries.EndWalkParams{Name: w.name, Place: at, Result: found})
			return true, err
		}
		kept, err := q.StepWalk(ctx, queries.StepWalkParams{Name: w.name, Place: at, Next: next, SoFar: found})
		if err != nil || kept == 0 { // another process has taken it on
			return false, err
		}
	}
	return false, nil
}

// whole takes all steps at once, remembers nothing, and returns what it has found.
func (w walk[T]) whole(ctx context.Context) (soFar T, err error) {
	at, soFar, err := w.begin(ctx)
	var end int64
	if err == nil {
		end, err = w.end(ctx)
	}
	var size BatchSize
	for at < end && err == nil {
		next := min(at+int64(size.Of(w.most)), end)
		err = w.step(ctx, at, next, &soFar)
		size.Note(int(next-at), err)
		if err == nil {
			at = next
		} else if TimedOut(err) && ctx.Err() == nil && next-at > 1 {
			err = nil
		}
	}
	return soFar, failed(err, "%s", w.name)
}

// place returns the walk's place, and what it has found so far. It begins a walk if one is due. The
// place is below 0 if none is under way or due.
func (w walk[T]) place(ctx context.Context, q *queries.Queries) (place int64, soFar T, err error) {
	look := queries.LookAtWalkParams{Name: w.name, Every: w.every.Seconds()}
	at, err := q.LookAtWalk(ctx, look)
	if errors.Is(err, pgx.ErrNoRows) {
		at, err = queries.LookAtWalkRow{Place: -1, Due: true}, nil
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
	if place, soFar, err = w.begin(ctx); err != nil {
		return -1, soFar, err
	}
	text, err := json.Marshal(soFar)
	if err != nil {
		return -1, soFar, err
	}
	return place, soFar, q.BeginWalk(ctx, queries.BeginWalkParams{Name: w.name, Place: place, SoFar: text})
}

// beginAt begins a walk without a result at the place that first returns.
func beginAt(first func(ctx context.Context) (int64, error)) func(ctx context.Context) (int64, struct{}, error) {
	return func(ctx context.Context) (place int64, none struct{}, err error) {
		place, err = first(ctx)
		return place, none, err
	}
}

// resultOf returns what the last whole walk of a name found; zero if there was none.
func resultOf[T any](ctx context.Context, q *queries.Queries, name string) (found T, err error) {
	found, _, err = youngResultOf[T](ctx, q, name, math.MaxInt64)
	return found, err
}

// youngResultOf returns what the last whole walk of a name found, and whether that is
// younger than within.
func youngResultOf[T any](ctx context.Context, q *queries.Queries, name string, within time.Duration) (found T, young bool, err error) {
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
