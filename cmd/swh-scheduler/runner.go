package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/daemon"
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
	peerName(flags, "task-type", "task_type_names")
	peerName(flags, "task-type-pattern", "task_type_patterns")

	cmd.RunE = a.configured(func(cmd *cobra.Command, _ []string) error {
		if period < 0 {
			return usagef(cmd, "Invalid value for '--period' / '-p': %d is negative.", period)
		}
		newRunner := func(ctx context.Context, store *sql.Store) (*runner.Runner, *dispatcher, error) {
			if err := checkTaskTypes(ctx, cmd, store, "Unknown %s", types); err != nil {
				return nil, nil, err
			}
			d, err := a.newDispatcher(cmd, store)
			if err != nil {
				return nil, nil, err
			}
			return runner.New(runner.Options{
				Store: store, Slots: d.slots, Log: a.log, Reg: a.metrics,
				Period: time.Duration(period) * time.Second, TaskTypes: types, TaskTypePatterns: patterns, WithPriority: priority,
			}), d, nil
		}
		if period == 0 {
			return a.withStore(cmd, func(ctx context.Context, store *sql.Store) error {
				r, d, err := newRunner(ctx, store)
				if err != nil {
					return err
				}
				return runOnce(ctx, a, store, r, d)
			})
		}
		return a.runDaemon(cmd, func(ctx context.Context, store *sql.Store) ([]daemon.Component, error) {
			r, d, err := newRunner(ctx, store)
			if err != nil {
				return nil, err
			}
			return []daemon.Component{{Name: "runner", Run: r.Run}, d.deliver()}, nil
		})
	})
	return cmd
}

// runOnce sends what is ready and ends.
func runOnce(ctx context.Context, a *app, store *sql.Store, r *runner.Runner, d *dispatcher) (err error) {
	defer func() { err = errors.Join(err, d.close()) }()
	if err := store.CheckVersion(ctx); err != nil {
		return err
	}
	claimed, err := r.Drain(ctx)
	if claimed > 0 {
		a.log.Info("tasks claimed", "tasks", claimed)
	}
	delivered, deliverErr := d.deliverer.Drain(ctx)
	if delivered.Refused > 0 {
		a.log.Warn("messages refused by the broker; they wait in the outbox", "messages", delivered.Refused)
	}
	if err := errors.Join(err, deliverErr); err != nil {
		return fmt.Errorf("send ready tasks: %w", err)
	}
	return nil
}
