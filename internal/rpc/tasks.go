package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

func createTaskType(c *call) error {
	taskType := model[scheduler.TaskType](c.args, "task_type")
	if c.args.err != nil {
		return c.args.err
	}
	c.out.null()
	return c.store.CreateTaskType(c, taskType)
}

func getTaskType(c *call) error {
	name := c.args.text("task_type_name")
	if c.args.err != nil {
		return c.args.err
	}
	taskType, err := c.store.TaskType(c, name)
	if errors.Is(err, scheduler.ErrUnknownTaskType) {
		c.out.null()
		return nil
	}
	if err == nil {
		writeTaskType(c.out, taskType)
	}
	return err
}

func getTaskTypes(c *call) error {
	types, err := c.store.TaskTypes(c)
	list(c.out, types, writeTaskType)
	return err
}

// createTasks takes no notice of policy, as the peer: every Task has one.
func createTasks(c *call) error {
	given := models[task](c.args, "tasks")
	if c.args.err != nil {
		return c.args.err
	}
	tasks := make([]sql.NewTask, len(given))
	for i := range given {
		tasks[i] = given[i].NewTask
	}
	return c.tasks(c.store.CreateTasks(c, tasks))
}

// tasks answers with tasks.
func (c *call) tasks(tasks []scheduler.Task, err error) error {
	list(c.out, tasks, writeTask)
	return err
}

func setStatusTasks(c *call) error {
	change := sql.StatusChange{Status: scheduler.TaskDisabled, Now: c.now}
	if ids, _ := c.args.get("task_ids"); truth(ids) {
		change.IDs = c.args.integers("task_ids")
	}
	if _, given := c.args.get("status"); given {
		change.Status = scheduler.TaskStatus(c.args.text("status"))
	}
	if next, _ := c.args.get("next_run"); truth(next) {
		change.NextRun = c.args.time("next_run")
	}
	change.OnlyDue = c.args.truth("except_completed_tasks", false)
	if c.args.err != nil {
		return c.args.err
	}
	c.out.null()
	return c.store.SetTaskStatus(c, change)
}

func disableTasks(c *call) error { return setStatusTasks(c) }

func searchTasks(c *call) error {
	f := sql.TaskFilter{
		Types: c.args.texts("task_type"), Statuses: textsAs[scheduler.TaskStatus](c.args.texts("status")),
		Priorities: textsAs[scheduler.TaskPriority](c.args.texts("priority")),
		Before:     c.args.time("before"), After: c.args.time("after"),
	}
	if ids, _ := c.args.get("task_id"); truth(ids) {
		if _, several := ids.([]any); several {
			f.IDs = c.args.integers("task_id")
		} else {
			f.IDs = []int64{c.args.integer("task_id", 0)}
		}
	}
	if policy, _ := c.args.get("policy"); truth(policy) {
		f.Policy = scheduler.TaskPolicy(c.args.text("policy"))
	}
	f.Limit, _ = c.args.limit("limit")
	if c.args.err != nil {
		return c.args.err
	}
	return c.tasks(c.store.SearchTasks(c, f))
}

func textsAs[T ~string](texts []string) []T {
	values := make([]T, len(texts))
	for i, text := range texts {
		values[i] = T(text)
	}
	return values
}

func getTasks(c *call) error {
	ids := c.args.integers("task_ids")
	if c.args.err != nil {
		return c.args.err
	}
	return c.tasks(c.store.Tasks(c, ids))
}

func peekReadyTasks(c *call) error         { return c.readyTasks(c.store.PeekReadyTasks) }
func grabReadyTasks(c *call) error         { return c.readyTasks(c.store.GrabReadyTasks) }
func peekReadyPriorityTasks(c *call) error { return c.readyTasks(c.store.PeekReadyPriorityTasks) }
func grabReadyPriorityTasks(c *call) error { return c.readyTasks(c.store.GrabReadyPriorityTasks) }

func (c *call) readyTasks(read func(context.Context, string, time.Time, int) ([]scheduler.Task, error)) error {
	taskType, at := c.args.text("task_type"), c.time("timestamp")
	limit, all := c.args.limit("num_tasks")
	if c.args.err != nil {
		return c.args.err
	}
	if limit == 0 && !all {
		return c.tasks(nil, nil)
	}
	return c.tasks(read(c, taskType, at, limit))
}

func filterTaskToArchive(c *call) error {
	const defaultLimit = 10
	f := sql.ArchiveFilter{After: c.timeText("after_ts"), Before: c.timeText("before_ts"), FromTask: -1, Limit: defaultLimit}
	if _, given := c.args.get("limit"); given {
		f.Limit = c.args.integer("limit", 0)
	}
	switch token, _ := c.args.get("page_token"); v := token.(type) {
	case nil:
	case string:
		f.FromTask = c.args.integerOf("page_token", v)
	default:
		c.args.fail(assertionError(""))
	}
	if c.args.err != nil {
		return c.args.err
	}
	// One more tells whether there is a next page, and where it starts.
	wanted := f.Limit
	f.Limit++
	runs, err := c.store.RunsToArchive(c, f)
	if err != nil {
		return err
	}
	if int64(len(runs)) <= wanted {
		c.out.openDict(1)
		c.out.key("tasks")
		list(c.out, runs, writeArchivedRun)
		c.out.closeDict()
		return nil
	}
	c.out.openDict(2)
	c.out.key("tasks")
	list(c.out, runs[:wanted], writeArchivedRun)
	textField(c.out, "next_page_token", fmt.Sprint(runs[wanted].Task))
	c.out.closeDict()
	return nil
}

// timeText is an argument that is a timestamp as text; datetimes do too.
func (c *call) timeText(name string) string {
	if value, _ := c.args.get(name); typeName(value) == "datetime" {
		return c.args.time(name).Format(time.RFC3339Nano)
	}
	return c.args.text(name)
}

// writeArchivedRun writes a run as a plain dict. Its positional arguments are a
// dict by position, its keyword arguments a JSON text, as search indexes of the
// peer's archive want them.
func writeArchivedRun(e encoder, r sql.ArchivedRun) {
	e.openDict(12)
	integerField(e, "task_id", r.Task)
	textField(e, "task_policy", string(r.TaskPolicy))
	textField(e, "task_status", string(r.TaskStatus))
	integerField(e, "task_run_id", r.ID)
	e.key("arguments")
	e.openDict(2)
	e.key("args")
	args := elementsOf(r.Arguments.Args)
	e.openDict(len(args))
	for i, arg := range args {
		e.intKey(i)
		e.json(arg)
	}
	e.closeDict()
	textField(e, "kwargs", string(r.Arguments.Kwargs))
	e.closeDict()
	textField(e, "type", r.TaskType)
	optionalTextField(e, "backend_id", r.BackendID)
	e.key("metadata")
	if r.Metadata == nil {
		e.null()
	} else {
		e.json(r.Metadata)
	}
	optionalTimeField(e, "scheduled", r.Scheduled)
	optionalTimeField(e, "started", r.Started)
	optionalTimeField(e, "ended", r.Ended)
	textField(e, "task_run_status", string(r.Status))
	e.closeDict()
}

// deleteArchivedTasks keeps runs and tasks apart, where the peer by mistake
// deletes any run whose number is that of one of the tasks.
func deleteArchivedTasks(c *call) error {
	elements := c.args.list("task_ids")
	tasks, runs := make([]int64, len(elements)), make([]int64, len(elements))
	for i, element := range elements {
		d, ok := element.(dict)
		if !ok {
			c.args.fail(typeError("'%s' object is not subscriptable", typeName(element)))
			break
		}
		for key, ids := range map[string][]int64{"task_id": tasks, "task_run_id": runs} {
			id, given := d.get(key)
			if !given {
				c.args.fail(newException("KeyError", "%s", key))
				break
			}
			ids[i] = c.args.integerOf(key, id)
		}
	}
	if c.args.err != nil {
		return c.args.err
	}
	c.out.null()
	return c.store.DeleteArchived(c, tasks, runs)
}
