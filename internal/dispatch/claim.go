package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// Claim is an open claim for a queue: a transaction that holds the locks of the queue and of its lanes, so that Free
// stays true until Commit. It is not safe for concurrent use.
type Claim struct {
	Tx   *db.Tx
	Free int // free slots; with lanes: those of all lanes, minus the backlogs. May be 0
	Size int // messages to claim: Free, or fewer after a claim that timed out. The claimer may lower it

	// FromBacklogs is the number of backlog messages that the claimer made outgoing.
	FromBacklogs int

	slots  *Slots
	queue  Queue
	states []lanes.State // of the queue's lanes
	size   *bulk.BatchSize
	began  time.Time
}

// Open observes a queue at the broker, begins a transaction, takes the queue's lock and counts its free slots. Every
// open claim must end by Commit: until then it holds a connection and the locks.
//
// If the broker can't observe the queue, Open returns an error for which celery.IsOfQueue holds, whatever the
// queue's limit. Lanes whose queues can't be observed get nothing; the others continue.
func (s *Slots) Open(ctx context.Context, q Queue) (*Claim, error) {
	observed, err := s.observe(ctx, q.destination())
	if err != nil {
		return nil, err
	}
	c := &Claim{slots: s, queue: q, size: batchSize(&s.sizes, q.Name), began: time.Now()}
	if c.Tx, err = s.store.Begin(ctx); err != nil {
		return nil, err
	}
	if err = c.count(ctx, observed); err != nil {
		return nil, c.Tx.End(ctx, err)
	}
	c.Size = c.size.Of(c.Free)
	return c, nil
}

// count takes the locks of a queue and of its lanes, and counts the free slots. A claim with lanes takes the queue's
// own lock too, as all claims for the queue share the state of its groups.
func (c *Claim) count(ctx context.Context, observed observations) (err error) {
	to := c.queue.destination()
	if err = c.Tx.LockQueues(ctx, append(to.queues(), c.queue.Name)...); err != nil {
		return err
	}
	if c.Free, err = to.free(ctx, c, observed); err != nil {
		return fmt.Errorf("count the free slots of queue %q: %w", c.queue.Name, err)
	}
	return nil
}

// Commit writes the claimed work to the ledger: for the queue or, if it has lanes, for its lanes and their backlogs.
// It also sends backlogs as far as there are slots. Then it commits, wakes the deliverer, and returns the number of
// messages in work. If err is not nil, the claim failed: Commit rolls back and returns err. After a time-out the
// next claim for the queue is half as large.
func (c *Claim) Commit(ctx context.Context, work []ledger.Work, err error) (int, error) {
	sent := c.FromBacklogs
	if err == nil {
		var n int
		n, err = c.queue.destination().write(ctx, c, work)
		sent += n
	}
	if err = c.Tx.End(ctx, err); err != nil {
		c.size.Adjust(c.Size, err)
		return 0, err
	}
	c.size.Adjust(len(work), nil)
	c.slots.metrics.seconds.WithLabelValues(c.queue.Name).Observe(time.Since(c.began).Seconds())
	if sent > 0 {
		c.slots.claimed()
	}
	return len(work), nil
}

// SendBacklogs sends the backlogs of a queue with lanes as far as there are slots. It claims nothing.
func (s *Slots) SendBacklogs(ctx context.Context, q Queue) error {
	c, err := s.Open(ctx, q)
	if err != nil {
		return err
	}
	c.FromBacklogs, err = q.Lanes.send(ctx, c, nil)
	if err = c.Tx.End(ctx, err); err == nil && c.FromBacklogs > 0 {
		s.claimed()
	}
	return err
}

// batchSize returns the batch size of a name; it makes one if there is none.
func batchSize(sizes *sync.Map, name string) *bulk.BatchSize {
	size, _ := sizes.LoadOrStore(name, new(bulk.BatchSize))
	return size.(*bulk.BatchSize)
}
