package simulator

import (
	"context"
	"errors"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// Fill adds origins numbered from 1 on, listed at now, each with a recurring task
// that visits it and is ready since its origin changed. The lister and the task
// type that these need are made unless they are there. progress, if not nil, is
// called with how many more were added.
func Fill(ctx context.Context, store *sql.Store, origins int, now time.Time, progress func(n int)) error {
	if err := addTaskType(ctx, store); err != nil {
		return err
	}
	l, err := newLister(ctx, store, 0)
	if err != nil {
		return err
	}
	for l.before < origins {
		l.origins = nil
		l.more(min(recordBatch, origins-l.before))
		added, err := l.record(ctx, now)
		if err == nil {
			err = addTasks(ctx, store, added)
		}
		if err != nil {
			return err
		}
		l.before += len(added)
		if progress != nil {
			progress(len(added))
		}
	}
	return nil
}

// addTaskType adds the task type of listedVisitType, with the values of the peer's
// loaders, unless it is there.
func addTaskType(ctx context.Context, store *sql.Store) error {
	const day = 24 * time.Hour
	name := scheduler.LoaderTaskType(listedVisitType)
	if _, err := store.TaskType(ctx, name); !errors.Is(err, scheduler.ErrUnknownTaskType) {
		return err
	}
	interval, shortest, factor, retries, delay := 64*day, 12*time.Hour, 2.0, int64(7), 2*time.Hour
	return store.CreateTaskType(ctx, scheduler.TaskType{
		Type: name, Description: "Visits of the simulator's origins", BackendName: "swh.scheduler.simulator.LoadTestGit",
		DefaultInterval: &interval, MinInterval: &shortest, MaxInterval: &interval, BackoffFactor: &factor,
		NumRetries: &retries, RetryDelay: &delay,
	})
}

func addTasks(ctx context.Context, store *sql.Store, origins []scheduler.ListedOrigin) error {
	kwargs, err := dispatch.LoaderKwargs(ctx, store, origins)
	if err != nil {
		return err
	}
	tasks := make([]sql.NewTask, len(origins))
	for i, o := range origins {
		tasks[i] = sql.NewTask{
			Type: scheduler.LoaderTaskType(o.VisitType), Arguments: scheduler.TaskArguments{Kwargs: kwargs[i]},
			NextRun: *o.LastUpdate, Policy: scheduler.Recurring,
		}
	}
	_, err = store.CreateTasks(ctx, tasks)
	return err
}
