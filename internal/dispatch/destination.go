package dispatch

import (
	"context"

	"swh-scheduler/sql/ledger"
)

// A destination is where the work of a claim goes: the queue itself, or the lanes behind it.
type destination interface {
	// queues are those that workers read. A claim observes them, then takes their locks.
	queues() []string
	// bounded reports whether messages that workers hold unacknowledged count.
	bounded() bool
	// free counts the free slots. The locks are held.
	free(ctx context.Context, c *Claim, observed observations) (int, error)
	// write routes work and writes it to the ledger. It returns how many messages are outgoing by it.
	write(ctx context.Context, c *Claim, work []ledger.Work) (outgoing int, err error)
}

// destination returns where the work of claims for the queue goes.
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
