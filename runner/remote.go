package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// RemoteStore is the scheduler of a Remote: an RPC server.
type RemoteStore interface {
	TaskTypes(ctx context.Context) ([]model.TaskType, error)
	PeekReadyTasks(ctx context.Context, taskType string, now time.Time, limit int) ([]model.Task, error)
	PeekReadyPriorityTasks(ctx context.Context, taskType string, now time.Time, limit int) ([]model.Task, error)
	ScheduleTaskRuns(ctx context.Context, runs []model.TaskRun) error
	EndTaskRun(ctx context.Context, backendID string, status model.RunStatus, metadata json.RawMessage, at time.Time) error
	SetTaskStatus(ctx context.Context, c db.StatusChange) error
}

// Remote is a Runner on an RPC server. It makes the calls of the Python runner: it notes the
// runs of ready tasks, sends them, and marks the tasks as scheduled. A task that it has sent
// and not marked, as it or the server died, is sent again.
type Remote struct {
	*Runner
	store  RemoteStore
	direct *dispatch.Direct
}

// NewRemote makes a Remote; of o, Store, Slots and what needs a database are not used.
func NewRemote(store RemoteStore, direct *dispatch.Direct, o Options) *Remote {
	return &Remote{newRunner(o, time.Now), store, direct}
}

// RunOnce makes one pass over the task types. It returns the number of tasks sent, and the
// errors of all types.
func (r *Remote) RunOnce(ctx context.Context) (total int, err error) {
	types, err := r.store.TaskTypes(ctx)
	if err != nil {
		return 0, err
	}
	var failed []error
	for _, tt := range types {
		if !r.wanted(tt.Type) {
			continue
		}
		n, err := r.sendReady(ctx, tt)
		if total += n; n > 0 {
			r.claimed.WithLabelValues(tt.Type).Add(float64(n))
			r.Log.Info("tasks sent", "task_type", tt.Type, "queue", queueOf(tt, r.WithPriority), "tasks", n)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("task type %q: %w", tt.Type, err))
		}
	}
	return total, errors.Join(failed...)
}

// sendReady fills the free slots of a type's queue.
func (r *Remote) sendReady(ctx context.Context, tt model.TaskType) (int, error) {
	queue := queueOf(tt, r.WithPriority)
	free, err := r.direct.Free(ctx, queue, tt.MaxQueueLength)
	if err != nil || free == 0 || !r.WithPriority && !worthRefilling(free, tt.MaxQueueLength) {
		return 0, err
	}
	peek := r.store.PeekReadyTasks
	if r.WithPriority {
		peek = r.store.PeekReadyPriorityTasks
	}
	tasks, err := peek(ctx, tt.Type, r.now(), free)
	if err != nil || len(tasks) == 0 {
		return 0, err
	}
	if err := r.direct.Ready(ctx, queue); err != nil {
		return 0, err
	}
	runs, messages := make([]model.TaskRun, len(tasks)), make([]celery.TaskMessage, len(tasks))
	for i, t := range tasks {
		id, now := uuid.NewString(), r.now()
		runs[i] = model.TaskRun{Task: t.ID, BackendID: &id, Scheduled: &now, Status: model.RunScheduled}
		messages[i] = celery.TaskMessage{ID: id, Name: tt.BackendName, Args: t.Arguments.Args, Kwargs: t.Arguments.Kwargs}
	}
	// Runs first: a worker may tell of a message at once.
	if err := r.store.ScheduleTaskRuns(ctx, runs); err != nil {
		return 0, err
	}
	var sent []int64
	var failed, notEnded error // the first of each
	for i, err := range r.direct.Publish(ctx, queue, messages) {
		if err == nil {
			sent = append(sent, tasks[i].ID)
			continue
		}
		if failed == nil {
			failed = fmt.Errorf("task %d: %w", tasks[i].ID, err)
		}
		if celery.IsPermanent(err) { // it can never be sent
			why, _ := json.Marshal(map[string]string{"error": err.Error()})
			err := r.store.EndTaskRun(ctx, messages[i].ID, model.RunPermFailed, why, r.now())
			notEnded = cmp.Or(notEnded, err)
		}
	}
	if n := len(tasks) - len(sent); n > 1 {
		failed = fmt.Errorf("%d tasks were not sent; the first: %w", n, failed)
	}
	err = r.store.SetTaskStatus(ctx, db.StatusChange{IDs: sent, Status: model.TaskScheduled, OnlyDue: true})
	return len(sent), errors.Join(failed, notEnded, err)
}
