package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/status"
	"swh-scheduler/sql/db"
)

// newStatus makes a group of commands with one command, status, which prints rows about
// the given task types as a table or as JSON. check refuses a name; if it is nil, there are none.
func newStatus[Row any](a *command.App, group, groupShort, short, long string, check func(name string) (known bool),
	rows func(ctx context.Context, store *db.Store, taskTypes []string) ([]Row, error), table func([]Row) string,
) *cobra.Command {
	output := "text"
	cmd := &cobra.Command{Use: "status [OPTIONS] [TASK_TYPE]...", Short: short, Long: long, Args: cobra.ArbitraryArgs}
	if check == nil {
		cmd.Use, cmd.Args = "status [OPTIONS]", cobra.NoArgs
	}
	command.OutputFlag(cmd.Flags(), &output)
	cmd.RunE = a.Configured(func(cmd *cobra.Command, args []string) error {
		for _, name := range args {
			if !check(name) {
				return command.Usagef(cmd, "The configuration has no %s for task type %s", group, name)
			}
		}
		return a.WithStore(cmd, func(ctx context.Context, store *db.Store) error {
			if err := store.CheckVersion(ctx); err != nil {
				return err
			}
			all, err := rows(ctx, store, args)
			if err != nil {
				return err
			}
			return a.Show(output, append([]Row{}, all...), table(all)) // [] for none
		})
	})
	parent := &cobra.Command{Use: fmt.Sprintf("%s [OPTIONS] COMMAND [ARGS]...", group), Short: groupShort}
	parent.AddCommand(cmd)
	return parent
}

func newLanes(a *command.App) *cobra.Command {
	return newStatus(a, "lanes", "Lanes that keep quick work from waiting behind slow work",
		"Shows the work of each lane of task types, and its last hour",
		`Shows, for the given task types (all that have lanes if none is given, where
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
		func(name string) bool { _, ok := a.Config.Lanes[name]; return ok },
		func(ctx context.Context, store *db.Store, taskTypes []string) (all []status.Lane, _ error) {
			queues, err := dispatch.LanedQueues(ctx, store, a.Config.Lanes)
			if err != nil {
				return nil, err
			}
			var lengths status.QueueSource // without a broker, the rest is shown
			if broker, err := a.Config.Broker(); err == nil {
				inspector := a.Inspector(broker, "swh-scheduler lanes status")
				defer inspector.Close()
				lengths = inspector
			}
			for _, q := range queues {
				if len(taskTypes) > 0 && !slices.Contains(taskTypes, q.Lanes.Name) {
					continue
				}
				rows, err := status.Lanes(ctx, store, lengths, q.Lanes, store.Now())
				if err != nil {
					return nil, err
				}
				all = append(all, rows...)
			}
			return all, nil
		}, status.LaneTable)
}

func newShares(a *command.App) *cobra.Command {
	return newStatus(a, "shares", "Shares of the groups that divide queues",
		"Shows the shares and the work of the groups of shared queues",
		`Shows, for the queues of the given task types (all shared ones if none is given),
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
		func(name string) bool { _, ok := a.Config.Shares[name]; return ok },
		func(ctx context.Context, store *db.Store, taskTypes []string) (all []status.Group, _ error) {
			if err := store.CheckShares(ctx, a.Config.Shares); err != nil {
				return nil, err
			}
			if len(taskTypes) == 0 {
				taskTypes = slices.Sorted(maps.Keys(a.Config.Shares))
			}
			for _, name := range taskTypes {
				rows, err := status.Groups(ctx, store, a.Config, name, status.MaxWaiting)
				if err != nil {
					return nil, err
				}
				all = append(all, rows...)
			}
			return all, nil
		}, status.GroupTable)
}

func newHosters(a *command.App) *cobra.Command {
	return newStatus(a, "hosters", "Hosters that take a limited number of visits",
		"Shows the visits of hosters with limits",
		`Shows the visits of the hosters that the configuration gives limits (hosters), and of
those that have the default limit and visits now.

  in flight   visits claimed and not known to have ended, and how many it takes
  last minute visits claimed in the last minute, and how many it takes; only counted
              where there is such a limit`,
		nil,
		func(ctx context.Context, store *db.Store, _ []string) ([]status.Hoster, error) {
			return status.Hosters(ctx, store, a.Config.Hosters, store.Now())
		}, status.HosterTable)
}
