package dispatch

import (
	"context"

	"swh-scheduler/sql/ledger"
)

// A destination receives the work of a claim: the queue itself, or the lanes behind it.
type destination interface {
	// queues returns the queues that workers consume. A claim observes them, then takes their locks.
	queues() []string
	// bounded reports whether unacknowledged messages count against the limit.
	bounded() bool
	// free counts the free slots. counts are those of the queues, if it is bounded. The caller holds the locks.
	free(ctx context.Context, c *Claim, counts []messageCount, observed observations) (int, error)
	// route sets the queue or backlog of each message of work, and sends backlogs. It returns the number of messages
	// that become outgoing.
	route(ctx context.Context, c *Claim, work []ledger.Work) (outgoing int, err error)
}

// destination returns the destination of claims for the queue.
func (q Queue) destination() destination {
	if q.Lanes != nil {
		return q.Lanes
	}
	return plain{q}
}

// plain is a queue without lanes.
type plain struct{ Queue }

func (q plain) queues() []string { return []string{q.Name} }

func (q plain) bounded() bool { return q.Limited() }

func (q plain) free(ctx context.Context, c *Claim, counts []messageCount, observed observations) (int, error) {
	if q.Limited() {
		return c.slots.freeOfLimit(q.Name, *q.Limit, counts[0])
	}
	return c.slots.freeOfUnlimited(ctx, c.Tx, q.Name, observed)
}

func (q plain) route(_ context.Context, _ *Claim, work []ledger.Work) (int, error) {
	for i := range work {
		work[i].Queue = q.Name
	}
	return len(work), nil
}
