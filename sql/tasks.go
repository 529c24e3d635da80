package sql

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// NewTask is a task to create.
type NewTask struct {
	Type        string
	Arguments   scheduler.TaskArguments // nil: none
	NextRun     time.Time
	Status      scheduler.TaskStatus // "" is next_run_not_scheduled
	Policy      scheduler.TaskPolicy // "" is recurring
	RetriesLeft *int64               // nil: as many as its type says
	Priority    scheduler.TaskPriority
}

// CreateTasks creates tasks, all or none, and returns them as they are in the
// database. Like the peer, it passes over a recurring task if one with the same
// type, arguments, priority and status is there already, and a one-shot task if
// one is for the same time too; of these, it returns those for the same time.
// Their interval is the default of their type. scheduler.ErrUnknownTaskType if a
// type is not there.
func (s *Store) CreateTasks(ctx context.Context, tasks []NewTask) (created []scheduler.Task, err error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	err = s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		created, err = tx.CreateTasks(ctx, tasks)
		return err
	})
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && strings.HasPrefix(pgErr.Code, integrityViolation) {
		err = s.explainViolation(ctx, tasks, err)
	}
	return created, err
}

// CreateTasks is Store.CreateTasks as a part of a transaction, which may call it
// once. A type that is not there is a broken constraint to it.
func (tx *Tx) CreateTasks(ctx context.Context, tasks []NewTask) ([]scheduler.Task, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	document, err := encodeNewTasks(tasks)
	if err != nil {
		return nil, err
	}
	rows, err := tx.createTasks(ctx, document)
	if err != nil {
		return nil, fmt.Errorf("create tasks: %w", err)
	}
	return tasksOf(rows)
}

func (tx *Tx) createTasks(ctx context.Context, document json.RawMessage) ([]queries.Task, error) {
	if err := tx.q.MakeTaskTable(ctx); err != nil {
		return nil, err
	}
	if err := tx.q.FillTaskTable(ctx, document); err != nil {
		return nil, err
	}
	return tx.q.CreateTasksFromTable(ctx)
}

// integrityViolation is the class of SQLSTATEs of broken constraints.
const integrityViolation = "23"

// explainViolation says what is wrong with tasks that the database refused: an
// unknown type breaks whichever rule comes first.
func (s *Store) explainViolation(ctx context.Context, tasks []NewTask, cause error) error {
	known, err := s.TaskTypes(ctx)
	if err != nil {
		return cause
	}
	for _, task := range tasks {
		i := slices.IndexFunc(known, func(t scheduler.TaskType) bool { return t.Type == task.Type })
		switch {
		case i < 0:
			return fmt.Errorf("create tasks: %w: %q", scheduler.ErrUnknownTaskType, task.Type)
		case known[i].DefaultInterval == nil && task.Policy != scheduler.Oneshot:
			return fmt.Errorf("create tasks: task type %q has no default interval, which recurring tasks need: %w", task.Type, cause)
		}
	}
	return cause
}

// encodeNewTasks writes tasks as the JSON list that FillTaskTable reads.
func encodeNewTasks(tasks []NewTask) (json.RawMessage, error) {
	type row struct {
		Type        string                 `json:"type"`
		Arguments   json.RawMessage        `json:"arguments"`
		NextRun     time.Time              `json:"next_run"`
		Status      scheduler.TaskStatus   `json:"status"`
		Policy      scheduler.TaskPolicy   `json:"policy"`
		RetriesLeft *int64                 `json:"retries_left"`
		Priority    scheduler.TaskPriority `json:"priority,omitempty"`
	}
	rows := make([]row, len(tasks))
	for i, t := range tasks {
		arguments, err := encodeArguments(t.Arguments)
		if err != nil {
			return nil, fmt.Errorf("create task %d (%s): %w", i+1, t.Type, err)
		}
		rows[i] = row{t.Type, arguments, t.NextRun.UTC().Truncate(time.Microsecond), t.Status, t.Policy, t.RetriesLeft, t.Priority}
		if t.Status == "" {
			rows[i].Status = scheduler.TaskNotScheduled
		}
		if t.Policy == "" {
			rows[i].Policy = scheduler.Recurring
		}
	}
	var document bytes.Buffer
	encoder := json.NewEncoder(&document)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(rows); err != nil {
		return nil, fmt.Errorf("create tasks: %w", err)
	}
	return document.Bytes(), nil
}

// encodeArguments joins arguments to the object in the column task.arguments.
// Their texts are kept: a number of 70 bits stays one.
func encodeArguments(a scheduler.TaskArguments) (json.RawMessage, error) {
	args, err := textOf(a.Args, "[]", "positional arguments", "list")
	if err != nil {
		return nil, err
	}
	kwargs, err := textOf(a.Kwargs, "{}", "keyword arguments", "object")
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"args":%s,"kwargs":%s}`, args, kwargs), nil
}

// textOf checks that a JSON text is of the same kind as empty, which stands in
// for none.
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

// Tasks are the tasks of these numbers that there are, by number.
func (a asker) Tasks(ctx context.Context, ids []int64) ([]scheduler.Task, error) {
	rows, err := a.q.TasksByID(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read tasks: %w", err)
	}
	return tasksOf(rows)
}

// TaskFilter says which tasks to search; an empty field does not matter.
type TaskFilter struct {
	IDs        []int64
	Types      []string
	Statuses   []scheduler.TaskStatus
	Priorities []scheduler.TaskPriority
	Policy     scheduler.TaskPolicy
	Before     time.Time // next run then or before
	After      time.Time // next run then or after
	Limit      int       // how many at most; 0: all
}

// SearchTasks finds tasks, by number.
func (a asker) SearchTasks(ctx context.Context, f TaskFilter) ([]scheduler.Task, error) {
	rows, err := a.q.SearchTasks(ctx, queries.SearchTasksParams{
		Ids:        orNull(f.IDs),
		Types:      orNull(f.Types),
		Statuses:   textsOf(f.Statuses),
		Priorities: textsOf(f.Priorities),
		Policy:     nullable(string(f.Policy)),
		Before:     nullableTime(f.Before),
		After:      nullableTime(f.After),
		MaxTasks:   nullable(int64(f.Limit)),
	})
	if err != nil {
		return nil, fmt.Errorf("search tasks: %w", err)
	}
	return tasksOf(rows)
}

// NextReady is when another task of a type will be ready, of those without priority
// that are not at a moment; zero: none is waiting.
func (a asker) NextReady(ctx context.Context, taskType string, at time.Time) (time.Time, error) {
	next, err := a.q.NextReady(ctx, queries.NextReadyParams{Type: taskType, At: at})
	if err != nil || len(next) == 0 {
		return time.Time{}, err
	}
	return next[0], nil
}

// PeekReadyTasks are the tasks of a type, without priority, that are to run at
// now, those waiting longest first; at most limit of them, or all if it is 0.
// Nothing is changed.
func (a asker) PeekReadyTasks(ctx context.Context, taskType string, now time.Time, limit int) ([]scheduler.Task, error) {
	return a.readyTasks(ctx, taskType, now, limit, false)
}

// PeekReadyPriorityTasks is PeekReadyTasks for tasks with any priority.
func (a asker) PeekReadyPriorityTasks(ctx context.Context, taskType string, now time.Time, limit int) ([]scheduler.Task, error) {
	return a.readyTasks(ctx, taskType, now, limit, true)
}

func (a asker) readyTasks(ctx context.Context, taskType string, now time.Time, limit int, withPriority bool) ([]scheduler.Task, error) {
	rows, err := a.q.ReadyTasks(ctx, queries.ReadyTasksParams{
		Type: taskType, Now: now, WithPriority: withPriority, MaxTasks: nullable(int64(limit)),
	})
	if err != nil {
		return nil, fmt.Errorf("read ready tasks of type %q: %w", taskType, err)
	}
	return tasksOf(rows)
}

// StatusChange moves tasks by hand.
type StatusChange struct {
	IDs     []int64
	Status  scheduler.TaskStatus
	NextRun time.Time // zero: as it is
	// OnlyDue leaves out tasks that are completed or not yet due at Now.
	OnlyDue bool
	Now     time.Time
}

// SetTaskStatus moves tasks by hand; numbers that are no task's do not matter.
func (a asker) SetTaskStatus(ctx context.Context, c StatusChange) error {
	if len(c.IDs) == 0 {
		return nil
	}
	var err error
	if c.OnlyDue {
		err = a.q.SetDueTaskStatus(ctx, queries.SetDueTaskStatusParams{
			Ids: c.IDs, Status: c.Status, NextRun: nullableTime(c.NextRun), Now: c.Now,
		})
	} else {
		err = a.q.SetTaskStatus(ctx, queries.SetTaskStatusParams{
			Ids: c.IDs, Status: c.Status, NextRun: nullableTime(c.NextRun),
		})
	}
	if err != nil {
		return fmt.Errorf("set the status of %d tasks to %s: %w", len(c.IDs), c.Status, err)
	}
	return nil
}

func tasksOf(rows []queries.Task) ([]scheduler.Task, error) {
	tasks := make([]scheduler.Task, len(rows))
	for i, row := range rows {
		arguments, err := decodeArguments(row.Arguments)
		if err != nil {
			return nil, fmt.Errorf("task %d: %w", row.ID, err)
		}
		tasks[i] = scheduler.Task{
			ID:              row.ID,
			Type:            row.Type,
			Arguments:       arguments,
			NextRun:         row.NextRun,
			CurrentInterval: durationOf(row.CurrentInterval),
			Status:          row.Status,
			Policy:          row.Policy,
			RetriesLeft:     row.RetriesLeft,
		}
		if row.Priority != nil {
			tasks[i].Priority = *row.Priority
		}
	}
	return tasks, nil
}

// decodeArguments reads the column task.arguments; a missing key is an empty
// list or object, as for the peer.
func decodeArguments(column json.RawMessage) (scheduler.TaskArguments, error) {
	a := scheduler.TaskArguments{Args: json.RawMessage("[]"), Kwargs: json.RawMessage("{}")}
	if err := json.Unmarshal(column, &a); err != nil {
		return a, fmt.Errorf("its arguments are not an object with args and kwargs: %w", err)
	}
	return a, nil
}
