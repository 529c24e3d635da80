package cli

import (
	"cmp"
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
	argument                       string                    // what its arguments name; "": it takes none
	none                           string                    // printed on a terminal if there are no rows
	off                            func(*statusInput) string // what is printed everywhere if nothing is configured, else ""; may be nil
	rows                           func(ctx context.Context, l *statusInput, names []string) ([]Row, error)
	table                          func(pytext.Terminal, []Row) string
	needsBroker                    bool
}

// statusInput is the input of a status command: the configuration, the database and the broker.
type statusInput struct {
	*command.App
	cmd   *cobra.Command
	store *db.Store
	// inspector is nil if no broker is configured, or if its configuration is unusable and the command doesn't
	// need it.
	inspector *celery.QueueInspector
}

// newStatus makes a group of commands with one command, status.
func newStatus[Row any](a *command.App, c statusCommand[Row]) *cobra.Command {
	output := "text"
	cmd := &cobra.Command{Use: "status [OPTIONS] [" + c.argument + "]...", Short: c.short, Args: cobra.ArbitraryArgs}
	cmd.Long = c.long
	if c.argument == "" {
		cmd.Use, cmd.Args = "status [OPTIONS]", cobra.NoArgs
	}
	command.OutputFlag(cmd.Flags(), &output)
	again := watched(a, cmd)
	cmd.RunE = a.Configured(func(cmd *cobra.Command, names []string) error {
		broker, noBroker := a.Config.Broker()
		if noBroker != nil && c.needsBroker {
			return noBroker
		}
		return a.WithStore(cmd, func(ctx context.Context, store *db.Store) error {
			if err := store.CheckVersion(ctx); err != nil {
				return err
			}
			l := &statusInput{App: a, cmd: cmd, store: store}
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
				if c.off != nil && len(rows) == 0 {
					text = cmp.Or(c.off(l), text)
				}
				return again.show(output, rows, text)
			}
			return again.run(ctx, show)
		})
	})
	parent := &cobra.Command{Use: c.group + " [OPTIONS] COMMAND [ARGS]...", Short: c.groupShort}
	parent.AddCommand(cmd)
	return parent
}

// watch shows something once, or again and again with --watch.
type watch struct {
	*command.App
	seconds float64 // 0: once
}

// watched gives a command --watch.
func watched(a *command.App, cmd *cobra.Command) *watch {
	w := &watch{App: a}
	cmd.Long += "\n\n--watch shows it again every 2 seconds, --watch=SECONDS as often as you like."
	cmd.Flags().Float64Var(&w.seconds, "watch", 0, "show it again every so many `SECONDS`, until interrupted")
	cmd.Flags().Lookup("watch").NoOptDefVal = "2"
	command.Must(cmd.Flags(), "watch", func() bool { return w.seconds >= 0 }, "is negative")
	return w
}

// show prints a result as App.Show does. A text that is shown again begins with the time.
func (w *watch) show(output string, result any, text string) error {
	if w.seconds > 0 && output == "text" {
		text = w.Top() + time.Now().Format(time.DateTime) + "\n" + text
	}
	return w.Show(output, result, text)
}

// run calls show until it is interrupted, or once. Only an error of the first call ends it.
func (w *watch) run(ctx context.Context, show func() error) error {
	err := show()
	for err == nil && w.seconds > 0 && service.Sleep(ctx, time.Duration(w.seconds*float64(time.Second))) == nil {
		if failed := show(); failed != nil && ctx.Err() == nil {
			w.Log.Warn("the state can't be read; will be tried again", "error", failed)
		}
	}
	if w.seconds > 0 && ctx.Err() != nil {
		return nil // interrupted
	}
	return err
}

// configured returns a command-line error for the first of names that has no entry in the configuration's map.
func configured[V any](l *statusInput, what string, names []string, known map[string]V) error {
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
		long: `Shows the work of each lane of the given task types, now and in the last hour. Without
a task type, it shows all that have lanes. PREFIX:TASK_TYPE is a task type's queue with
that prefix, such as save_code_now:load-git.

  limit     the soft time limit, at which work times out, and the hard one, at which
            the worker kills it
  slots     how many messages the lane's queue may hold, as configured
  consumers number of consumers of the lane's queue; ? if the broker does not answer
  waiting   work in the lane's backlog that was not tried before
  again     work in the backlog that timed out in a lane at an earlier try
  oldest    how long the oldest work of the lane's backlog has waited
  target    the longest wait to aim at, as configured (target_wait)
  sent      work in the lane's queue, on the way there, or running
  running   work whose start was recorded
  ended     work that ended in this lane in the last hour
  timed out work that timed out in this lane in the last hour
  quick     work that was predicted to need this lane, and ended within the time limit
            of the lane before
  slow      work that timed out in this lane at its first try
  wait      time from the claim to the start of a first try: the median, and p95`,
		rows: func(ctx context.Context, l *statusInput, taskTypes []string) (all []status.Lane, _ error) {
			if err := configured(l, "lanes", taskTypes, l.Config.Lanes); err != nil {
				return nil, err
			}
			queues, err := dispatch.LanedQueues(ctx, l.store, l.Config.Lanes)
			if err != nil {
				return nil, err
			}
			var lengths status.QueueSource // nil without a broker: the lengths are left out
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
		long: `Shows the current share and the work of each group, for the queues of the given task
types. Without a task type, it shows all shared queues.

  priority  priority of the group's messages, in a queue with x-max-priority
  target    the group's part of the queue, by its weight among the groups that have work
            waiting and are below their ceilings
  now       the group's part of the work underway
  last hour the group's part of the work that ended in the last hour
  waiting   tasks that are ready, and origins that the policies of the visit type pick now
            (counted up to 10,000 of each group)
  in flight visits or tasks that are sent and whose end is not recorded
  max       the group's ceiling: the most work in flight (max_in_flight)
  used      runtime of the group's work that ended in the last hour`,
		rows: func(ctx context.Context, l *statusInput, taskTypes []string) (all []status.Group, _ error) {
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
	group := newStatus(a, statusCommand[status.Hoster]{
		group: "hosters", groupShort: "Hosters that take a limited number of visits",
		short: "Shows the visits of hosters with limits",
		none:  "No hoster has a limit of its own (configuration: hosters), none with the default limit has visits now, and none refuses visits.",
		off: func(l *statusInput) string {
			if l.Config.Hosters.Any() {
				return ""
			}
			return "No hoster has a limit, as the configuration has no hosters.\n"
		},
		long: `Shows the visits of hosters that have a limit in the configuration (hosters), and of
hosters that have the default limit and visits now. Hosters that refuse visits have a
line of their own, with their present limit.

  in flight   visits that are claimed and whose end is not recorded, and the limit
  last minute visits claimed in the last minute, and the limit; counted only for hosters
              with such a limit`,
		rows: func(ctx context.Context, l *statusInput, _ []string) ([]status.Hoster, error) {
			return status.Hosters(ctx, l.store, l.Config.Hosters, l.store.Now())
		},
		table: status.HosterTable,
	})
	group.AddCommand(newHostersReset(a))
	return group
}
