package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// defaultRetryDelay is in what time a failed run is tried again if its task type
// does not say (so the database has it).
const defaultRetryDelay = time.Hour

// taskAgents claim tasks, and hear how their runs ended, with the runner's and the
// listener's statements.
type taskAgents struct {
	store *sql.Store
	types map[string]scheduler.TaskType // by visit type
	heard []sql.Outcome                 // and not written
	// soonest is when a task of which an outcome was heard may be ready.
	soonest time.Time
}

func newTaskAgents(ctx context.Context, store *sql.Store, visitTypes []string) (*taskAgents, error) {
	a := &taskAgents{store: store, types: make(map[string]scheduler.TaskType)}
	for _, visitType := range visitTypes {
		tt, err := store.TaskType(ctx, scheduler.LoaderTaskType(visitType))
		if err != nil {
			return nil, err
		}
		a.types[visitType] = tt
	}
	return a, nil
}

func (a *taskAgents) claim(ctx context.Context, visitType string, n int, now time.Time) ([]visit, error) {
	var visits []visit
	err := a.store.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		tt := a.types[visitType]
		claim := sql.TaskClaim{Type: tt, Queue: tt.Queue(), Max: n, Now: now}
		if err := tx.LockQueue(ctx, claim.Queue); err != nil {
			return err
		}
		if _, err := tx.ClaimTasks(ctx, claim); err != nil {
			return err
		}
		// The virtual queue takes the place of the broker's.
		messages, err := tx.TakeOutbox(ctx, claim.Queue)
		if err != nil {
			return err
		}
		visits = make([]visit, len(messages))
		for i, m := range messages {
			var kwargs struct {
				URL string `json:"url"`
			}
			if err := json.Unmarshal(m.Kwargs, &kwargs); err != nil || kwargs.URL == "" {
				return fmt.Errorf("the argument url of a task of type %q is missing or no text: %s", tt.Type, m.Kwargs)
			}
			visits[i] = visit{OriginKey: scheduler.OriginKey{URL: kwargs.URL, VisitType: visitType}, id: m.TaskID}
		}
		return nil
	})
	return visits, err
}

func (a *taskAgents) nextClaim(ctx context.Context, visitType string, now time.Time) (time.Time, bool, error) {
	next, err := a.store.NextReady(ctx, scheduler.LoaderTaskType(visitType), now)
	return next, err == nil, err
}

func (a *taskAgents) began(v visit, now time.Time) {
	a.heard = append(a.heard, began(v, now))
}

func (a *taskAgents) ended(v visit, _ time.Time, l load, eventful bool, now time.Time) {
	a.heard = append(a.heard, ended(v, l, eventful, now))
	// No task runs again sooner than its type's shortest interval, but for one
	// that failed.
	tt := a.types[v.VisitType]
	wait := orZero(tt.MinInterval)
	if !l.full {
		wait = min(wait, defaultRetryDelay)
		if tt.RetryDelay != nil {
			wait = min(wait, *tt.RetryDelay)
		}
	}
	if at := now.Add(wait); a.soonest.IsZero() || at.Before(a.soonest) {
		a.soonest = at
	}
}

// began and ended are what the listener hears of a run.
func began(v visit, now time.Time) sql.Outcome {
	return sql.Outcome{BackendID: v.id.String(), Heard: now, Start: &sql.RunStart{EventTime: unixSeconds(now)}}
}

func ended(v visit, l load, eventful bool, now time.Time) sql.Outcome {
	status := scheduler.RunFailed
	switch {
	case l.full && eventful:
		status = scheduler.RunEventful
	case l.full:
		status = scheduler.RunUneventful
	}
	return sql.Outcome{BackendID: v.id.String(), Heard: now, End: &sql.RunEnd{Status: status, EventTime: unixSeconds(now)}}
}

// orZero is what p points to, or nothing.
func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

func (a *taskAgents) unsettled(now time.Time) bool {
	return !a.soonest.IsZero() && !now.Before(a.soonest)
}

func (a *taskAgents) settle(ctx context.Context) (bool, error) {
	if len(a.heard) == 0 {
		return false, nil
	}
	if err := a.store.ApplyOutcomes(ctx, a.heard); err != nil {
		return false, err
	}
	a.heard, a.soonest = nil, time.Time{}
	return true, nil
}
