package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// backend is a scheduler as commands ask it: its database, or an RPC server in
// front of that. The methods are sql.Store's.
type backend interface {
	TaskType(ctx context.Context, name string) (scheduler.TaskType, error)
	TaskTypes(ctx context.Context) ([]scheduler.TaskType, error)
	CreateTaskType(ctx context.Context, t scheduler.TaskType) error

	CreateTasks(ctx context.Context, tasks []sql.NewTask) ([]scheduler.Task, error)
	SearchTasks(ctx context.Context, f sql.TaskFilter) ([]scheduler.Task, error)
	PeekReadyTasks(ctx context.Context, taskType string, now time.Time, limit int) ([]scheduler.Task, error)
	SetTaskStatus(ctx context.Context, c sql.StatusChange) error
	TaskRuns(ctx context.Context, tasks []int64, limit int) ([]scheduler.TaskRun, error)

	Lister(ctx context.Context, name, instance string) (scheduler.Lister, error)
	ListedOrigins(ctx context.Context, f sql.ListedOriginFilter) ([]scheduler.ListedOrigin, *sql.ListedOriginToken, error)
	VisitStats(ctx context.Context, keys []scheduler.OriginKey) ([]scheduler.VisitStats, error)
	UpdateMetrics(ctx context.Context, lister uuid.NullUUID, now time.Time) ([]scheduler.Metrics, error)

	GrabNextVisits(ctx context.Context, f scheduler.VisitFilter, now time.Time, count int, dryRun bool) ([]scheduler.ListedOrigin, error)
	// ScheduleNextVisits grabs visits and makes a one-shot task of each.
	ScheduleNextVisits(ctx context.Context, f scheduler.VisitFilter, now time.Time, count int) ([]scheduler.Task, error)

	// Interval reads an interval, as PostgreSQL does where there is one to ask.
	Interval(ctx context.Context, text string) (time.Duration, error)
	// Zone is where dates are shown, and read if they name no zone.
	Zone(ctx context.Context) (*time.Location, error)
}

// database is a backend.
type database struct{ *sql.Store }

func (d database) GrabNextVisits(ctx context.Context, f scheduler.VisitFilter, now time.Time, count int, dryRun bool) (origins []scheduler.ListedOrigin, err error) {
	err = d.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		origins, err = tx.GrabNextVisits(ctx, f, now, count, dryRun)
		return err
	})
	return origins, err
}

func (d database) ScheduleNextVisits(ctx context.Context, f scheduler.VisitFilter, now time.Time, count int) (created []scheduler.Task, err error) {
	err = d.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		origins, err := tx.GrabNextVisits(ctx, f, now, count, false)
		if err != nil {
			return err
		}
		tasks, err := visitTasks(ctx, tx, origins, now)
		if err != nil {
			return err
		}
		created, err = tx.CreateTasks(ctx, tasks)
		return err
	})
	return created, err
}

func (d database) Zone(ctx context.Context) (*time.Location, error) { return serverZone(ctx, d.Store) }

func (d database) Interval(ctx context.Context, text string) (time.Duration, error) {
	return readInterval(ctx, d.Store, text)
}

// remote is a backend. What takes two calls can stop between them, as with the
// peer: visits that are grabbed and not made tasks of wait for their cooldown.
type remote struct{ *rpc.Client }

func (r remote) ScheduleNextVisits(ctx context.Context, f scheduler.VisitFilter, now time.Time, count int) ([]scheduler.Task, error) {
	origins, err := r.GrabNextVisits(ctx, f, now, count, false)
	if err != nil {
		return nil, err
	}
	tasks, err := visitTasks(ctx, r, origins, now)
	if err != nil {
		return nil, err
	}
	return r.CreateTasks(ctx, tasks)
}

// Zone is UTC: the calls carry no zone.
func (r remote) Zone(context.Context) (*time.Location, error) { return time.UTC, nil }

func (r remote) Interval(_ context.Context, text string) (time.Duration, error) {
	d, err := config.ParseDuration(text)
	if err != nil {
		return 0, sentencef("'%s' is not an interval such as '90 days' or '1 day 12:30:00'.", text)
	}
	return d, nil
}

// visitTasks are one-shot tasks that visit origins, with a single retry.
func visitTasks(ctx context.Context, listers dispatch.Listers, origins []scheduler.ListedOrigin, now time.Time) ([]sql.NewTask, error) {
	kwargs, err := dispatch.LoaderKwargs(ctx, listers, origins)
	if err != nil {
		return nil, err
	}
	retries := int64(1)
	tasks := make([]sql.NewTask, len(origins))
	for i, o := range origins {
		tasks[i] = sql.NewTask{
			Type: scheduler.LoaderTaskType(o.VisitType), Arguments: scheduler.TaskArguments{Kwargs: kwargs[i]},
			NextRun: now, Policy: scheduler.Oneshot, RetriesLeft: &retries,
		}
	}
	return tasks, nil
}

// withBackend runs a command that asks the configured scheduler something and
// ends.
func (a *app) withBackend(cmd *cobra.Command, do func(ctx context.Context, b backend) error) error {
	if a.config.Scheduler.Cls != config.Remote {
		return a.withStore(cmd, func(ctx context.Context, store *sql.Store) error { return do(ctx, database{store}) })
	}
	if a.config.Scheduler.URL == "" {
		return a.config.Missing("scheduler.url", "the address of an RPC server, such as http://scheduler.example:5008/")
	}
	client, err := rpc.NewClient(string(a.config.Scheduler.URL))
	if err != nil {
		return fmt.Errorf("%s: %w", a.urlSource(), err)
	}
	defer client.Close()
	return do(cmd.Context(), remote{client})
}
