package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"swh-scheduler/celery"
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

	// Err is why the queue can't be observed: celery.IsOfQueue holds for it. Nothing can be claimed for the queue. It is
	// nil except in Claims.
	Err error

	// FromBacklogs is the number of backlog messages that the claimer made outgoing.
	FromBacklogs int

	slots  *Slots
	queue  Queue
	states []lanes.State // of the queue's lanes
	size   *bulk.BatchSize
	began  time.Time
}

// Claims are open claims for several queues, in one transaction with one commit.
type Claims []*Claim

// Open observes a queue at the broker, begins a transaction, takes the queue's lock and counts its free slots. Every
// open claim must end by Commit: until then it holds a connection and the locks.
//
// If the broker can't observe the queue, Open returns an error for which celery.IsOfQueue holds, whatever the
// queue's limit. Lanes whose queues can't be observed get nothing; the others continue.
func (s *Slots) Open(ctx context.Context, q Queue) (*Claim, error) {
	claims, err := s.OpenTogether(ctx, q)
	if err != nil {
		return nil, err
	}
	c := claims[0]
	if c.Err != nil {
		return nil, c.Tx.End(ctx, c.Err)
	}
	return c, nil
}

// OpenTogether opens claims for different queues as Open does, in one transaction. A queue that can't be observed has Err
// in its claim; the other claims continue. The claims must end by Claims.Commit.
func (s *Slots) OpenTogether(ctx context.Context, queues ...Queue) (Claims, error) {
	var names []string
	bounded := false
	for _, q := range queues {
		to := q.destination()
		names, bounded = append(names, to.queues()...), bounded || to.bounded()
	}
	observed, err := observe(ctx, s.store, s.broker, bounded, names...)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	tx, err := s.store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	claims := make(Claims, len(queues))
	for i, q := range queues {
		claims[i] = &Claim{Tx: tx, slots: s, queue: q, size: batchSize(&s.sizes, q.Name), began: began}
	}
	if err := claims.count(ctx, observed); err != nil {
		return nil, tx.End(ctx, err)
	}
	return claims, nil
}

// count takes the locks of the queues and of their lanes, and counts the free slots. A claim with lanes takes the queue's
// own lock too, as all claims for the queue share the state of its groups. One statement reads the ledger of all queues.
func (cs Claims) count(ctx context.Context, observed observations) error {
	s, tx := cs[0].slots, cs[0].Tx
	var locks, limited []string
	for _, c := range cs {
		to := c.queue.destination()
		locks = append(append(locks, to.queues()...), c.queue.Name)
		if to.bounded() {
			limited = append(limited, to.queues()...)
		}
	}
	if err := tx.LockQueues(ctx, locks...); err != nil {
		return err
	}
	counts, err := s.count(ctx, tx, observed, limited...)
	if err != nil {
		return fmt.Errorf("count the free slots of queue %q: %w", cs[0].queue.Name, err)
	}
	for _, c := range cs {
		to, n := c.queue.destination(), 0
		if to.bounded() {
			n = len(to.queues())
		}
		c.Free, err = to.free(ctx, c, counts[:n], observed)
		counts = counts[n:]
		if err != nil {
			err = fmt.Errorf("count the free slots of queue %q: %w", c.queue.Name, err)
			if !celery.IsOfQueue(err) {
				return err
			}
			c.Err = err
		}
		c.Size = c.size.Of(c.Free)
	}
	return nil
}

// Commit writes the claimed work to the ledger: for the queue or, if it has lanes, for its lanes and their backlogs.
// It also sends backlogs as far as there are slots. Then it commits, wakes the deliverer, and returns the number of
// messages in work. If err is not nil, the claim failed: Commit rolls back and returns err. After a time-out the
// next claim for the queue is half as large.
func (c *Claim) Commit(ctx context.Context, work []ledger.Work, err error) (int, error) {
	if err = (Claims{c}).Commit(ctx, [][]ledger.Work{work}, err); err != nil {
		return 0, err
	}
	return len(work), nil
}

// Commit ends the claims as Claim.Commit does, with one commit. work has the work of each claim, and is nil if err is not
// nil.
func (cs Claims) Commit(ctx context.Context, work [][]ledger.Work, err error) error {
	s, tx, sent := cs[0].slots, cs[0].Tx, 0
	for i, c := range cs {
		if err != nil {
			break
		}
		var n int
		n, err = c.queue.destination().route(ctx, c, work[i])
		sent += n + c.FromBacklogs
	}
	if err == nil {
		err = tx.AddWork(ctx, work...)
	}
	err = tx.End(ctx, err)
	for i, c := range cs {
		if err != nil {
			c.size.Adjust(c.Size, err)
			continue
		}
		c.size.Adjust(len(work[i]), nil)
		s.metrics.seconds.WithLabelValues(c.queue.Name).Observe(time.Since(c.began).Seconds())
	}
	if err == nil && sent > 0 {
		s.claimed()
	}
	return err
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
