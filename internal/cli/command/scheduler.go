package command

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/taskgraph"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/origins"
	"swh-scheduler/sql/postgres"
	"swh-scheduler/sql/tasks"
)

// Scheduler is the scheduler of a command: a database, or an RPC server. Its methods are those of db.Store.
type Scheduler interface {
	TaskType(ctx context.Context, name string) (model.TaskType, error)
	TaskTypes(ctx context.Context) ([]model.TaskType, error)
	CreateTaskType(ctx context.Context, t model.TaskType) error

	CreateTasks(ctx context.Context, tasks []tasks.NewTask) ([]model.Task, error)
	SearchTasks(ctx context.Context, f tasks.TaskFilter) ([]model.Task, error)
	PeekReadyTasks(ctx context.Context, taskType string, now time.Time, limit int) ([]model.Task, error)
	SetTaskStatus(ctx context.Context, c tasks.StatusChange) error
	TaskRuns(ctx context.Context, tasks []int64, limit int) ([]model.TaskRun, error)

	dispatch.Listers
	Lister(ctx context.Context, name, instance string) (model.Lister, error)
	GetOrCreateLister(ctx context.Context, name, instance string, firstVisitsQueuePrefix *string) (model.Lister, error)
	RecordListedOrigins(ctx context.Context, origins []model.ListedOrigin, keepLastSeen bool) ([]model.ListedOrigin, error)
	ListedOrigins(ctx context.Context, f origins.ListedOriginFilter) ([]model.ListedOrigin, *origins.ListedOriginToken, error)
	VisitStats(ctx context.Context, keys []model.OriginKey) ([]model.VisitStats, error)
	UpdateMetrics(ctx context.Context, lister uuid.NullUUID, now time.Time) ([]model.Metrics, error)
	HintOrigins(ctx context.Context, hints []model.Hint) (model.HintAnswer, error)

	GrabNextVisits(ctx context.Context, f model.VisitFilter, now time.Time, count int, dryRun bool) ([]model.ListedOrigin, error)
	// ScheduleNextVisits grabs visits and makes a one-shot task of each.
	ScheduleNextVisits(ctx context.Context, f model.VisitFilter, now time.Time, count int) ([]model.Task, error)

	Graphs

	// Interval reads an interval. With a database, PostgreSQL reads it.
	Interval(ctx context.Context, text string) (time.Duration, error)
}

// Graphs are the methods on graphs of tasks. A method that changes a graph also settles it, as a runner would.
type Graphs interface {
	CheckGraph(ctx context.Context, text []byte) (taskgraph.Size, error)
	SubmitGraph(ctx context.Context, text []byte) (taskgraph.Submitted, error)
	ExtendGraph(ctx context.Context, graph int64, text []byte) (taskgraph.Submitted, error)
	Graphs(ctx context.Context, limit int) ([]taskgraph.Line, error)
	Graph(ctx context.Context, graph int64) (taskgraph.Line, error)
	GraphReport(ctx context.Context, graph int64) (taskgraph.Report, error)
	DrawGraph(ctx context.Context, graph int64, format string) (string, error) // dot or svg
	RunningGraphTasks(ctx context.Context, graph int64) ([]int64, error)
	CancelGraph(ctx context.Context, graph int64) error
	RetryGraph(ctx context.Context, graph int64) error
	ReleaseTask(ctx context.Context, task int64, force bool) (taskgraph.Released, error)
}

// Database is a Scheduler on a database.
type Database struct{ *db.Store }

func (d Database) GrabNextVisits(ctx context.Context, f model.VisitFilter, now time.Time, count int, dryRun bool) (origins []model.ListedOrigin, err error) {
	err = d.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		origins, err = tx.GrabNextVisits(ctx, f, now, count, dryRun)
		return err
	})
	return origins, err
}

func (d Database) ScheduleNextVisits(ctx context.Context, f model.VisitFilter, now time.Time, count int) (created []model.Task, err error) {
	err = d.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
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

func (d Database) Interval(ctx context.Context, text string) (time.Duration, error) {
	interval, err := d.ReadInterval(ctx, text)
	if errors.Is(err, postgres.ErrNoInterval) {
		return 0, pytext.Sentencef("'%s' is not an interval.", text)
	}
	if err == nil && postgres.TooLong(interval) {
		return 0, pytext.Sentencef("'%s' is longer than 292 years.", text)
	}
	return interval, err
}

// visitTasks makes one-shot tasks that visit origins, with a single retry.
func visitTasks(ctx context.Context, listers dispatch.Listers, origins []model.ListedOrigin, now time.Time) ([]tasks.NewTask, error) {
	kwargs, err := dispatch.LoaderKwargs(ctx, listers, origins)
	if err != nil {
		return nil, err
	}
	visits := make([]tasks.NewTask, len(origins))
	for i, o := range origins {
		visits[i] = tasks.NewTask{
			Type: model.LoaderTaskType(o.VisitType), Arguments: model.TaskArguments{Kwargs: kwargs[i]},
			NextRun: now, Policy: model.Oneshot, RetriesLeft: new(int64(1)),
		}
	}
	return visits, nil
}

// Remote is a Scheduler behind an RPC server.
type Remote struct{ *rpc.Client }

// ScheduleNextVisits makes two calls, as the Python scheduler does. If the second one fails, the grabbed visits wait
// for their cooldown.
func (r Remote) ScheduleNextVisits(ctx context.Context, f model.VisitFilter, now time.Time, count int) ([]model.Task, error) {
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

func (r Remote) Interval(_ context.Context, text string) (time.Duration, error) {
	d, err := pytext.ParseDuration(text)
	if err != nil {
		return 0, pytext.Sentencef("'%s' is not an interval such as '90 days' or '1 day 12:30:00'.", text)
	}
	return d, nil
}
