package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/celery"
	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/status"
	"swh-scheduler/sql/db"
)

func newQueue(a *command.App) *cobra.Command {
	output, watch := "text", 0.0
	cmd := &cobra.Command{
		Use: "status [OPTIONS] [QUEUE]...", Short: "Shows queues at a glance", Args: cobra.ArbitraryArgs,
		Long: `Shows the given queues, or all to which tasks and visits are sent, as they are now.
Nothing is locked or changed.

  limit     how many messages the queue may hold
  outgoing  messages claimed and not yet confirmed by the broker
  ready     messages that wait for a worker
  unacked   messages that workers hold; ? if the management API doesn't tell
  consumers how many read the queue: with 0, what is ready stays there
  in, out   messages a second, published and delivered to workers
  oldest    age of the oldest message in the ledger that is not known to have begun; of a
            queue without groups and lanes, the ledger has outgoing messages only
  lane      the lane set and lane, with the backlog that waits in the database
  groups    what groups have underway, the largest first

--watch shows it again every 2 seconds, --watch=SECONDS as often as you like.`,
	}
	command.OutputFlag(cmd.Flags(), &output)
	cmd.Flags().Float64Var(&watch, "watch", 0, "show it again every so many `SECONDS`, until interrupted")
	cmd.Flags().Lookup("watch").NoOptDefVal = "2"
	command.Must(cmd.Flags(), "watch", func() bool { return watch >= 0 }, "is negative")
	cmd.RunE = a.Configured(func(cmd *cobra.Command, queues []string) error {
		broker, err := a.Config.Broker()
		if err != nil {
			return err
		}
		inspector := a.Inspector(broker, cmd.CommandPath())
		return a.WithStore(cmd, func(ctx context.Context, store *db.Store) error {
			err := store.CheckVersion(ctx)
			for err == nil {
				var rows []status.Queue
				if rows, err = queueRows(ctx, a, store, inspector, cmd, queues); err != nil {
					break
				}
				text := status.QueueTable(rows)
				if watch > 0 {
					text = a.Top() + time.Now().Format(time.DateTime) + "\n" + text
				}
				if err = a.Show(output, rows, text); err != nil || watch == 0 {
					break
				}
				if service.Sleep(ctx, time.Duration(watch*float64(time.Second))) != nil {
					break
				}
			}
			if watch > 0 && ctx.Err() != nil {
				err = nil // interrupted
			}
			return errors.Join(err, inspector.Close())
		})
	})
	parent := &cobra.Command{Use: "queue [OPTIONS] COMMAND [ARGS]...", Short: "Queues of tasks and visits"}
	parent.AddCommand(cmd)
	return parent
}

// queueRows returns the state of the named queues, or of all.
func queueRows(ctx context.Context, a *command.App, store *db.Store, inspector *celery.QueueInspector, cmd *cobra.Command, names []string) ([]status.Queue, error) {
	known, err := dispatch.KnownQueues(ctx, store, a.Config.Lanes)
	if err != nil {
		return nil, err
	}
	var chosen []dispatch.KnownQueue
	for _, name := range names {
		at := slices.IndexFunc(known, func(q dispatch.KnownQueue) bool { return q.Name == name })
		if at < 0 {
			return nil, command.Usagef(cmd, "No task or visit is sent to a queue %s", name)
		}
		chosen = append(chosen, known[at])
	}
	if len(names) == 0 {
		chosen = known
	}
	return status.Queues(ctx, store, inspector, chosen, a.Config.Shares)
}
