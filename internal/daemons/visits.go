package daemons

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/celery"
	"swh-scheduler/internal/backend"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// Visits says which visits are sent to which queue, up to its free slots.
type Visits struct {
	Filter   model.VisitFilter
	TaskType model.TaskType
	Queue    string
}

// Sender sends visits and other messages within the free slots of queues. Its methods
// return the number of messages sent.
type Sender interface {
	Visits(ctx context.Context, v Visits) (int, error)
	// Messages sends the first messages, of a task type, up to the free slots of a queue
	// with a limit (0: none). A queue with lanes has their slots instead.
	Messages(ctx context.Context, tt model.TaskType, queue string, limit int64, all []celery.TaskMessage) (int, error)
}

// NewSender makes a sender; stop ends it. With a database, messages go through the ledger.
// Otherwise they are published directly, as the Python scheduler does: visits that do not
// reach the broker wait for the cooldown of scheduled visits.
func (o *Options) NewSender(ctx context.Context, b backend.Scheduler) (send Sender, stop func() error, err error) {
	broker, err := o.Config.Broker()
	if err != nil {
		return nil, nil, err
	}
	if db, ok := b.(backend.Database); ok {
		d := o.newDispatcher(db.Store, broker)
		return ledgerSender{o, d}, d.close, db.CheckVersion(ctx)
	}
	direct := o.direct(broker)
	return directSender{b.(backend.Remote), direct}, direct.Close, nil
}

// SendVisits fills each queue with visits once.
func (o *Options) SendVisits(ctx context.Context, b backend.Scheduler, all ...Visits) error {
	send, stop, err := o.NewSender(ctx, b)
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

// ledgerSender claims into the ledger and delivers from there.
type ledgerSender struct {
	options    *Options
	dispatcher *dispatcher
}

func (s ledgerSender) claim(ctx context.Context, queue dispatch.Queue, claim dispatch.ClaimFunc) (n int, err error) {
	err = s.options.sendOnce(ctx, s.dispatcher, sender{once: func(ctx context.Context) (int, error) {
		n, err = s.dispatcher.slots.Claim(ctx, queue, claim)
		return n, err
	}})
	return n, err
}

// queue returns a queue for work of a task type with the lanes and shares that are configured
// for it; shared is nil if it is not shared.
func (s ledgerSender) queue(name string, limit *int64, tt model.TaskType) (queue dispatch.Queue, shared *dispatch.SharedQueue) {
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

func (s ledgerSender) Visits(ctx context.Context, v Visits) (int, error) {
	queue, shared := s.queue(v.Queue, v.TaskType.MaxQueueLength, v.TaskType)
	return s.claim(ctx, queue, func(ctx context.Context, tx *db.Tx, free int) (dispatch.Claimed, error) {
		now := tx.Now()
		origins, err := tx.GrabNextVisits(ctx, v.Filter, now, free, false)
		if err != nil {
			return dispatch.Claimed{}, err
		}
		visits := dispatch.Visits(origins)
		if shared != nil && shared.Shares.By.OfVisits() {
			if err := dispatch.ShareVisits(ctx, tx, *shared, visits, now); err != nil {
				return dispatch.Claimed{}, err
			}
		}
		work, err := dispatch.VisitWork(ctx, tx, v.Queue, v.TaskType.BackendName, visits, now)
		return dispatch.Claimed{Work: work}, err
	})
}

func (s ledgerSender) Messages(ctx context.Context, tt model.TaskType, name string, limit int64, all []celery.TaskMessage) (int, error) {
	queue, shared := s.queue(name, &limit, tt)
	return s.claim(ctx, queue, func(ctx context.Context, tx *db.Tx, free int) (dispatch.Claimed, error) {
		work, now := make([]db.Work, min(free, len(all))), tx.Now()
		for i := range work {
			id, err := uuid.Parse(all[i].ID)
			if err != nil {
				return dispatch.Claimed{}, err
			}
			work[i] = db.Work{TaskID: id, Home: name, TaskName: all[i].Name, Args: all[i].Args, Kwargs: all[i].Kwargs, Claimed: now}
		}
		if shared != nil {
			if err := dispatch.ShareWork(ctx, tx, *shared, tt.Type, work, now); err != nil {
				return dispatch.Claimed{}, err
			}
		}
		return dispatch.Claimed{Work: work}, nil
	})
}

// directSender publishes without the ledger.
type directSender struct {
	backend backend.Remote
	*dispatch.Direct
}

func (s directSender) Visits(ctx context.Context, v Visits) (int, error) {
	free, err := s.Free(ctx, v.Queue, v.TaskType.MaxQueueLength)
	if err != nil || free == 0 {
		return 0, err
	}
	if err := s.Ready(ctx, v.Queue); err != nil { // grabbing marks visits as scheduled
		return 0, err
	}
	origins, err := s.backend.GrabNextVisits(ctx, v.Filter, time.Now(), free, false)
	if err != nil {
		return 0, err
	}
	return s.Direct.Visits(ctx, s.backend, v.Queue, v.TaskType.BackendName, origins)
}

func (s directSender) Messages(ctx context.Context, _ model.TaskType, queue string, limit int64, all []celery.TaskMessage) (int, error) {
	free, err := s.Free(ctx, queue, &limit)
	if err != nil || free == 0 || len(all) == 0 {
		return 0, err
	}
	if err := s.Ready(ctx, queue); err != nil {
		return 0, err
	}
	return s.Send(ctx, queue, all[:min(free, len(all))])
}
