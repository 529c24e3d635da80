// Package monitor has the commands of celery-monitor.
package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/celery"
	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
)

func New(a *command.App) *cobra.Command {
	var workers command.WorkerFlags
	cmd := &cobra.Command{
		Use:   "celery-monitor [OPTIONS] COMMAND [ARGS]...",
		Short: "Monitoring of Celery",
	}
	workers.Flags(cmd.Flags())

	// ask makes the function of a subcommand that asks workers.
	ask := func(question question) func(*cobra.Command, []string) error {
		return a.Configured(func(cmd *cobra.Command, args []string) error {
			control, to, err := workers.Control(a, cmd.Parent())
			if err != nil {
				return err
			}
			return question(cmd.Context(), control, to, args)
		})
	}
	queue := func(q celery.QueueInfo) (string, error) { return q.Name, nil }
	scheduled := func(t celery.ScheduledTask) (string, error) {
		text, err := describeTask(t.Request)
		return text + " at " + t.ETA, err
	}
	cmd.AddCommand(newPingWorkers(a, ask), newListRunning(a, ask),
		inspection(a, ask, "active-queues", "List the queues that workers read", (*celery.Control).ActiveQueues, eachOf(queue)),
		inspection(a, ask, "reserved", "List the tasks that workers have received and not started", (*celery.Control).Reserved, eachOf(describeTask)),
		inspection(a, ask, "scheduled", "List the tasks that wait in workers for their time (eta)", (*celery.Control).Scheduled, eachOf(scheduled)),
		inspection(a, ask, "stats", "Show the workers' processes, and how many tasks they accepted since their start", (*celery.Control).Stats, describeStats),
		newRevoke(a, ask))
	return cmd
}

// question asks the workers of to with a command's arguments, and prints the answer.
type question func(ctx context.Context, c *celery.Control, to celery.Destination, args []string) error

// questioner makes the function of a command that asks workers.
type questioner func(question) func(*cobra.Command, []string) error

func newPingWorkers(a *command.App, ask questioner) *cobra.Command {
	return &cobra.Command{
		Use:   "ping-workers [OPTIONS]",
		Short: "Check which workers respond to the celery remote control",
		RunE: ask(func(ctx context.Context, c *celery.Control, to celery.Destination, _ []string) error {
			replies, err := c.Ping(ctx, to)
			for _, r := range replies {
				a.Log.Info("got response", "worker", r.Node, "after", r.After)
			}
			if err == nil && len(replies) == 0 {
				err = command.ErrNoReply
			}
			return err
		}),
	}
}

// inspection makes a command that prints the workers' answers: each of lines after the worker's name, or a JSON
// object by worker. If it can't read some answers, it prints the others.
func inspection[T any](a *command.App, ask questioner, name, short string,
	get func(c *celery.Control, ctx context.Context, to celery.Destination) (map[string]T, error), lines func(T) ([]string, error),
) *cobra.Command {
	output := "text"
	cmd := &cobra.Command{Use: name + " [OPTIONS]", Short: short}
	command.OutputFlag(cmd.Flags(), &output)
	cmd.RunE = ask(func(ctx context.Context, c *celery.Control, to celery.Destination, _ []string) error {
		answers, err := get(c, ctx, to)
		switch {
		case len(answers) == 0:
			return cmp.Or(err, command.ErrNoReply)
		case output == "json":
			return errors.Join(a.PrintJSON(answers), err)
		}
		var b strings.Builder
		for _, worker := range slices.Sorted(maps.Keys(answers)) {
			texts, lineErr := lines(answers[worker])
			if lineErr != nil {
				err = errors.Join(err, fmt.Errorf("worker %s: %w", worker, lineErr))
				continue
			}
			if len(texts) == 0 {
				a.Log.Info("the worker has none", "worker", worker)
			}
			for _, text := range texts {
				fmt.Fprintf(&b, "%s: %s\n", a.Line(worker), a.Line(text))
			}
		}
		return errors.Join(a.Print(b.String()), err)
	})
	return cmd
}

// eachOf makes one line of each element of an answer.
func eachOf[T any](line func(T) (string, error)) func([]T) ([]string, error) {
	return func(elements []T) (lines []string, _ error) {
		for _, element := range elements {
			text, err := line(element)
			if err != nil {
				return nil, err
			}
			lines = append(lines, text)
		}
		return lines, nil
	}
}

func describeTask(t celery.TaskInfo) (string, error) {
	_, _, call, err := pytext.Call(t.Args, t.Kwargs)
	if err != nil {
		return "", fmt.Errorf("task %s (%s): %w", t.ID, t.Name, err)
	}
	return fmt.Sprintf("%s(%s) [id=%s]", t.Name, strings.Join(call, ", "), t.ID), nil
}

func describeStats(s celery.WorkerStats) ([]string, error) {
	uptime := (time.Duration(s.Uptime) * time.Second).String()
	lines := []string{fmt.Sprintf("up %s, pid %d, %s, at most %s", uptime, s.PID,
		model.Count(s.Pool.MaxConcurrency, "process", "processes"), model.Count(s.PrefetchCount, "unacknowledged message", "unacknowledged messages"))}
	for _, name := range slices.Sorted(maps.Keys(s.Total)) {
		lines = append(lines, fmt.Sprintf("%s %d", name, s.Total[name]))
	}
	return lines, nil
}

func newRevoke(a *command.App, ask questioner) *cobra.Command {
	var revoke command.RevokeFlags
	cmd := &cobra.Command{
		Use:   "revoke [OPTIONS] TASK_ID...",
		Short: "Make workers drop tasks",
		Long: `Make workers drop tasks, given by their Celery ids (see task list --list-runs). Workers
drop tasks that they receive from now on, or have received and not started. A worker
forgets that when it restarts.

` + command.AboutTerminate,
		Example: `  swh-scheduler celery-monitor revoke 2b5a2d1c-6e5f-4d5e-9a51-0c5a3f7d4b1e
  swh-scheduler celery-monitor revoke --terminate --signal SIGKILL 2b5a2d1c-6e5f-4d5e-9a51-0c5a3f7d4b1e`,
		Args: command.Args("TASK_ID..."),
	}
	revoke.Flags(cmd.Flags())
	cmd.RunE = ask(func(ctx context.Context, c *celery.Control, to celery.Destination, ids []string) error {
		return revoke.Revoke(ctx, a, c, to, ids)
	})
	return cmd
}
