package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/origins"
	"swh-scheduler/sql/tasks"
)

// The calls of a Client have the names and the meaning of db.Store's methods.

// TaskType returns the task type of that name; model.ErrUnknownTaskType if there
// is none.
func (c *Client) TaskType(ctx context.Context, name string) (model.TaskType, error) {
	t, err := getTaskType.ask(ctx, c, name)
	if err != nil {
		return model.TaskType{}, err
	}
	if t == nil {
		return model.TaskType{}, fmt.Errorf("%w: %q", model.ErrUnknownTaskType, name)
	}
	return *t, nil
}

// TaskTypes lists all task types.
func (c *Client) TaskTypes(ctx context.Context) ([]model.TaskType, error) {
	return getTaskTypes.ask(ctx, c, none{})
}

// CreateTaskType adds a task type, unless there is one of that name.
func (c *Client) CreateTaskType(ctx context.Context, t model.TaskType) error {
	_, err := createTaskType.ask(ctx, c, t)
	return err
}

// CreateTasks creates tasks, all or none, and returns them.
func (c *Client) CreateTasks(ctx context.Context, tasks []tasks.NewTask) ([]model.Task, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	return createTasks.ask(ctx, c, tasks)
}

// SearchTasks finds tasks.
func (c *Client) SearchTasks(ctx context.Context, f tasks.TaskFilter) ([]model.Task, error) {
	return searchTasks.ask(ctx, c, f)
}

// PeekReadyTasks returns the tasks of a type, without priority, that are to run at
// now; at most limit of them, or all if it is 0.
func (c *Client) PeekReadyTasks(ctx context.Context, taskType string, now time.Time, limit int) ([]model.Task, error) {
	a := readyArguments{taskType: taskType, timestamp: now}
	if limit != 0 {
		a.limit = &limit
	}
	return peekReadyTasks.ask(ctx, c, a)
}

// SetTaskStatus moves tasks by hand.
func (c *Client) SetTaskStatus(ctx context.Context, s tasks.StatusChange) error {
	_, err := setStatusTasks.ask(ctx, c, s)
	return err
}

// TaskRuns returns the runs of some tasks; at most limit of them, or all if it is 0.
func (c *Client) TaskRuns(ctx context.Context, tasks []int64, limit int) ([]model.TaskRun, error) {
	return getTaskRuns.ask(ctx, c, runFilter{tasks, limit})
}

// GrabNextVisits picks up to count origins to visit next at the moment now, and
// unless dryRun marks them as scheduled. model.ErrUnknownPolicy if the server
// does not know the policy.
func (c *Client) GrabNextVisits(ctx context.Context, f model.VisitFilter, now time.Time, count int, dryRun bool) ([]model.ListedOrigin, error) {
	origins, err := grabNextVisits.ask(ctx, c, grabArguments{VisitFilter: f, count: &count, timestamp: now, dryRun: dryRun})
	if remote, ok := errors.AsType[*RemoteError](err); ok && remote.Class == "UnknownPolicy" {
		err = fmt.Errorf("%w: %q", model.ErrUnknownPolicy, f.Policy)
	}
	return origins, err
}

// Lister finds a lister by its name and that of its instance ("" where it has
// none); model.ErrUnknownLister if there is none.
func (c *Client) Lister(ctx context.Context, name, instance string) (model.Lister, error) {
	l, err := getLister.ask(ctx, c, listerArguments{name: &name, instance: instance})
	if err != nil {
		return model.Lister{}, err
	}
	if l == nil {
		return model.Lister{}, fmt.Errorf("%w: %q, instance %q", model.ErrUnknownLister, name, instance)
	}
	return *l, nil
}

// GetOrCreateLister finds a lister as Lister does, and creates it if there is none.
func (c *Client) GetOrCreateLister(ctx context.Context, name, instance string, firstVisitsQueuePrefix *string) (model.Lister, error) {
	return getOrCreateLister.ask(ctx, c, listerArguments{&name, instance, firstVisitsQueuePrefix})
}

// ListersByID returns the listers of these identifiers that exist.
func (c *Client) ListersByID(ctx context.Context, ids []uuid.UUID) ([]model.Lister, error) {
	return getListersByID.ask(ctx, c, ids)
}

// ListedOrigins returns a page of origins, and where the next one starts (nil after
// the last).
func (c *Client) ListedOrigins(ctx context.Context, f origins.ListedOriginFilter) ([]model.ListedOrigin, *origins.ListedOriginToken, error) {
	if f.Limit == 0 {
		f.Limit = defaultPage
	}
	page, err := getListedOrigins.ask(ctx, c, f)
	return page.origins, page.next, err
}

// VisitStats returns the stats of those of the origins that have some.
func (c *Client) VisitStats(ctx context.Context, keys []model.OriginKey) ([]model.VisitStats, error) {
	return getVisitStats.ask(ctx, c, keys)
}

// RecordListedOrigins writes what a lister found now, or with keepLastSeen at the origins' LastSeen.
func (c *Client) RecordListedOrigins(ctx context.Context, origins []model.ListedOrigin, keepLastSeen bool) ([]model.ListedOrigin, error) {
	return recordListedOrigins.ask(ctx, c, recordArguments{origins, !keepLastSeen})
}

// UpdateMetrics counts the origins of a lister, or of all, and returns the
// counts, dated with the database's time if now is zero.
func (c *Client) UpdateMetrics(ctx context.Context, lister uuid.NullUUID, now time.Time) ([]model.Metrics, error) {
	return updateMetrics.ask(ctx, c, metricsArguments{lister: lister, timestamp: now})
}

func unexpected(value any) error {
	return fmt.Errorf("the RPC server's response is not a scheduler's (its type is %s)", typeName(value))
}
