package task

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/tasks"
)

func newTaskList(a *command.App) *cobra.Command {
	var o listOptions
	var listRuns, listMetadata bool
	output := "text"
	cmd := &cobra.Command{
		Use:   "list [OPTIONS]",
		Short: "List tasks",
	}
	flags := cmd.Flags()
	flags.VarP(command.Integers(&o.ids), "task-id", "i", "list only the task with this `ID`; may be repeated")
	flags.StringArrayVarP(&o.types, "task-type", "t", nil, "list only tasks of this `TYPE`; may be repeated")
	flags.IntVarP(&o.limit, "limit", "l", 0, "most tasks to list (default all)")
	flags.VarP(command.Choices(&o.statuses, "next_run_not_scheduled", "next_run_scheduled", "completed", "disabled"), "status", "s", "list tasks whose status is `STATUS`; may be repeated")
	flags.VarP(command.Choice(&o.policy, "recurring", "oneshot"), "policy", "p", "list tasks whose policy is recurring or oneshot")
	flags.VarP(command.Choices(&o.priorities, "all", "low", "normal", "high"), "priority", "P", "list tasks whose priority is `PRIORITY`; may be repeated")
	flags.VarP(&o.before, "before", "b", "list tasks that are to run before this `DATE`")
	flags.VarP(&o.after, "after", "a", "list tasks that are to run after this `DATE`")
	flags.BoolVarP(&listRuns, "list-runs", "r", false, "also list past executions of each task")
	flags.BoolVarP(&listMetadata, "list-runs-metadata", "m", false, "also list past executions of each task, with metadata")
	command.OutputFlag(flags, &output)

	cmd.RunE = a.OnScheduler(func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, _ []string) error {
		if o.limit < 0 {
			return fmt.Errorf("--limit: %d is negative", o.limit)
		}
		tasks, err := b.SearchTasks(ctx, o.filter())
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			if err := a.WarnOfTypes(ctx, b, o.types...); err != nil {
				return err
			}
		}
		list, err := readTasks(ctx, b, tasks)
		if err != nil {
			return err
		}
		if output == "json" {
			return a.PrintJSON(list.objects(listRuns || listMetadata))
		}
		text, err := list.text(a, listRuns || listMetadata)
		if err != nil {
			return err
		}
		return a.Print(text)
	})
	return cmd
}

// listOptions are the options of task list that select tasks.
type listOptions struct {
	ids                         []int64
	types, statuses, priorities []string
	policy                      string
	limit                       int
	before, after               command.Date
}

// filter returns the options as a filter. Dates without a zone are in zone.
func (o *listOptions) filter() tasks.TaskFilter {
	f := tasks.TaskFilter{IDs: o.ids, Types: o.types, Policy: model.TaskPolicy(o.policy), Limit: o.limit,
		Before: o.before.Or(time.Time{}), After: o.after.Or(time.Time{})}
	for _, status := range o.statuses {
		f.Statuses = append(f.Statuses, model.TaskStatus(status))
	}
	if !slices.Contains(o.priorities, "all") { // all is with or without priority, as in the Python scheduler
		for _, priority := range o.priorities {
			f.Priorities = append(f.Priorities, model.TaskPriority(priority))
		}
	}
	return f
}

// taskList holds tasks with their runs and, unlike the Python scheduler's, the messages that the broker
// refused.
type taskList struct {
	tasks    []model.Task
	runs     map[int64][]model.TaskRun // by task
	backoffs map[int64]ledger.Backoff  // by run
}

func readTasks(ctx context.Context, b command.Scheduler, tasks []model.Task) (taskList, error) {
	ids := make([]int64, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	runs, err := b.TaskRuns(ctx, ids, 0)
	if err != nil {
		return taskList{}, err
	}
	slices.SortFunc(runs, func(x, y model.TaskRun) int { return int(x.ID - y.ID) })
	list := taskList{tasks: tasks, runs: map[int64][]model.TaskRun{}}
	for _, r := range runs {
		list.runs[r.Task] = append(list.runs[r.Task], r)
	}
	list.backoffs, err = backoffs(ctx, b, runs)
	return list, err
}

// text formats the tasks as the Python scheduler does, and their runs if withRuns.
func (l taskList) text(a *command.App, withRuns bool) (string, error) {
	now := time.Now()
	lines := []string{fmt.Sprintf("Found %d tasks\n", len(l.tasks))}
	for _, t := range l.tasks {
		text, err := formatTask(a, t, now, fmt.Sprintf("%s%s\n%s%s\n", a.Bold("  Status: "), t.Status, a.Bold("  Priority: "), t.Priority))
		if err != nil {
			return "", err
		}
		lines = append(lines, text)
		for _, r := range l.runs[t.ID] {
			if p, ok := l.backoffs[r.ID]; ok {
				lines = append(lines, fmt.Sprintf("%s%s (tried %s, again at %s)",
					a.Bold("  Not sent: "), a.Line(p.Reason), model.Count(p.Attempts, "time", "times"), pytext.ISOFormat(p.NextTry.UTC())))
			}
		}
		if withRuns && len(l.runs[t.ID]) > 0 {
			lines = append(lines, a.Bold("  Executions:"))
			for _, r := range l.runs[t.ID] {
				lines = append(lines, formatRun(a, r)...)
			}
		}
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// objects returns the tasks for JSON, with their runs if withRuns.
func (l taskList) objects(withRuns bool) []taskObject {
	objects := taskObjects(l.tasks)
	for i, t := range l.tasks {
		for _, r := range l.runs[t.ID] {
			if p, ok := l.backoffs[r.ID]; ok {
				objects[i].NotSent = append(objects[i].NotSent, notSentObject(p))
			}
			if withRuns {
				objects[i].Runs = append(objects[i].Runs, runObject{r.BackendID, r.Status, r.Scheduled, r.Started, r.Ended, r.Metadata})
			}
		}
	}
	return objects
}

// backoffs finds refused messages, if the database has our own tables.
func backoffs(ctx context.Context, b command.Scheduler, runs []model.TaskRun) (map[int64]ledger.Backoff, error) {
	store, ok := b.(command.Database)
	if !ok || len(runs) == 0 || store.CheckVersion(ctx) != nil {
		return nil, nil
	}
	return store.Backoffs(ctx, runs)
}

func newTaskListPending(a *command.App) *cobra.Command {
	var before command.Date
	limit, output := 0, "text"
	cmd := &cobra.Command{
		Use:   "list-pending [OPTIONS] TASK_TYPES...",
		Short: "List tasks with no priority that are going to be run",
		Args:  command.Args("TASK_TYPES..."),
	}
	flags := cmd.Flags()
	flags.IntVarP(&limit, "limit", "l", 0, "most tasks to list of each type (default all)")
	flags.VarP(&before, "before", "b", "list the tasks that are to run before this `DATE` (default now)")
	command.PythonName(flags, "limit", "num_tasks")
	command.OutputFlag(flags, &output)

	cmd.RunE = a.OnScheduler(func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) error {
		limited := cmd.Flags().Changed("limit")
		if limit < 0 {
			return fmt.Errorf("--limit: %d is negative", limit)
		}
		now := time.Now()
		at := before.Or(now)
		var parts []string
		objects := []taskObject{}
		for _, taskType := range args {
			var pending []model.Task
			var err error
			if !limited || limit > 0 { // to the store, 0 means all
				if pending, err = b.PeekReadyTasks(ctx, taskType, at, limit); err != nil {
					return err
				}
			}
			if len(pending) == 0 {
				if err := a.WarnOfTypes(ctx, b, taskType); err != nil {
					return err
				}
			}
			objects = append(objects, taskObjects(pending)...)
			parts = append(parts, fmt.Sprintf("Found %d %s tasks\n", len(pending), taskType))
			for _, task := range pending {
				text, err := formatTask(a, task, now, "")
				if err != nil {
					return err
				}
				parts = append(parts, text)
			}
		}
		return a.Show(output, objects, strings.Join(parts, "\n")+"\n")
	})
	return cmd
}
