package task

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/tasks"
)

func newTaskRevoke(a *command.App) *cobra.Command {
	var workers command.WorkerFlags
	var revoke command.RevokeFlags
	disable := false
	cmd := &cobra.Command{
		Use:   "revoke [OPTIONS] TASK_IDS...",
		Short: "Stop tasks that were sent",
		Long: `Stop tasks that were sent, given by their ids (see task list). Workers drop the tasks'
messages that they receive from now on, or have received and not started. A worker
forgets that when it restarts. A dropped run counts as failed and is not retried: a
recurring task waits for its next regular run, unless --disable is given. The end of a run
that goes on enables its recurring task again, also with --disable.

` + command.AboutTerminate,
		Example: `  swh-scheduler task revoke 12
  swh-scheduler task revoke --terminate --disable 12 13`,
		Args: command.Args("TASK_IDS..."),
	}
	workers.Flags(cmd.Flags())
	revoke.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&disable, "disable", false, "disable the tasks first, so that recurring ones are not sent again")
	cmd.RunE = a.OnScheduler(func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) error {
		ids, err := numbers(args)
		if err != nil {
			return err
		}
		messages, err := messagesOf(ctx, b, ids)
		if err != nil {
			return err
		}
		if disable {
			found, err := b.SearchTasks(ctx, tasks.TaskFilter{IDs: ids})
			if err != nil {
				return err
			}
			if err := b.SetTaskStatus(ctx, tasks.StatusChange{IDs: ids, Status: model.TaskDisabled}); err != nil {
				return err
			}
			for _, t := range found {
				if t.Status == model.TaskScheduled && t.Policy == model.Recurring && !revoke.Terminate() {
					a.Log.Warn("if a worker has begun the run of this recurring task, the run goes on, and its end enables the task again; --terminate ends it", "task", t.ID)
				}
			}
		}
		switch {
		case len(messages) == 0 && disable:
			return errors.New("these tasks are disabled now; none has a run that is queued or running")
		case len(messages) == 0:
			return errors.New("none of these tasks has a run that is queued or running")
		}
		return revokeMessages(ctx, a, cmd, &workers, &revoke, messages)
	})
	return cmd
}

// messagesOf returns the Celery ids of the runs of tasks that are not known to have ended.
func messagesOf(ctx context.Context, b command.Scheduler, tasks []int64) (ids []string, err error) {
	for some := range slices.Chunk(tasks, 1000) {
		runs, err := b.TaskRuns(ctx, some, 0)
		if err != nil {
			return nil, err
		}
		for _, r := range runs {
			if (r.Status == model.RunScheduled || r.Status == model.RunStarted) && r.BackendID != nil {
				ids = append(ids, *r.BackendID)
			}
		}
	}
	return ids, nil
}

func revokeMessages(ctx context.Context, a *command.App, cmd *cobra.Command, workers *command.WorkerFlags, revoke *command.RevokeFlags, ids []string) error {
	control, to, err := workers.Control(a, cmd)
	if err != nil {
		return err
	}
	return revoke.Revoke(ctx, a, control, to, ids)
}
