package simulator

import (
	"context"
	"errors"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/tasks"
)

// Fill adds origins numbered from 1, which the listers list in turn at now. For each origin it adds a recurring task,
// ready since the origin's last change. forks is the fraction of the origins that are forks, from 0 to 1. Fill
// creates missing listers and the task type. If progress isn't nil, Fill calls it with the number of origins of each
// batch.
func Fill(ctx context.Context, store Store, names []ListerName, origins int, forks float64, now time.Time, progress func(n int)) error {
	if err := addTaskType(ctx, store); err != nil {
		return err
	}
	numbers := 0
	listers, err := newListers(ctx, store, names, &numbers, forks)
	if err != nil {
		return err
	}
	batch := max(1, recordBatch/len(listers))
	for turn := 0; numbers < origins; turn++ {
		l := listers[turn%len(listers)]
		l.origins = nil
		l.more(min(batch, origins-numbers))
		l.list(now)
		if err := l.write(ctx); err != nil {
			return err
		}
		if err := addTasks(ctx, store, l); err != nil {
			return err
		}
		if progress != nil {
			progress(len(l.origins))
		}
	}
	if d, ok := store.(keepsCandidates); ok {
		return keepCandidates(ctx, d)
	}
	return nil
}

// Store is the scheduler that Fill writes to: a database, or one behind an RPC server.
type Store interface {
	TaskType(ctx context.Context, name string) (model.TaskType, error)
	CreateTaskType(ctx context.Context, t model.TaskType) error
	CreateTasks(ctx context.Context, tasks []tasks.NewTask) ([]model.Task, error)
	dispatch.Listers
	GetOrCreateLister(ctx context.Context, name, instance string, firstVisitsQueuePrefix *string) (model.Lister, error)
	RecordListedOrigins(ctx context.Context, origins []model.ListedOrigin, keepLastSeen bool) ([]model.ListedOrigin, error)
}

// addTaskType creates the task type of listedVisitType, unless it exists, with the values of the Python scheduler's
// loaders.
func addTaskType(ctx context.Context, store Store) error {
	const day = 24 * time.Hour
	name := model.LoaderTaskType(listedVisitType)
	if _, err := store.TaskType(ctx, name); !errors.Is(err, model.ErrUnknownTaskType) {
		return err
	}
	interval := 64 * day
	return store.CreateTaskType(ctx, model.TaskType{
		Type: name, Description: "Visits of the simulator's origins", BackendName: "swh.scheduler.simulator.LoadTestGit",
		DefaultInterval: &interval, MinInterval: new(12 * time.Hour), MaxInterval: &interval, BackoffFactor: new(2.0),
		NumRetries: new(int64(7)), RetryDelay: new(2 * time.Hour),
	})
}

// addTasks creates a task for each origin of a lister.
func addTasks(ctx context.Context, store Store, l *lister) error {
	origins := make([]model.ListedOrigin, len(l.origins))
	for i, o := range l.origins {
		origins[i] = model.ListedOrigin{ListerID: l.id, URL: o.url, VisitType: listedVisitType, ExtraLoaderArguments: noArguments}
	}
	kwargs, err := dispatch.LoaderKwargs(ctx, store, origins)
	if err != nil {
		return err
	}
	visits := make([]tasks.NewTask, len(origins))
	for i := range origins {
		visits[i] = tasks.NewTask{
			Type: model.LoaderTaskType(listedVisitType), Arguments: model.TaskArguments{Kwargs: kwargs[i]},
			NextRun: l.origins[i].lastUpdate, Policy: model.Recurring,
		}
	}
	_, err = store.CreateTasks(ctx, visits)
	return err
}
