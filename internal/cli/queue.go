package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/status"
)

func newQueue(a *command.App) *cobra.Command {
	return newStatus(a, statusCommand[status.Queue]{
		group: "queue", groupShort: "Queues of tasks and visits", short: "Shows queues at a glance", argument: "QUEUE",
		none: "No queue exists: nothing has been sent yet, and no worker has started.",
		long: `Shows the present state of the given queues, or of all queues to which tasks and visits
are sent. The command locks and changes nothing.

  limit     how many messages the queue may hold
  being sent
            messages claimed and not yet confirmed by the broker
  ready     messages that wait for a worker
  unacked   unacknowledged messages, which workers hold; ? if the management API does not answer
  consumers number of consumers; with 0, no worker reads it
  in, out   messages a second, published and delivered to workers
  oldest    age of the oldest message in the ledger whose start is not recorded; of a
            queue without groups and lanes, the ledger has messages being sent only
  lane      the lane set and lane, with the backlog that waits in the database
  groups    work underway of each group, the largest first`,
		rows: queueRows, table: status.QueueTable, needsBroker: true,
	})
}

// queueRows returns the state of the named queues, or of all.
func queueRows(ctx context.Context, l *statusInput, names []string) ([]status.Queue, error) {
	known, err := dispatch.KnownQueues(ctx, l.store, l.Config.Lanes)
	if err != nil {
		return nil, err
	}
	var chosen []dispatch.KnownQueue
	for _, name := range names {
		at := slices.IndexFunc(known, func(q dispatch.KnownQueue) bool { return q.Name == name })
		if at < 0 {
			return nil, command.Usagef(l.cmd, "No task or visit is sent to a queue %s.%s", name, command.DidYouMean(name, queueNames(known)))
		}
		chosen = append(chosen, known[at])
	}
	if len(names) == 0 {
		chosen = known
	}
	return status.Queues(ctx, l.store, l.inspector, chosen, l.Config.Shares)
}

func queueNames(known []dispatch.KnownQueue) []string {
	names := make([]string, len(known))
	for i, q := range known {
		names[i] = q.Name
	}
	return names
}
