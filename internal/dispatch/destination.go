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
	// free counts the free slots. The caller holds the locks.
	free(ctx context.Context, c *Claim, observed observations) (int, error)
	// write routes work and writes it to the ledger. It returns the number of messages that became outgoing.
	write(ctx context.Context, c *Claim, work []ledger.Work) (outgoing int, err error)
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

func (q plain) bounded() bool { return q.limited() }

func (q plain) free(ctx context.Context, c *Claim, observed observations) (int, error) {
	return c.slots.free(ctx, c.Tx, q.Queue, observed)
}

func (q plain) write(ctx context.Context, c *Claim, work []ledger.Work) (int, error) {
	for i := range work {
		work[i].Queue = q.Name
	}
	return len(work), c.Tx.AddWork(ctx, work)
}
