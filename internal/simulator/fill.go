package simulator

import (
	"context"
	"errors"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// Fill adds origins numbered from 1 on, listed at now by the listers in turn, each
// with a recurring task that visits it and is ready since its origin changed. The
// listers and the task type that these need are made unless they are there. progress,
// if not nil, is called with how many more were added.
func Fill(ctx context.Context, store *sql.Store, names []ListerName, origins int, now time.Time, progress func(n int)) error {
	if err := addTaskType(ctx, store); err != nil {
		return err
	}
	numbers := 0
	listers, err := newListers(ctx, store, names, &numbers)
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
	return keepCandidates(ctx, store)
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

// addTasks adds a task for each origin that a lister has listed.
func addTasks(ctx context.Context, store *sql.Store, l *lister) error {
	origins := make([]scheduler.ListedOrigin, len(l.origins))
	for i, o := range l.origins {
		origins[i] = scheduler.ListedOrigin{ListerID: l.id, URL: o.url, VisitType: listedVisitType, ExtraLoaderArguments: noArguments}
	}
	kwargs, err := dispatch.LoaderKwargs(ctx, store, origins)
	if err != nil {
		return err
	}
	tasks := make([]sql.NewTask, len(origins))
	for i := range origins {
		tasks[i] = sql.NewTask{
			Type: scheduler.LoaderTaskType(listedVisitType), Arguments: scheduler.TaskArguments{Kwargs: kwargs[i]},
			NextRun: l.origins[i].lastUpdate, Policy: scheduler.Recurring,
		}
	}
	_, err = store.CreateTasks(ctx, tasks)
	return err
}
