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

// Claim is an open claim for a queue: a transaction that holds the queue's lock, and those of its lanes, so that
// Free stays true until Commit. It is not safe for concurrent use.
type Claim struct {
	Tx   *db.Tx
	Free int // free slots; with lanes: those of all lanes, minus the backlogs. It may be 0
	Size int // how many messages to claim: Free, or fewer after a claim that timed out. The claimer may lower it

	// Moved is how many messages of backlogs the claimer made outgoing.
	Moved int

	slots  *Slots
	queue  Queue
	states []lanes.State // of the queue's lanes
	size   *bulk.BatchSize
	began  time.Time
}

// Open observes a queue at the broker, begins a transaction, takes the queue's lock and counts its free slots. Each
// open claim must end by Commit: until then it holds a connection and the locks.
//
// If the broker can't be asked for the queue, nothing can be claimed for it, whatever its limit, and
// celery.IsOfQueue holds for the error. Lanes whose queues can't be asked get nothing; the others go on.
func (s *Slots) Open(ctx context.Context, q Queue) (*Claim, error) {
	observed, err := s.observe(ctx, q)
	if err != nil {
		return nil, err
	}
	c := &Claim{slots: s, queue: q, size: batchSize(&s.sizes, q.Name), began: time.Now()} // the lock reads the database's clock anew
	if c.Tx, err = s.store.Begin(ctx); err != nil {
		return nil, err
	}
	if q.Lanes != nil {
		err = c.countLanes(ctx, observed)
	} else {
		err = c.count(ctx, observed)
	}
	if err != nil {
		return nil, c.Tx.End(ctx, err)
	}
	c.Size = c.size.Of(c.Free)
	return c, nil
}

// count takes the lock of a queue without lanes and counts its free slots.
func (c *Claim) count(ctx context.Context, observed observations) error {
	if err := c.Tx.LockQueues(ctx, c.queue.Name); err != nil {
		return err
	}
	var err error
	if c.Free, err = c.slots.free(ctx, c.Tx, c.queue, observed); err != nil {
		return fmt.Errorf("count the free slots of queue %q: %w", c.queue.Name, err)
	}
	return nil
}

// Commit writes the work that was claimed to the ledger, to the queue or, if it has lanes, to its lanes and their
// backlogs, and sends backlogs as far as there are slots. Then it commits, wakes the deliverer, and returns the number
// of messages in work. If err is not nil, the claim failed: Commit rolls back and returns err. After a
// time-out the next claim for the queue is half as large.
func (c *Claim) Commit(ctx context.Context, work []ledger.Work, err error) (int, error) {
	sent := c.Moved
	if err == nil {
		var n int
		n, err = c.write(ctx, work)
		sent += n
	}
	if err = c.Tx.End(ctx, err); err != nil {
		c.size.Note(c.Size, err)
		return 0, err
	}
	c.size.Note(len(work), nil)
	c.slots.metrics.seconds.WithLabelValues(c.queue.Name).Observe(time.Since(c.began).Seconds())
	if sent > 0 {
		c.slots.claimed()
	}
	return len(work), nil
}

// write routes work and writes it to the ledger. It returns how many messages are outgoing by it.
func (c *Claim) write(ctx context.Context, work []ledger.Work) (sent int, err error) {
	if l := c.queue.Lanes; l != nil {
		if int64(c.Free) > *c.queue.Limit/5 { // for fewer slots the claim may not have tried
			c.slots.idle.Store(l.Name, len(work) < c.Size)
		}
		return c.routeToLanes(ctx, work)
	}
	for i := range work {
		work[i].Queue = c.queue.Name
	}
	return len(work), c.Tx.AddWork(ctx, work)
}

// Fill sends the backlogs of a queue with lanes as far as there are slots. Nothing is claimed.
func (s *Slots) Fill(ctx context.Context, q Queue) error {
	c, err := s.Open(ctx, q)
	if err != nil {
		return err
	}
	c.Moved, err = c.routeToLanes(ctx, nil)
	if err = c.Tx.End(ctx, err); err == nil && c.Moved > 0 {
		s.claimed()
	}
	return err
}

// batchSize returns the batch size of a name; it makes one if there is none.
func batchSize(sizes *sync.Map, name string) *bulk.BatchSize {
	size, _ := sizes.LoadOrStore(name, new(bulk.BatchSize))
	return size.(*bulk.BatchSize)
}
