package main

import (
	"context"

	"github.com/spf13/cobra"

	"swh-scheduler/runner"
	"swh-scheduler/sql"
)

func newStartRunner(a *app) *cobra.Command {
	var (
		period   int
		types    []string
		patterns []string
		priority bool
	)
	cmd := &cobra.Command{
		Use:   "start-runner [OPTIONS]",
		Short: "Starts a swh-scheduler runner instance",
		Long: `Starts a swh-scheduler runner instance: it sends the tasks that are ready to run.

Task types may be limited by name, by pattern or both; without either, all are
served.`,
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
	}
	flags := cmd.Flags()
	flags.IntVarP(&period, "period", "p", 0, "period (in s) at which ready tasks are looked for; 0 looks once and ends")
	flags.StringArrayVar(&types, "task-type", nil, "task `TYPE` to schedule; all if not given")
	flags.StringArrayVar(&patterns, "task-type-pattern", nil, "`PATTERN` that the names of task types to schedule begin with; all if not given")
	flags.BoolVar(&priority, "with-priority", false, "schedule the tasks that have a priority, instead of those that have none")
	flags.BoolFunc("without-priority", "schedule the tasks that have no priority (default)", func(string) error {
		priority = false
		return nil
	})
	peerName(flags, "without-priority", "")
	peerName(flags, "task-type", "task_type_names")
	peerName(flags, "task-type-pattern", "task_type_patterns")

	cmd.RunE = a.configured(func(cmd *cobra.Command, _ []string) error {
		return a.send(cmd, period, func(ctx context.Context, store *sql.Store, d *dispatcher) (sender, error) {
			if err := checkTaskTypes(ctx, cmd, store, "Unknown %s", types); err != nil {
				return sender{}, err
			}
			o := runner.Options{
				Store: store, Slots: d.slots, Log: a.log, Reg: a.metrics,
				Period: seconds(period), TaskTypes: types, TaskTypePatterns: patterns, WithPriority: priority,
			}
			if priority {
				o.Listen = store.ListenPriorityTasks
			}
			r := runner.New(o)
			return sender{name: "runner", run: r.Run, once: r.Drain}, nil
		})
	})
	return cmd
}
