// Package task has the commands of task.
package task

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/taskinput"
	"swh-scheduler/sql/tasks"
)

func New(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "task [OPTIONS] COMMAND [ARGS]...",
		Short: "Manipulate tasks",
	}
	cmd.AddCommand(newTaskAdd(a), newTaskList(a), newTaskListPending(a), newTaskSchedule(a), newTaskScheduleOrigins(a), newTaskRespawn(a), newTaskDisable(a), newTaskRevoke(a),
		newTaskArchive(a), newTaskGraph(a))
	return cmd
}

func newTaskAdd(a *command.App) *cobra.Command {
	policy, priority, nextRun, output := "recurring", "", command.Date{}, "text"
	cmd := &cobra.Command{
		Use:   "add [OPTIONS] TASK_TYPE_NAME [OPTIONS]...",
		Short: "Schedule one task from arguments",
		Long: `Schedule one task from arguments.

The first argument is the name of the task type. The others are the task's
positional and keyword arguments, in YAML; keyword arguments have the form
key=value. Tasks with a priority are sent by start-runner --with-priority.`,
		Example: `  swh-scheduler task add list-pypi
  swh-scheduler task add list-debian-distribution --policy=oneshot distribution=stretch`,
		Args: command.Args("TASK_TYPE_NAME", "[OPTIONS]..."),
	}
	flags := cmd.Flags()
	flags.VarP(command.Choice(&policy, "recurring", "oneshot"), "policy", "p", "how often it runs")
	flags.VarP(command.Choice(&priority, "low", "normal", "high"), "priority", "P", "its priority (default none)")
	flags.VarP(&nextRun, "next-run", "n", "`DATE` of its first run (default now)")
	command.OutputFlag(flags, &output)

	cmd.RunE = a.OnScheduler(func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) error {
		if err := command.CheckTaskName(ctx, cmd, b, args[0]); err != nil {
			return err
		}
		arguments, err := taskinput.ParseArguments(args[1:])
		if err != nil {
			return err
		}
		created, err := b.CreateTasks(ctx, []tasks.NewTask{{
			Type: args[0], Arguments: arguments, NextRun: nextRun.Or(time.Now()),
			Policy: model.TaskPolicy(policy), Priority: model.TaskPriority(priority),
		}})
		if err != nil {
			return err
		}
		return PrintCreated(ctx, a, b, created, output)
	})
	return cmd
}

func newTaskRespawn(a *command.App) *cobra.Command {
	nextRun := command.Date{}
	cmd := &cobra.Command{
		Use:   "respawn [OPTIONS] TASK_IDS...",
		Short: "Respawn tasks",
		Long: `Respawn tasks, given by their ids (see task list). Each runs at the given date,
whatever its state.`,
		Example: `  swh-scheduler task respawn 1 3 12`,
		Args:    command.Args("TASK_IDS..."),
	}
	cmd.Flags().VarP(&nextRun, "next-run", "n", "`DATE` of their next run (default now)")

	cmd.RunE = a.OnScheduler(func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) error {
		ids, err := numbers(args)
		if err != nil {
			return err
		}
		texts := make([]string, len(ids))
		for i, id := range ids {
			texts[i] = strconv.FormatInt(id, 10)
		}
		if err := b.SetTaskStatus(ctx, tasks.StatusChange{IDs: ids, Status: model.TaskNotScheduled, NextRun: nextRun.Or(time.Now())}); err != nil {
			return err
		}
		return a.Print(fmt.Sprintf("Respawn tasks [%s]\n\n", strings.Join(texts, ", ")))
	})
	return cmd
}

func newTaskDisable(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "disable [OPTIONS] TASK_IDS...",
		Short: "Disable tasks",
		Long: `Disable tasks, given by their ids (see task list): start-runner does not send a disabled
task; task respawn enables it again. A run that was sent goes on. When it ends, a recurring task is
enabled again: disable it then once more, or have the workers end the run by task revoke --disable
--terminate.`,
		Example: `  swh-scheduler task disable 1 3 12`,
		Args:    command.Args("TASK_IDS..."),
	}
	cmd.RunE = a.OnScheduler(func(ctx context.Context, _ *cobra.Command, b command.Scheduler, args []string) error {
		ids, err := numbers(args)
		if err != nil {
			return err
		}
		found, err := b.SearchTasks(ctx, tasks.TaskFilter{IDs: ids})
		if err != nil {
			return err
		}
		for _, id := range ids {
			if !slices.ContainsFunc(found, func(t model.Task) bool { return t.ID == id }) {
				return fmt.Errorf("there is no task %d; no task was disabled", id)
			}
		}
		if err := b.SetTaskStatus(ctx, tasks.StatusChange{IDs: ids, Status: model.TaskDisabled}); err != nil {
			return err
		}
		for _, t := range found {
			if t.Status == model.TaskScheduled && t.Policy == model.Recurring {
				a.Log.Warn("a run of this recurring task was sent; the task is enabled again when the run ends", "task", t.ID)
			}
		}
		return a.Print(fmt.Sprintf("Disabled %s\n", model.Count(len(found), "task", "tasks")))
	})
	return cmd
}

// numbers reads the ids of tasks.
func numbers(args []string) ([]int64, error) {
	ids := make([]int64, len(args))
	for i, arg := range args {
		var err error
		if ids[i], err = command.Integer(arg); err != nil {
			return nil, fmt.Errorf("TASK_IDS: %q is not the id of a task, which is a number", arg)
		}
	}
	return ids, nil
}

func newTaskSchedule(a *command.App) *cobra.Command {
	var columns []string
	delimiter, output := ",", "text"
	known := []string{"type", "args", "kwargs", "policy", "next_run"}
	cmd := &cobra.Command{
		Use:   "schedule [OPTIONS] FILE",
		Short: "Schedule tasks from a CSV input file",
		Long: `Schedule tasks from a CSV input file, or from standard input if FILE is -.

Its columns, without a header, are type, args, kwargs and next_run, or those named
by --columns:

  type      the task's type, or the name of its Celery task
  args      its arguments, a JSON list (default none)
  kwargs    its keyword arguments, a JSON object (default none)
  policy    recurring or oneshot (default recurring)
  next_run  the date of its first run in ISO 8601, in UTC if it names no zone
            (default now)

Either all tasks of the file are created or none. Errors name the line.`,
		Example: `  swh-scheduler task schedule --columns type --columns kwargs --columns policy --delimiter ';' tasks.csv`,
		Args:    command.Args("FILE"),
	}
	flags := cmd.Flags()
	flags.VarP(command.Choices(&columns, known...), "columns", "c", "a `COLUMN` of the file; repeat it for each, in their order")
	flags.StringVarP(&delimiter, "delimiter", "d", delimiter, "character that separates columns")
	command.OutputFlag(flags, &output)

	cmd.RunE = a.Configured(func(cmd *cobra.Command, args []string) error {
		if len(columns) == 0 {
			columns = []string{"type", "args", "kwargs", "next_run"}
		}
		records, err := readRecords(cmd, args[0], delimiter)
		if err != nil {
			return err
		}
		return a.WithScheduler(cmd, func(ctx context.Context, b command.Scheduler) error {
			types, err := b.TaskTypes(ctx)
			if err != nil {
				return err
			}
			tasks, err := taskinput.ReadTasks(records, columns, types, time.Now())
			if err != nil {
				return command.InFile(args[0], err)
			}
			created, err := b.CreateTasks(ctx, tasks)
			if err != nil {
				return err
			}
			return PrintCreated(ctx, a, b, created, output)
		})
	})
	return cmd
}

// readRecords reads the CSV file of a command.
func readRecords(cmd *cobra.Command, file, delimiter string) ([]pytext.CSVRecord, error) {
	comma, size := utf8.DecodeRuneInString(delimiter)
	if size != len(delimiter) || strings.ContainsAny(delimiter, "\r\n\"") || delimiter == "" {
		return nil, fmt.Errorf("--delimiter: %q is not one character that can separate columns", delimiter)
	}
	text, err := command.ReadInput(cmd, "FILE", file)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("%s: is not UTF-8", file)
	}
	return pytext.ReadCSV(string(text), comma), nil
}
