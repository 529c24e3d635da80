package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// The calls of a Client are named as the methods of sql.Store, and mean the same.

// TaskType is the task type of that name; scheduler.ErrUnknownTaskType if there
// is none.
func (c *Client) TaskType(ctx context.Context, name string) (scheduler.TaskType, error) {
	value, err := c.call(ctx, "task_type/get", 1, func(e encoder) { textField(e, "task_type_name", name) })
	if err != nil {
		return scheduler.TaskType{}, err
	}
	if value == nil {
		return scheduler.TaskType{}, fmt.Errorf("%w: %q", scheduler.ErrUnknownTaskType, name)
	}
	return one[scheduler.TaskType](value)
}

// TaskTypes lists all task types.
func (c *Client) TaskTypes(ctx context.Context) ([]scheduler.TaskType, error) {
	return many[scheduler.TaskType](c.call(ctx, "task_type/get_all", 0, func(encoder) {}))
}

// CreateTaskType adds a task type, unless there is one of that name.
func (c *Client) CreateTaskType(ctx context.Context, t scheduler.TaskType) error {
	_, err := c.call(ctx, "task_type/create", 1, func(e encoder) {
		e.key("task_type")
		writeTaskType(e, t)
	})
	return err
}

// CreateTasks creates tasks, all or none, and returns them.
func (c *Client) CreateTasks(ctx context.Context, tasks []sql.NewTask) ([]scheduler.Task, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	return tasksOf(c.call(ctx, "task/create", 1, func(e encoder) {
		e.key("tasks")
		list(e, tasks, writeNewTask)
	}))
}

// SearchTasks finds tasks.
func (c *Client) SearchTasks(ctx context.Context, f sql.TaskFilter) ([]scheduler.Task, error) {
	return tasksOf(c.call(ctx, "task/search", 8, func(e encoder) {
		e.key("task_id")
		listOrNull(e, f.IDs, encoder.integer)
		e.key("task_type")
		listOrNull(e, f.Types, encoder.text)
		e.key("status")
		listOrNull(e, f.Statuses, writeText)
		e.key("priority")
		listOrNull(e, f.Priorities, writeText)
		optionalTextField(e, "policy", nonZero(string(f.Policy)))
		optionalTimeField(e, "before", nonZero(f.Before))
		optionalTimeField(e, "after", nonZero(f.After))
		optionalIntegerField(e, "limit", nonZero(int64(f.Limit)))
	}))
}

// PeekReadyTasks are the tasks of a type, without priority, that are to run at
// now; at most limit of them, or all if it is 0.
func (c *Client) PeekReadyTasks(ctx context.Context, taskType string, now time.Time, limit int) ([]scheduler.Task, error) {
	return tasksOf(c.call(ctx, "task/peek_ready", 3, func(e encoder) {
		textField(e, "task_type", taskType)
		timeField(e, "timestamp", now)
		optionalIntegerField(e, "num_tasks", nonZero(int64(limit)))
	}))
}

// SetTaskStatus moves tasks by hand.
func (c *Client) SetTaskStatus(ctx context.Context, s sql.StatusChange) error {
	_, err := c.call(ctx, "task/set_status", 4, func(e encoder) {
		e.key("task_ids")
		list(e, s.IDs, encoder.integer)
		textField(e, "status", string(s.Status))
		optionalTimeField(e, "next_run", nonZero(s.NextRun))
		e.key("except_completed_tasks")
		e.boolean(s.OnlyDue)
	})
	return err
}

// TaskRuns are the runs of some tasks; at most limit of them, or all if it is 0.
func (c *Client) TaskRuns(ctx context.Context, tasks []int64, limit int) ([]scheduler.TaskRun, error) {
	return many[scheduler.TaskRun](c.call(ctx, "task_run/get", 2, func(e encoder) {
		e.key("task_ids")
		list(e, tasks, encoder.integer)
		optionalIntegerField(e, "limit", nonZero(int64(limit)))
	}))
}

// GrabNextVisits picks up to count origins to visit next at the moment now, and
// unless dryRun marks them as scheduled. scheduler.ErrUnknownPolicy if the server
// does not know the policy.
func (c *Client) GrabNextVisits(ctx context.Context, f scheduler.VisitFilter, now time.Time, count int, dryRun bool) ([]scheduler.ListedOrigin, error) {
	value, err := c.call(ctx, "origins/grab_next", 14, func(e encoder) {
		textField(e, "visit_type", f.VisitType)
		integerField(e, "count", int64(count))
		textField(e, "policy", string(f.Policy))
		e.key("enabled")
		e.boolean(!f.Disabled)
		optionalTextField(e, "lister_uuid", nullUUID(f.ListerID))
		optionalTextField(e, "lister_name", nonZero(f.ListerName))
		optionalTextField(e, "lister_instance_name", nonZero(f.ListerInstanceName))
		timeField(e, "timestamp", now)
		timedeltaField(e, "absolute_cooldown", nonZero(f.Cooldowns.Absolute))
		timedeltaField(e, "scheduled_cooldown", nonZero(f.Cooldowns.Scheduled))
		timedeltaField(e, "failed_cooldown", nonZero(f.Cooldowns.Failed))
		timedeltaField(e, "not_found_cooldown", nonZero(f.Cooldowns.NotFound))
		e.key("tablesample")
		optional(e, nonZero(f.TableSample), e.float)
		e.key("dry_run")
		e.boolean(dryRun)
	})
	if remote, ok := errors.AsType[*RemoteError](err); ok && remote.Class == "UnknownPolicy" {
		err = fmt.Errorf("%w: %q", scheduler.ErrUnknownPolicy, f.Policy)
	}
	return many[scheduler.ListedOrigin](value, err)
}

// Lister finds a lister by its name and that of its instance ("" where it has
// none); scheduler.ErrUnknownLister if there is none.
func (c *Client) Lister(ctx context.Context, name, instance string) (scheduler.Lister, error) {
	value, err := c.call(ctx, "lister/get", 2, func(e encoder) {
		textField(e, "name", name)
		textField(e, "instance_name", instance)
	})
	if err != nil {
		return scheduler.Lister{}, err
	}
	if value == nil {
		return scheduler.Lister{}, fmt.Errorf("%w: %q, instance %q", scheduler.ErrUnknownLister, name, instance)
	}
	return one[scheduler.Lister](value)
}

// ListersByID are the listers of these identifiers that there are.
func (c *Client) ListersByID(ctx context.Context, ids []uuid.UUID) ([]scheduler.Lister, error) {
	return many[scheduler.Lister](c.call(ctx, "listers/get_by_id", 1, func(e encoder) {
		e.key("lister_ids")
		list(e, ids, func(e encoder, id uuid.UUID) { e.text(id.String()) })
	}))
}

// ListedOrigins reads a page of origins, and where the next one starts (nil after
// the last).
func (c *Client) ListedOrigins(ctx context.Context, f sql.ListedOriginFilter) ([]scheduler.ListedOrigin, *sql.ListedOriginToken, error) {
	n := 4
	if f.Limit > 0 {
		n++
	}
	value, err := c.call(ctx, "origins/get", n, func(e encoder) {
		e.key("lister_id")
		if f.ListerID.Valid {
			writeUUID(e, f.ListerID.UUID)
		} else {
			e.null()
		}
		e.key("urls")
		listOrNull(e, f.URLs, encoder.text)
		e.key("enabled")
		optional(e, f.Enabled, e.boolean)
		e.key("page_token")
		optional(e, f.After, func(t sql.ListedOriginToken) { list(e, []string{t.ListerID.String(), t.URL}, encoder.text) })
		if f.Limit > 0 {
			integerField(e, "limit", int64(f.Limit))
		}
	})
	if err != nil {
		return nil, nil, err
	}
	page, ok := value.(dict)
	if !ok {
		return nil, nil, unexpected(value)
	}
	results, _ := page.get("results")
	origins, err := many[scheduler.ListedOrigin](results, nil)
	if err != nil {
		return nil, nil, err
	}
	next, _ := page.get("next_page_token")
	if next == nil {
		return origins, nil, nil
	}
	token, err := pageToken(next)
	if err != nil {
		return nil, nil, unexpected(next)
	}
	return origins, token, nil
}

func pageToken(value any) (*sql.ListedOriginToken, error) {
	pair, ok := value.([]any)
	if !ok || len(pair) != 2 {
		return nil, errors.New("not a pair")
	}
	id, ok := pair[0].(string)
	url, isText := pair[1].(string)
	if !ok || !isText {
		return nil, errors.New("not texts")
	}
	lister, err := parseUUID(id)
	return &sql.ListedOriginToken{ListerID: lister, URL: url}, err
}

// VisitStats are the stats of those of the origins that have some.
func (c *Client) VisitStats(ctx context.Context, keys []scheduler.OriginKey) ([]scheduler.VisitStats, error) {
	return many[scheduler.VisitStats](c.call(ctx, "visit_stats/get", 1, func(e encoder) {
		e.key("ids")
		list(e, keys, func(e encoder, k scheduler.OriginKey) { list(e, []string{k.URL, k.VisitType}, encoder.text) })
	}))
}

// UpdateMetrics counts the origins of a lister, or of all, and returns the
// counts, dated with the database's time if now is zero.
func (c *Client) UpdateMetrics(ctx context.Context, lister uuid.NullUUID, now time.Time) ([]scheduler.Metrics, error) {
	return many[scheduler.Metrics](c.call(ctx, "scheduler_metrics/update", 2, func(e encoder) {
		e.key("lister_id")
		if lister.Valid {
			writeUUID(e, lister.UUID)
		} else {
			e.null()
		}
		optionalTimeField(e, "timestamp", nonZero(now))
	}))
}

// writeNewTask writes a Task that has no number yet.
func writeNewTask(e encoder, t sql.NewTask) {
	text := func(value, otherwise string) string {
		if value == "" {
			return otherwise
		}
		return value
	}
	openModel(e, 7)
	textField(e, "type", t.Type)
	e.key("arguments")
	openModel(e, 2)
	e.key("args")
	e.json([]byte(text(string(t.Arguments.Args), "[]")))
	e.key("kwargs")
	e.json([]byte(text(string(t.Arguments.Kwargs), "{}")))
	closeModel(e, "TaskArguments")
	timeField(e, "next_run", t.NextRun.UTC().Truncate(time.Microsecond))
	textField(e, "status", text(string(t.Status), string(scheduler.TaskNotScheduled)))
	textField(e, "policy", text(string(t.Policy), string(scheduler.Recurring)))
	optionalIntegerField(e, "retries_left", t.RetriesLeft)
	optionalTextField(e, "priority", nonZero(string(t.Priority)))
	closeModel(e, "Task")
}

// one is an answer of type T.
func one[T any](value any) (T, error) {
	v, ok := value.(T)
	if !ok {
		return v, unexpected(value)
	}
	return v, nil
}

// many is an answer that is a list of T.
func many[T any](value any, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	elements, err := one[[]any](value)
	if err != nil {
		return nil, err
	}
	list := make([]T, len(elements))
	for i, element := range elements {
		if list[i], err = one[T](element); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// tasksOf is an answer that is a list of tasks.
func tasksOf(value any, err error) ([]scheduler.Task, error) {
	given, err := many[task](value, err)
	if err != nil {
		return nil, err
	}
	tasks := make([]scheduler.Task, len(given))
	for i, t := range given {
		if t.id == nil {
			return nil, unexpected(t)
		}
		tasks[i] = scheduler.Task{
			ID: *t.id, Type: t.Type, Arguments: t.Arguments, NextRun: t.NextRun, CurrentInterval: t.interval,
			Status: t.Status, Policy: t.Policy, Priority: t.Priority,
		}
		if t.RetriesLeft != nil {
			tasks[i].RetriesLeft = *t.RetriesLeft
		}
	}
	return tasks, nil
}

func unexpected(value any) error {
	return fmt.Errorf("the RPC server answers something else than a scheduler does (a %s)", typeName(value))
}

// listOrNull writes a list, or None for one without elements: no condition.
func listOrNull[T any](e encoder, elements []T, write func(encoder, T)) {
	if len(elements) == 0 {
		e.null()
		return
	}
	list(e, elements, write)
}

func writeText[T ~string](e encoder, value T) { e.text(string(value)) }

// nonZero is nil, for None, where a value is its type's zero.
func nonZero[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

func nullUUID(id uuid.NullUUID) *string {
	if !id.Valid {
		return nil
	}
	text := id.UUID.String()
	return &text
}
