package tasks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// NewTask is a task to create.
type NewTask struct {
	Type        string              `json:"type"`
	Arguments   model.TaskArguments `json:"-"` // nil: none
	NextRun     time.Time           `json:"next_run"`
	Status      model.TaskStatus    `json:"status"`       // "" is next_run_not_scheduled
	Policy      model.TaskPolicy    `json:"policy"`       // "" is recurring
	RetriesLeft *int64              `json:"retries_left"` // nil: as its type says
	Priority    model.TaskPriority  `json:"priority,omitempty"`
}

// CreateTasks creates tasks, all or none, with the default interval of their type, and returns the stored
// tasks. Like the Python scheduler, it skips a recurring task if one with the same type, arguments,
// priority and status exists. It skips a one-shot task if such a task with the same time exists. Of
// existing tasks, it returns those with the same time. It returns model.ErrUnknownTaskType for an unknown
// type.
func (s Store) CreateTasks(ctx context.Context, tasks []NewTask) (created []model.Task, err error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	err = s.inTx(ctx, postgres.Plainly, func(ctx context.Context, tx *Tx) error {
		created, err = tx.CreateTasks(ctx, tasks)
		return err
	})
	if postgres.SQLStateClass(err) == "23" { // a broken constraint
		err = s.explainViolation(ctx, tasks, err)
	}
	return created, err
}

// CreateTasks is Store.CreateTasks as part of a transaction, which may call it once. An unknown type gives
// a constraint violation.
func (tx *Tx) CreateTasks(ctx context.Context, tasks []NewTask) ([]model.Task, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	document, err := encodeNewTasks(tasks)
	if err != nil {
		return nil, err
	}
	var rows []queries.Task
	err = stmt.InOrder(ctx, tx.q.MakeTaskTable,
		func(ctx context.Context) error { return tx.q.FillTaskTable(ctx, document) },
		func(ctx context.Context) (err error) {
			rows, err = tx.q.CreateTasksFromTable(ctx)
			return err
		})
	return tasksOf(rows, stmt.Failed(err, "create tasks"))
}

// explainViolation returns the reason why the database refused tasks. An unknown type violates whichever
// constraint PostgreSQL checks first.
func (s Store) explainViolation(ctx context.Context, tasks []NewTask, cause error) error {
	known, err := s.TaskTypes(ctx)
	if err != nil {
		return cause
	}
	for _, task := range tasks {
		i := slices.IndexFunc(known, func(t model.TaskType) bool { return t.Type == task.Type })
		switch {
		case i < 0:
			return fmt.Errorf("create tasks: %w: %q", model.ErrUnknownTaskType, task.Type)
		case known[i].DefaultInterval == nil && task.Policy != model.Oneshot:
			return fmt.Errorf("create tasks: task type %q has no default interval, which recurring tasks need: %w", task.Type, cause)
		}
	}
	return cause
}

// encodeNewTasks encodes tasks as the JSON list that FillTaskTable reads.
func encodeNewTasks(tasks []NewTask) (json.RawMessage, error) {
	type row struct {
		NewTask
		Arguments json.RawMessage `json:"arguments"`
	}
	rows := make([]row, len(tasks))
	for i, t := range tasks {
		arguments, err := EncodeArguments(t.Arguments)
		if err != nil {
			return nil, fmt.Errorf("create task %d (%s): %w", i+1, t.Type, err)
		}
		t.NextRun, t.Status, t.Policy = *stmt.InMicroseconds(&t.NextRun), cmp.Or(t.Status, model.TaskNotScheduled), cmp.Or(t.Policy, model.Recurring)
		rows[i] = row{t, arguments}
	}
	document, err := stmt.EncodeRows(rows)
	return document, stmt.Failed(err, "create tasks")
}

// EncodeArguments joins arguments to the object in the column task.arguments. It keeps their texts: an
// integer of 70 bits stays exact.
func EncodeArguments(a model.TaskArguments) (json.RawMessage, error) {
	args, err := textOf(a.Args, "[]", "positional arguments", "list")
	if err != nil {
		return nil, err
	}
	kwargs, err := textOf(a.Kwargs, "{}", "keyword arguments", "object")
	return fmt.Appendf(nil, `{"args":%s,"kwargs":%s}`, args, kwargs), err
}

// textOf checks that a JSON text is of the same kind as empty, the text for no value.
func textOf(text json.RawMessage, empty, what, kind string) (json.RawMessage, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return json.RawMessage(empty), nil
	}
	if text[0] != empty[0] || !json.Valid(text) {
		return nil, fmt.Errorf("%s are not a JSON %s", what, kind)
	}
	return text, nil
}

// Tasks returns the tasks with the numbers, by number; it omits missing ones.
func (a Queries) Tasks(ctx context.Context, ids []int64) ([]model.Task, error) {
	rows, err := a.q.TasksByID(ctx, ids)
	return tasksOf(rows, stmt.Failed(err, "read tasks"))
}

// TaskFilter is a search for tasks. An empty field is no condition.
type TaskFilter struct {
	IDs        []int64
	Types      []string
	Statuses   []model.TaskStatus
	Priorities []model.TaskPriority
	Policy     model.TaskPolicy
	Before     time.Time // next run at or before that time
	After      time.Time // next run at or after that time
	Limit      int       // 0: all
}

// SearchTasks finds tasks, by number.
func (a Queries) SearchTasks(ctx context.Context, f TaskFilter) ([]model.Task, error) {
	rows, err := a.q.SearchTasks(ctx, queries.SearchTasksParams{
		Ids: stmt.OrNull(f.IDs), Types: stmt.OrNull(f.Types), Statuses: stmt.TextsOf(f.Statuses), Priorities: stmt.TextsOf(f.Priorities),
		Policy: stmt.Nullable(string(f.Policy)), Before: stmt.NullableTime(f.Before), After: stmt.NullableTime(f.After), MaxTasks: stmt.Nullable(int64(f.Limit)),
	})
	return tasksOf(rows, stmt.Failed(err, "search tasks"))
}

// NextReady returns the time after at when the next task of a type, with or without priority, becomes
// ready; zero if no task waits.
func (a Queries) NextReady(ctx context.Context, taskType string, withPriority bool, at time.Time) (time.Time, error) {
	return stmt.FirstOrZero(a.q.NextReady(ctx, queries.NextReadyParams{Type: taskType, At: at, WithPriority: withPriority}))
}

// PeekReadyTasks returns the ready tasks of a type without priority, the longest-waiting first; at most
// limit, or all if limit is 0. It changes nothing.
func (a Queries) PeekReadyTasks(ctx context.Context, taskType string, now time.Time, limit int) ([]model.Task, error) {
	return a.readyTasks(ctx, taskType, now, limit, false)
}

// PeekReadyPriorityTasks is PeekReadyTasks for tasks with any priority.
func (a Queries) PeekReadyPriorityTasks(ctx context.Context, taskType string, now time.Time, limit int) ([]model.Task, error) {
	return a.readyTasks(ctx, taskType, now, limit, true)
}

func (a Queries) readyTasks(ctx context.Context, taskType string, now time.Time, limit int, withPriority bool) ([]model.Task, error) {
	rows, err := a.q.ReadyTasks(ctx, queries.ReadyTasksParams{
		Type: taskType, Now: now, WithPriority: withPriority, MaxTasks: stmt.Nullable(int64(limit)),
	})
	return tasksOf(rows, stmt.Failed(err, "read ready tasks of type %q", taskType))
}

// GrabReadyTasks marks the tasks that PeekReadyTasks returns as scheduled, and returns them to callers that
// send them. Concurrent grabs take different tasks.
func (a Queries) GrabReadyTasks(ctx context.Context, taskType string, now time.Time, limit int) ([]model.Task, error) {
	return a.grabTasks(ctx, taskType, now, limit, false)
}

// GrabReadyPriorityTasks is GrabReadyTasks for tasks with any priority.
func (a Queries) GrabReadyPriorityTasks(ctx context.Context, taskType string, now time.Time, limit int) ([]model.Task, error) {
	return a.grabTasks(ctx, taskType, now, limit, true)
}

func (a Queries) grabTasks(ctx context.Context, taskType string, now time.Time, limit int, withPriority bool) ([]model.Task, error) {
	rows, err := a.q.GrabReadyTasks(ctx, queries.GrabReadyTasksParams{
		Type: taskType, Now: now, WithPriority: withPriority, MaxTasks: stmt.Nullable(int64(limit)),
	})
	slices.SortFunc(rows, func(a, b queries.Task) int {
		return cmp.Or(a.NextRun.Compare(b.NextRun), cmp.Compare(a.ID, b.ID))
	})
	return tasksOf(rows, stmt.Failed(err, "grab ready tasks of type %q", taskType))
}

// StatusChange is a change of tasks' status by a person.
type StatusChange struct {
	IDs     []int64
	Status  model.TaskStatus
	NextRun time.Time // zero: unchanged
	OnlyDue bool      // skips tasks that are completed or not due at Now
	Now     time.Time
}

// SetTaskStatus changes the status of tasks; it ignores unknown numbers.
func (a Queries) SetTaskStatus(ctx context.Context, c StatusChange) error {
	if len(c.IDs) == 0 {
		return nil
	}
	err := a.q.SetTaskStatus(ctx, queries.SetTaskStatusParams{Ids: c.IDs, Status: c.Status, NextRun: stmt.NullableTime(c.NextRun), OnlyDue: c.OnlyDue, Now: c.Now})
	return stmt.Failed(err, "set the status of %d tasks to %s", len(c.IDs), c.Status)
}

func tasksOf(rows []queries.Task, err error) ([]model.Task, error) {
	if err != nil {
		return nil, err
	}
	tasks := make([]model.Task, len(rows))
	for i, row := range rows {
		arguments, err := DecodeArguments(row.Arguments)
		if err != nil {
			return nil, fmt.Errorf("task %d: %w", row.ID, err)
		}
		tasks[i] = model.Task{
			ID: row.ID, Type: row.Type, Arguments: arguments, NextRun: row.NextRun, CurrentInterval: postgres.DurationOf(row.CurrentInterval),
			Status: row.Status, Policy: row.Policy, RetriesLeft: row.RetriesLeft, Priority: stmt.OrZero(row.Priority),
		}
	}
	return tasks, nil
}

// DecodeArguments decodes the column task.arguments. A missing key is an empty list or object, as in the
// Python scheduler.
func DecodeArguments(column json.RawMessage) (model.TaskArguments, error) {
	a := model.TaskArguments{Args: json.RawMessage("[]"), Kwargs: json.RawMessage("{}")}
	err := json.Unmarshal(column, &a)
	return a, stmt.Failed(err, "its arguments are not an object with args and kwargs")
}

// SetTaskPriority sets the priority ("": none) of tasks and returns the number of changed tasks.
func (a Queries) SetTaskPriority(ctx context.Context, ids []int64, priority model.TaskPriority) (int64, error) {
	n, err := a.q.SetTaskPriority(ctx, queries.SetTaskPriorityParams{Ids: ids, Priority: stmt.Nullable(priority)})
	return n, stmt.Failed(err, "set the priority of %d tasks", len(ids))
}
