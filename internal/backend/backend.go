// Package backend is the scheduler that commands use: a database, or an RPC server.
package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/rpc/door"
	"swh-scheduler/internal/taskgraph"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// Scheduler is what commands need; the methods are as db.Store's.
type Scheduler interface {
	TaskType(ctx context.Context, name string) (model.TaskType, error)
	TaskTypes(ctx context.Context) ([]model.TaskType, error)
	CreateTaskType(ctx context.Context, t model.TaskType) error

	CreateTasks(ctx context.Context, tasks []db.NewTask) ([]model.Task, error)
	SearchTasks(ctx context.Context, f db.TaskFilter) ([]model.Task, error)
	PeekReadyTasks(ctx context.Context, taskType string, now time.Time, limit int) ([]model.Task, error)
	SetTaskStatus(ctx context.Context, c db.StatusChange) error
	TaskRuns(ctx context.Context, tasks []int64, limit int) ([]model.TaskRun, error)

	dispatch.Listers
	Lister(ctx context.Context, name, instance string) (model.Lister, error)
	GetOrCreateLister(ctx context.Context, name, instance string, firstVisitsQueuePrefix *string) (model.Lister, error)
	RecordListedOrigins(ctx context.Context, origins []model.ListedOrigin, keepLastSeen bool) ([]model.ListedOrigin, error)
	ListedOrigins(ctx context.Context, f db.ListedOriginFilter) ([]model.ListedOrigin, *db.ListedOriginToken, error)
	VisitStats(ctx context.Context, keys []model.OriginKey) ([]model.VisitStats, error)
	UpdateMetrics(ctx context.Context, lister uuid.NullUUID, now time.Time) ([]model.Metrics, error)

	GrabNextVisits(ctx context.Context, f model.VisitFilter, now time.Time, count int, dryRun bool) ([]model.ListedOrigin, error)
	// ScheduleNextVisits grabs visits and makes a one-shot task of each.
	ScheduleNextVisits(ctx context.Context, f model.VisitFilter, now time.Time, count int) ([]model.Task, error)

	Graphs

	// Interval reads an interval; with a database, as PostgreSQL does.
	Interval(ctx context.Context, text string) (time.Duration, error)
	// Zone returns the zone in which dates are shown, and read if they name none.
	Zone(ctx context.Context) (*time.Location, error)
}

// Graphs are the graphs of tasks. Methods that change one settle it, as a runner would.
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

func (d Database) Zone(ctx context.Context) (*time.Location, error) { return Zone(ctx, d.Store) }

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

// Zone returns the server's time zone, in which the Python scheduler shows dates. Our own
// sessions are in UTC, so it opens one with the server's settings.
func Zone(ctx context.Context, store *db.Store) (*time.Location, error) {
	c := store.Pool().Config().ConnConfig.Copy()
	if os.Getenv("PGTZ") == "" {
		delete(c.RuntimeParams, "timezone")
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	zone, err := time.LoadLocation(conn.PgConn().ParameterStatus("TimeZone"))
	if err != nil {
		return time.UTC, nil // only the server knows it; psycopg does the same
	}
	return zone, nil
}

// visitTasks makes one-shot tasks that visit origins, with a single retry.
func visitTasks(ctx context.Context, listers dispatch.Listers, origins []model.ListedOrigin, now time.Time) ([]db.NewTask, error) {
	kwargs, err := dispatch.LoaderKwargs(ctx, listers, origins)
	if err != nil {
		return nil, err
	}
	tasks := make([]db.NewTask, len(origins))
	for i, o := range origins {
		tasks[i] = db.NewTask{
			Type: model.LoaderTaskType(o.VisitType), Arguments: model.TaskArguments{Kwargs: kwargs[i]},
			NextRun: now, Policy: model.Oneshot, RetriesLeft: new(int64(1)),
		}
	}
	return tasks, nil
}

type Remote struct{ *rpc.Client }

// ScheduleNextVisits makes two calls, as the Python scheduler does. Visits grabbed before a
// failure of the second one wait for their cooldown.
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

// Zone returns UTC, as calls carry no zone.
func (r Remote) Zone(context.Context) (*time.Location, error) { return time.UTC, nil }

func (r Remote) Interval(_ context.Context, text string) (time.Duration, error) {
	d, err := pytext.ParseDuration(text)
	if err != nil {
		return 0, pytext.Sentencef("'%s' is not an interval such as '90 days' or '1 day 12:30:00'.", text)
	}
	return d, nil
}

// Describe puts an error of the database into one line that says what to do about it.
func Describe(store *db.Store, err error) error {
	const undefinedTable, undefinedFunction, undefinedSchema, insufficientPrivilege = "42P01", "42883", "3F000", "42501"
	_, unconnected := errors.AsType[*pgconn.ConnectError](err)
	closed, atDoor := errors.AsType[*door.ClosedError](err)
	pg, answered := errors.AsType[*pgconn.PgError](err)
	switch {
	case atDoor:
		return closed
	case unconnected && answered:
		return fmt.Errorf("%s refuses the connection: %w", store.Name(), pg)
	case unconnected:
		return fmt.Errorf("%s is not reachable (is it running, and is its address right?): %w", store.Name(), pytext.OneLine(err))
	case answered && slices.Contains([]string{undefinedTable, undefinedFunction, undefinedSchema}, pg.Code):
		return fmt.Errorf("%s lacks what this command needs; run \"swh-scheduler migrate\": %w", store.Name(), err)
	}
	missing, lacks := errors.AsType[*db.RightsError](err)
	switch {
	case lacks:
		return fmt.Errorf("%s: %w", store.Name(), missing)
	case answered && pg.Code == insufficientPrivilege:
		return fmt.Errorf("%s: its user lacks a right that this command needs: %w%s", store.Name(), err, grants(store, err))
	}
	return err
}

// grants returns the statements that give the right that a statement lacked, in brackets, if they are known.
func grants(store *db.Store, err error) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	missing, ok := errors.AsType[*db.RightsError](store.Denied(ctx, err))
	if !ok {
		return ""
	}
	statements := make([]string, len(missing.Lacks))
	for i, l := range missing.Lacks {
		statements[i] = l.Grant(missing.User)
	}
	return " (the owner gives it by: " + strings.Join(statements, "; ") + ")"
}

type UnknownTaskType string

func (e UnknownTaskType) Error() string { return fmt.Sprintf("unknown task type: %q", string(e)) }

type TaskTypes interface {
	TaskType(ctx context.Context, name string) (model.TaskType, error)
}

// CheckTaskTypes returns UnknownTaskType for the first name that does not exist.
func CheckTaskTypes(ctx context.Context, from TaskTypes, names []string) error {
	for _, name := range names {
		_, err := from.TaskType(ctx, name)
		switch {
		case errors.Is(err, model.ErrUnknownTaskType):
			return UnknownTaskType(name)
		case err != nil:
			return fmt.Errorf("look up task type %s: %w", name, err)
		}
	}
	return nil
}
