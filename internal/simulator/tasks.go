package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// defaultRetryDelay is the database's default of a task type's retry delay.
const defaultRetryDelay = time.Hour

// taskAgents claims tasks with the runner's statements and settles their runs with the listener's.
type taskAgents struct {
	store     *db.Store
	types     map[string]model.TaskType // by visit type
	unwritten []settle.Outcome          // not yet written
	ageing    time.Duration             // of tasks with priority
	soonest   time.Time                 // when a task with an unwritten outcome may become ready
}

func newTaskAgents(ctx context.Context, o Options, visitTypes []string) (*taskAgents, error) {
	a := &taskAgents{store: o.Store, ageing: o.Ageing, types: make(map[string]model.TaskType)}
	for _, visitType := range visitTypes {
		tt, err := o.Store.TaskType(ctx, model.LoaderTaskType(visitType))
		if err != nil {
			return nil, err
		}
		a.types[visitType] = tt
	}
	return a, nil
}

// sources limits the queue for tasks with priority to the type's limit. Messages in the queue keep their order, so a
// longer queue would ignore priorities.
func (a *taskAgents) sources(visitType string) map[source]int {
	urgent := queueCapacity
	if limit := orZero(a.types[visitType].MaxQueueLength); limit > 0 {
		urgent = int(min(limit, queueCapacity))
	}
	return map[source]int{{visitType, false}: queueCapacity, {visitType, true}: urgent}
}

func (a *taskAgents) claim(ctx context.Context, of source, n int, now time.Time) ([]visit, error) {
	var visits []visit
	err := a.store.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		tt := a.types[of.visitType]
		claim := ledger.TaskClaim{Type: tt, Queue: tt.Queue(), WithPriority: of.urgent, Ageing: a.ageing, Groups: []ledger.TaskGroup{{Count: n}}, Now: now}
		if err := tx.LockQueues(ctx, claim.Queue); err != nil {
			return err
		}
		_, messages, err := tx.ClaimTasks(ctx, claim) // to the virtual queue, not to the ledger
		if err != nil {
			return err
		}
		visits = make([]visit, len(messages))
		ids := make([]uuid.UUID, len(messages))
		for i, m := range messages {
			if visits[i], err = taskVisit(of, m.TaskID, m.Kwargs, now); err != nil {
				return err
			}
			ids[i] = m.TaskID
		}
		if !of.urgent {
			return nil
		}
		urgent, err := tx.UrgentRuns(ctx, ids)
		for i := range visits {
			run := urgent[visits[i].id]
			visits[i].urgency, visits[i].ready = run.Priority, run.Ready
		}
		return err
	})
	return visits, err
}

// taskVisit returns the visit of a task with these arguments.
func taskVisit(of source, id uuid.UUID, arguments json.RawMessage, now time.Time) (visit, error) {
	var kwargs struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(arguments, &kwargs); err != nil || kwargs.URL == "" {
		return visit{}, fmt.Errorf("the argument url of a task of type %q is missing or no text: %s", model.LoaderTaskType(of.visitType), arguments)
	}
	return visit{OriginKey: model.OriginKey{URL: kwargs.URL, VisitType: of.visitType}, id: id, claimed: now}, nil
}

func (a *taskAgents) nextClaim(ctx context.Context, of source, now time.Time) (time.Time, bool, error) {
	next, err := a.store.NextReady(ctx, model.LoaderTaskType(of.visitType), of.urgent, now)
	return next, err == nil, err
}

func (a *taskAgents) began(v visit, now time.Time) {
	a.unwritten = append(a.unwritten, began(v, now))
}

func (a *taskAgents) ended(v visit, l load, eventful bool, now time.Time) {
	a.unwritten = append(a.unwritten, ended(v, l, eventful, now))
	// A task runs again after its type's shortest interval at the earliest, or after a failure the retry delay.
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

// began and ended return the listener's outcomes.
func began(v visit, now time.Time) settle.Outcome {
	return settle.Outcome{BackendID: v.id.String(), Received: now, Start: &settle.Start{EventTime: model.UnixSeconds(now)}}
}

func ended(v visit, l load, eventful bool, now time.Time) settle.Outcome {
	status := model.RunFailed
	switch {
	case l.full && eventful:
		status = model.RunEventful
	case l.full:
		status = model.RunUneventful
	}
	return settle.Outcome{BackendID: v.id.String(), Received: now, End: &settle.End{Status: status, EventTime: model.UnixSeconds(now)}}
}

func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func (a *taskAgents) unsettled(now time.Time) bool {
	return !a.soonest.IsZero() && !now.Before(a.soonest)
}

func (a *taskAgents) settle(ctx context.Context) (bool, error) {
	if len(a.unwritten) == 0 {
		return false, nil
	}
	if err := (settle.Store{Store: a.store}).ApplyOutcomes(ctx, a.unwritten); err != nil {
		return false, err
	}
	a.unwritten, a.soonest = nil, time.Time{}
	return true, nil
}
