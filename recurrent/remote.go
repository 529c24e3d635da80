package recurrent

import (
	"context"
	"errors"
	"sync"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
)

// RemotePeriod is how often a Remote makes a pass.
const RemotePeriod = time.Second

// RemoteStore is the scheduler of a Remote: an RPC server.
type RemoteStore interface {
	dispatch.Listers
	TaskTypes(ctx context.Context) ([]model.TaskType, error)
	TaskType(ctx context.Context, name string) (model.TaskType, error)
	grabber
}

// Remote schedules visits on an RPC server. It makes the calls of the Python scheduler:
// visits that are grabbed and don't reach the broker wait for the cooldown of scheduled ones.
type Remote struct {
	*Scheduler
	store  RemoteStore
	direct *dispatch.Direct

	mu  sync.Mutex           // guards due, and what rounds return
	due map[string]time.Time // of the next round, by visit type
}

// NewRemote makes a Remote; of o, Store, Slots and what needs a database are not used.
func NewRemote(store RemoteStore, direct *dispatch.Direct, o Options) *Remote {
	return &Remote{Scheduler: newScheduler(o, time.Now), store: store, direct: direct, due: make(map[string]time.Time)}
}

// RunOnce does the rounds that are due, of all visit types at once, and returns the number
// of visits sent, and the errors of all visit types.
func (r *Remote) RunOnce(ctx context.Context) (total int, err error) {
	visitTypes, err := wantedTypes(ctx, r.store, r.VisitTypes)
	if err != nil {
		return 0, err
	}
	select {
	case <-r.changed:
		clear(r.due)
	default:
	}
	var rounds sync.WaitGroup
	var failed []error
	for _, visitType := range visitTypes {
		r.mu.Lock()
		wait := r.due[visitType].Sub(r.now())
		r.mu.Unlock()
		if wait > 0 {
			continue
		}
		rounds.Go(func() {
			n, wait, err := r.fill(ctx, visitType)
			r.mu.Lock()
			defer r.mu.Unlock()
			if total, failed = total+n, append(failed, err); err == nil {
				r.due[visitType] = r.now().Add(wait + r.splay())
			}
		})
	}
	rounds.Wait()
	return total, errors.Join(failed...)
}

// fill fills the free slots of a visit type's queue, and returns the number of visits and
// how long to wait before the next round.
func (r *Remote) fill(ctx context.Context, visitType string) (int, time.Duration, error) {
	o := r.options()
	tt, err := r.store.TaskType(ctx, model.LoaderTaskType(visitType))
	if err != nil {
		return 0, 0, err
	}
	free, err := r.direct.Free(ctx, tt.BackendName, tt.MaxQueueLength)
	if err != nil {
		return 0, 0, err
	}
	if tooFull(free, tt.MaxQueueLength) {
		return 0, o.QueueFullBackoff, nil
	}
	if err := r.direct.Ready(ctx, tt.BackendName); err != nil {
		return 0, 0, err
	}
	picker := Picker{VisitType: visitType, Policies: r.policiesOf(visitType)}
	picked, err := picker.PickFrom(ctx, r.store, r.now(), free)
	if err != nil {
		return 0, 0, err
	}
	if len(picked.Visits) == 0 {
		r.Log.Debug("no origins to visit", "visit_type", visitType)
		return 0, o.NoOriginsBackoff, nil
	}
	r.count(visitType, picked, r.Log)
	Mix(picked.Visits)
	sent, err := r.direct.Visits(ctx, r.store, tt.BackendName, tt.BackendName, dispatch.Origins(picked.Visits))
	r.Log.Info("visits sent", "visit_type", visitType, "queue", tt.BackendName, "visits", sent)
	return sent, 0, err
}
