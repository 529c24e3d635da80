package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// The calls of a Client are named as the methods of db.Store, and mean the same.

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
func (c *Client) CreateTasks(ctx context.Context, tasks []db.NewTask) ([]model.Task, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	return createTasks.ask(ctx, c, tasks)
}

// SearchTasks finds tasks.
func (c *Client) SearchTasks(ctx context.Context, f db.TaskFilter) ([]model.Task, error) {
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

// PeekReadyPriorityTasks is PeekReadyTasks for tasks of any priority.
func (c *Client) PeekReadyPriorityTasks(ctx context.Context, taskType string, now time.Time, limit int) ([]model.Task, error) {
	return peekReadyPriorityTasks.ask(ctx, c, readyArguments{taskType: taskType, timestamp: now, limit: &limit})
}

// ScheduleTaskRuns notes that runs are sent.
func (c *Client) ScheduleTaskRuns(ctx context.Context, runs []model.TaskRun) error {
	_, err := massScheduleTaskRuns.ask(ctx, c, runs)
	return err
}

// StartTaskRun notes that a worker took a run at that time, if there is such a run. metadata,
// a JSON object, is added to the run's.
func (c *Client) StartTaskRun(ctx context.Context, backendID string, metadata json.RawMessage, at time.Time) error {
	_, err := startTaskRun.ask(ctx, c, runArguments{backendID: backendID, metadata: metadata, timestamp: at})
	return err
}

// EndTaskRun notes how a run ended, as StartTaskRun does.
func (c *Client) EndTaskRun(ctx context.Context, backendID string, status model.RunStatus, metadata json.RawMessage, at time.Time) error {
	_, err := endTaskRun.ask(ctx, c, runArguments{backendID: backendID, status: status, metadata: metadata, timestamp: at})
	return err
}

// SetTaskStatus moves tasks by hand.
func (c *Client) SetTaskStatus(ctx context.Context, s db.StatusChange) error {
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

// ListersWithFirstVisits lists the listers whose first visits are to be scheduled.
func (c *Client) ListersWithFirstVisits(ctx context.Context) ([]model.Lister, error) {
	return getListers.ask(ctx, c, true)
}

// ListedVisitTypes lists the visit types of a lister's origins.
func (c *Client) ListedVisitTypes(ctx context.Context, l model.Lister) ([]string, error) {
	return getVisitTypes.ask(ctx, c, l)
}

// UpdateLister writes a lister; an error if it was written since l was read.
func (c *Client) UpdateLister(ctx context.Context, l model.Lister) (model.Lister, error) {
	return updateLister.ask(ctx, c, l)
}

// ListersByID returns the listers of these identifiers that exist.
func (c *Client) ListersByID(ctx context.Context, ids []uuid.UUID) ([]model.Lister, error) {
	return getListersByID.ask(ctx, c, ids)
}

// ListedOrigins returns a page of origins, and where the next one starts (nil after
// the last).
func (c *Client) ListedOrigins(ctx context.Context, f db.ListedOriginFilter) ([]model.ListedOrigin, *db.ListedOriginToken, error) {
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

// VisitQueuePositions returns those of all visit types that have one.
func (c *Client) VisitQueuePositions(ctx context.Context) ([]db.VisitQueuePosition, error) {
	return getQueuePositions.ask(ctx, c, none{})
}

// UpsertVisitStats writes the stats of origins; what is nil in them stays as it is.
func (c *Client) UpsertVisitStats(ctx context.Context, stats []model.VisitStats) error {
	_, err := upsertVisitStats.ask(ctx, c, stats)
	return err
}

// RecordListedOrigins writes what a lister found now, or with keepLastSeen at the origins' LastSeen.
func (c *Client) RecordListedOrigins(ctx context.Context, origins []model.ListedOrigin, keepLastSeen bool) ([]model.ListedOrigin, error) {
	return recordListedOrigins.ask(ctx, c, recordArguments{origins, !keepLastSeen})
}

// DisableOrigins disables all origins of these URLs until a lister sees them again.
func (c *Client) DisableOrigins(ctx context.Context, urls []string) error {
	filter := db.ListedOriginFilter{URLs: urls, Enabled: new(true)}
	for {
		origins, next, err := c.ListedOrigins(ctx, filter)
		if err != nil {
			return err
		}
		for i := range origins {
			origins[i].Enabled = false
		}
		if len(origins) > 0 {
			if _, err := c.RecordListedOrigins(ctx, origins, true); err != nil {
				return err
			}
		}
		if next == nil {
			return nil
		}
		filter.After = next
	}
}

// UpdateMetrics counts the origins of a lister, or of all, and returns the
// counts, dated with the database's time if now is zero.
func (c *Client) UpdateMetrics(ctx context.Context, lister uuid.NullUUID, now time.Time) ([]model.Metrics, error) {
	return updateMetrics.ask(ctx, c, metricsArguments{lister: lister, timestamp: now})
}

func unexpected(value any) error {
	return fmt.Errorf("the RPC server answers something else than a scheduler does (a %s)", typeName(value))
}
