package cli

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/celery"
	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/status"
	"swh-scheduler/sql/db"
)

// statusCommand is a command that shows the state of something as a table or as JSON, once or again and again.
type statusCommand[Row any] struct {
	group, groupShort, short, long string
	argument                       string // what its arguments name; "": it takes none
	none                           string // what to say on a terminal if there are no rows
	rows                           func(ctx context.Context, l *look, names []string) ([]Row, error)
	table                          func(pytext.Terminal, []Row) string
	needsBroker                    bool
}

// look is what a status command looks at.
type look struct {
	*command.App
	cmd   *cobra.Command
	store *db.Store
	// inspector asks the broker; nil if none is configured, or unusable, and the command doesn't need it.
	inspector *celery.QueueInspector
}

// newStatus makes a group of commands with one command, status.
func newStatus[Row any](a *command.App, c statusCommand[Row]) *cobra.Command {
	output, watch := "text", 0.0
	cmd := &cobra.Command{Use: "status [OPTIONS] [" + c.argument + "]...", Short: c.short, Args: cobra.ArbitraryArgs}
	cmd.Long = c.long + "\n\n--watch shows it again every 2 seconds, --watch=SECONDS as often as you like."
	if c.argument == "" {
		cmd.Use, cmd.Args = "status [OPTIONS]", cobra.NoArgs
	}
	command.OutputFlag(cmd.Flags(), &output)
	cmd.Flags().Float64Var(&watch, "watch", 0, "show it again every so many `SECONDS`, until interrupted")
	cmd.Flags().Lookup("watch").NoOptDefVal = "2"
	command.Must(cmd.Flags(), "watch", func() bool { return watch >= 0 }, "is negative")
	cmd.RunE = a.Configured(func(cmd *cobra.Command, names []string) error {
		broker, noBroker := a.Config.Broker()
		if noBroker != nil && c.needsBroker {
			return noBroker
		}
		return a.WithStore(cmd, func(ctx context.Context, store *db.Store) error {
			if err := store.CheckVersion(ctx); err != nil {
				return err
			}
			l := &look{App: a, cmd: cmd, store: store}
			if noBroker == nil {
				l.inspector = a.Inspector(broker, cmd.CommandPath())
				defer func() { _ = l.inspector.Close() }()
			}
			show := func() error {
				rows, err := c.rows(ctx, l, names)
				if err != nil {
					return err
				}
				rows = append([]Row{}, rows...) // [] for none
				text := c.table(a.Terminal(), rows)
				if len(rows) == 0 && a.OnTerminal() {
					text = c.none + "\n"
				}
				if watch > 0 && output == "text" {
					text = a.Top() + time.Now().Format(time.DateTime) + "\n" + text
				}
				return a.Show(output, rows, text)
			}
			err := show()
			for err == nil && watch > 0 && service.Sleep(ctx, time.Duration(watch*float64(time.Second))) == nil {
				if failed := show(); failed != nil && ctx.Err() == nil {
					a.Log.Warn("the state can't be read; will be tried again", "error", failed)
				}
			}
			if watch > 0 && ctx.Err() != nil {
				return nil // interrupted
			}
			return err
		})
	})
	parent := &cobra.Command{Use: c.group + " [OPTIONS] COMMAND [ARGS]...", Short: c.groupShort}
	parent.AddCommand(cmd)
	return parent
}

// configured returns an error of the command line for a name that the configuration has nothing for.
func configured[V any](l *look, what string, names []string, known map[string]V) error {
	for _, name := range names {
		if _, ok := known[name]; !ok {
			return command.Usagef(l.cmd, "The configuration has no %s for task type %s.%s", what, name, command.DidYouMean(name, slices.Collect(maps.Keys(known))))
		}
	}
	return nil
}

func newLanes(a *command.App) *cobra.Command {
	return newStatus(a, statusCommand[status.Lane]{
		group: "lanes", groupShort: "Lanes that keep quick work from waiting behind slow work",
		short: "Shows the work of each lane of task types, and its last hour", argument: "TASK_TYPE",
		none: "No task type has lanes (configuration: lanes).",
		long: `Shows, for the given task types (all that have lanes if none is given, where
PREFIX:TASK_TYPE is its queue with that prefix, such as save_code_now), the work of each lane now
and in the last hour.

  limit     the soft and the hard time limit: when work times out, and is killed
  slots     how many messages the lane's queue may hold, as configured
  consumers how many read the lane's queue; ? if the broker can't be asked
  waiting   work in the lane's backlog that was not tried before
  again     work in its backlog that timed out in a lane before
  oldest    for how long the first of its backlog has waited
  target    how long that should be at most, as configured (target_wait)
  sent      work in its queue, on the way there, or running
  running   work that is known to have started
  ended     work that ended in this lane in the last hour
  timed out work that timed out in it
  quick     work that was predicted to need it and would have fitted the lane before
  slow      work that timed out in it at its first try
  wait      time from the claim to the start of a first try: the median, and p95`,
		rows: func(ctx context.Context, l *look, taskTypes []string) (all []status.Lane, _ error) {
			if err := configured(l, "lanes", taskTypes, l.Config.Lanes); err != nil {
				return nil, err
			}
			queues, err := dispatch.LanedQueues(ctx, l.store, l.Config.Lanes)
			if err != nil {
				return nil, err
			}
			var lengths status.QueueSource // without a broker, the rest is shown
			if l.inspector != nil {
				lengths = l.inspector
			}
			for _, q := range queues {
				if len(taskTypes) > 0 && !slices.Contains(taskTypes, q.Lanes.Name) {
					continue
				}
				rows, err := status.Lanes(ctx, l.store, lengths, q.Lanes, l.store.Now())
				if err != nil {
					return nil, err
				}
				all = append(all, rows...)
			}
			return all, nil
		},
		table: status.LaneTable,
	})
}

func newShares(a *command.App) *cobra.Command {
	return newStatus(a, statusCommand[status.Group]{
		group: "shares", groupShort: "Shares of the groups that divide queues",
		short: "Shows the shares and the work of the groups of shared queues", argument: "TASK_TYPE",
		none: "No queue is divided between groups that have work (configuration: shares).",
		long: `Shows, for the queues of the given task types (all shared ones if none is given),
the share of each group now, and its work.

  priority  of its messages, in a queue with x-max-priority
  entitled  its part of the queue, by its weight among the groups that have work
            waiting and are below their ceilings
  now       its part of the work underway
  hour      its part of the work that ended in the last hour
  waiting   tasks that are ready, and origins that the policies of the visit type pick now (at
            most 10,000 of each group)
  in flight visits or tasks sent and not known to have ended
  max       its ceiling (max_in_flight): how many these may be
  used      the work that ended in the last hour`,
		rows: func(ctx context.Context, l *look, taskTypes []string) (all []status.Group, _ error) {
			if err := configured(l, "shares", taskTypes, l.Config.Shares); err != nil {
				return nil, err
			}
			if err := l.store.CheckShares(ctx, l.Config.Shares); err != nil {
				return nil, err
			}
			if len(taskTypes) == 0 {
				taskTypes = slices.Sorted(maps.Keys(l.Config.Shares))
			}
			for _, name := range taskTypes {
				rows, err := status.Groups(ctx, l.store, l.Config, name, status.MaxWaiting)
				if err != nil {
					return nil, err
				}
				all = append(all, rows...)
			}
			return all, nil
		},
		table: status.GroupTable,
	})
}

func newHosters(a *command.App) *cobra.Command {
	return newStatus(a, statusCommand[status.Hoster]{
		group: "hosters", groupShort: "Hosters that take a limited number of visits",
		short: "Shows the visits of hosters with limits",
		none:  "No hoster has a limit (configuration: hosters), or visits of such with the default one.",
		long: `Shows the visits of the hosters that the configuration gives limits (hosters), and of
those that have the default limit and visits now.

  in flight   visits claimed and not known to have ended, and how many it takes
  last minute visits claimed in the last minute, and how many it takes; only counted
              where there is such a limit`,
		rows: func(ctx context.Context, l *look, _ []string) ([]status.Hoster, error) {
			return status.Hosters(ctx, l.store, l.Config.Hosters, l.store.Now())
		},
		table: status.HosterTable,
	})
}
