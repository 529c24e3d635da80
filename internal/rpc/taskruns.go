package rpc

import (
	"swh-scheduler/internal/scheduler"
)

func scheduleTaskRun(c *call) error {
	task, backendID := c.args.integer("task_id", 0), c.args.text("backend_id")
	metadata, at := c.args.object("metadata"), c.time("timestamp")
	if c.args.err != nil {
		return c.args.err
	}
	run, err := c.store.ScheduleTaskRun(c, task, backendID, metadata, at)
	if err == nil {
		writeTaskRun(c.out, run)
	}
	return err
}

func massScheduleTaskRuns(c *call) error {
	runs := models[scheduler.TaskRun](c.args, "task_runs")
	if c.args.err != nil {
		return c.args.err
	}
	c.out.null()
	return c.store.ScheduleTaskRuns(c, runs)
}

func startTaskRun(c *call) error {
	backendID, metadata, at := c.args.text("backend_id"), c.args.object("metadata"), c.time("timestamp")
	if c.args.err != nil {
		return c.args.err
	}
	return c.run(c.store.StartTaskRun(c, backendID, metadata, at))
}

func endTaskRun(c *call) error {
	backendID, metadata, at := c.args.text("backend_id"), c.args.object("metadata"), c.time("timestamp")
	status := scheduler.RunStatus(c.args.text("status"))
	if c.args.err != nil {
		return c.args.err
	}
	return c.run(c.store.EndTaskRun(c, backendID, status, metadata, at))
}

// run answers with a run, or None.
func (c *call) run(run *scheduler.TaskRun, err error) error {
	optional(c.out, run, func(r scheduler.TaskRun) { writeTaskRun(c.out, r) })
	return err
}

func getTaskRuns(c *call) error {
	limit, _ := c.args.limit("limit")
	var tasks []int64
	if ids, _ := c.args.get("task_ids"); truth(ids) {
		tasks = c.args.integers("task_ids")
	}
	if c.args.err != nil {
		return c.args.err
	}
	if len(tasks) == 0 {
		list(c.out, nil, writeTaskRun)
		return nil
	}
	runs, err := c.store.TaskRuns(c, tasks, limit)
	list(c.out, runs, writeTaskRun)
	return err
}
