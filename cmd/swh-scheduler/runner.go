package main

import (
	"context"
	"maps"
	"slices"
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
		lost     time.Duration
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
	pair(flags, &priority, "with-priority", "without-priority",
		"schedule the tasks that have a priority, instead of those that have none", "schedule the tasks that have no priority (default)")
	flags.DurationVar(&lost, "lost-after", 0, "give up runs that nothing is heard of for `DURATION` (such as 36h), where the configuration's lost_after says nothing else; needs a period")
	peerName(flags, "task-type", "task_type_names")
	peerName(flags, "task-type-pattern", "task_type_patterns")

	cmd.RunE = a.configured(func(cmd *cobra.Command, _ []string) error {
		return a.send(cmd, period, func(ctx context.Context, store *sql.Store, d *dispatcher) (sender, error) {
			err := a.patiently(ctx, store, func(ctx context.Context) error {
				return checkTaskTypes(ctx, cmd, store, "Unknown %s", types)
			})
			if err != nil {
				return sender{}, err
			}
			o := runner.Options{
				Store: store, Slots: d.slots, Log: a.log, Reg: a.metrics,
				Period: seconds(period), TaskTypes: types, TaskTypePatterns: patterns, WithPriority: priority, Shares: a.config.Shares, Lanes: a.config.Lanes,
				Listen: store.ListenGraphs,
			}
			also, err := a.laning(ctx, store, d)
			if err != nil {
				return sender{}, err
			}
			if priority {
				o.Listen = store.ListenPriorityTasks
			} else {
				sharing, err := a.sharing(ctx, store, d)
				if err != nil {
					return sender{}, err
				}
				also = slices.Concat(also, sharing, a.lostRuns(store, d, lost))
			}
			r := runner.New(o)
			return sender{name: "runner", run: r.Run, once: r.Drain, also: also}, nil
		})
	})
	return cmd
}

// lostRuns is the sweep for lost runs of all tasks, if it is asked for.
func (a *app) lostRuns(store *sql.Store, d *dispatcher, otherwise time.Duration) []daemon.Component {
	after := maps.Clone(a.config.LostAfter)
	if _, ok := after["default"]; !ok && otherwise > 0 {
		if after == nil {
			after = map[string]time.Duration{}
		}
		after["default"] = otherwise
	}
	if len(after) == 0 {
		return nil
	}
	l := runner.NewLostRuns(runner.LostOptions{Store: store, Lengths: d.inspector, Log: a.log, Reg: a.metrics, After: after})
	return []daemon.Component{{Name: "sweep for lost runs", Run: l.Run}}
}
