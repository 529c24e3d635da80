package send

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// Visits selects visits and their queue, whose free slots bound them.
type Visits struct {
	Filter   model.VisitFilter
	TaskType model.TaskType
	Queue    string
}

// Sender claims visits and other messages within the free slots of queues and delivers them, through the ledger. Its
// methods return the number of messages sent.
type Sender struct {
	options    Options
	dispatcher *Delivery
}

// NewSender returns a Sender for a database, which must be of this program's version; stop ends the Sender.
func NewSender(ctx context.Context, o Options, store *db.Store) (send *Sender, stop func() error, err error) {
	broker, err := o.Config.Broker()
	if err != nil {
		return nil, nil, err
	}
	d := NewDelivery(o, store, broker)
	return &Sender{o, d}, d.Close, store.CheckVersion(ctx)
}

// Once fills each queue with visits once.
func Once(ctx context.Context, o Options, store *db.Store, all ...Visits) error {
	send, stop, err := NewSender(ctx, o, store)
	if err != nil {
		return err
	}
	for _, v := range all {
		var n int
		if n, err = send.Visits(ctx, v); err != nil {
			break
		}
		o.Log.Info("visits sent", "visit_type", v.Filter.VisitType, "queue", v.Queue, "visits", n)
	}
	return errors.Join(err, stop())
}

// claim claims the messages that take returns, within the free slots of a queue, and delivers them.
func (s *Sender) claim(ctx context.Context, queue dispatch.Queue, take func(ctx context.Context, c *dispatch.Claim) ([]ledger.Work, error)) (n int, err error) {
	err = s.dispatcher.Once(ctx, func(ctx context.Context) (int, error) {
		c, err := s.dispatcher.Slots.Open(ctx, queue)
		if err != nil {
			return 0, err
		}
		work, err := take(ctx, c)
		n, err = c.Commit(ctx, work, err)
		return n, err
	})
	return n, err
}

// queue returns a queue for a task type's messages with its configured lanes and shares; shared is nil without
// shares.
func (s *Sender) queue(name string, limit *int64, tt model.TaskType) (queue dispatch.Queue, shared *dispatch.SharedQueue) {
	queue = dispatch.Queue{Name: name, Limit: limit}
	key, ok := model.KeyOf(name, tt)
	if !ok {
		return queue, nil
	}
	if shares, ok := s.options.Config.Shares[key]; ok {
		shared = &dispatch.SharedQueue{Name: name, Shares: shares}
	}
	return queue.WithLanes(key, tt, s.options.Config.Lanes), shared
}

// Visits sends visits up to the free slots of their queue.
func (s *Sender) Visits(ctx context.Context, v Visits) (int, error) {
	queue, shared := s.queue(v.Queue, v.TaskType.MaxQueueLength, v.TaskType)
	return s.claim(ctx, queue, func(ctx context.Context, c *dispatch.Claim) ([]ledger.Work, error) {
		now := c.Tx.Now()
		grabbed, err := c.Tx.Grabs(now).Next(ctx, v.Filter, c.Size)
		if err != nil {
			return nil, err
		}
		visits := dispatch.Visits(grabbed)
		if shared != nil && shared.Shares.By.OfVisits() {
			if err := dispatch.ShareVisits(ctx, c.Tx, *shared, visits, now); err != nil {
				return nil, err
			}
		}
		return dispatch.VisitWork(ctx, c.Tx, v.Queue, v.TaskType.BackendName, visits, now)
	})
}

// Messages sends the first messages, of a task type, up to the free slots of a queue with a limit (0: none). A queue
// with lanes uses their slots instead.
func (s *Sender) Messages(ctx context.Context, tt model.TaskType, name string, limit int64, all []celery.TaskMessage) (int, error) {
	queue, shared := s.queue(name, &limit, tt)
	return s.claim(ctx, queue, func(ctx context.Context, c *dispatch.Claim) ([]ledger.Work, error) {
		work, now := make([]ledger.Work, min(c.Size, len(all))), c.Tx.Now()
		for i := range work {
			id, err := uuid.Parse(all[i].ID)
			if err != nil {
				return nil, err
			}
			work[i] = ledger.Work{TaskID: id, Home: name, TaskName: all[i].Name, Args: all[i].Args, Kwargs: all[i].Kwargs, Claimed: now}
		}
		if shared == nil {
			return work, nil
		}
		return work, dispatch.ShareWork(ctx, c.Tx, *shared, tt.Type, work, now)
	})
}
