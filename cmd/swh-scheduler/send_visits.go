package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

func newSendFromScheduler(a *app) *cobra.Command {
	var filter visitFilterFlags
	var queue string
	cmd := &cobra.Command{
		Use:   "send-origins-from-scheduler-to-celery [OPTIONS] VISIT_TYPE_NAME",
		Short: "Send next origin visits of VISIT_TYPE_NAME to celery, filling the queue",
		Long: `Send next origin visits of VISIT_TYPE_NAME to celery, filling the queue up to the
limit of the task type. In its own queue, they go by its lanes, and count for the
groups that share it, which they are not divided between.`,
		Args:                  arguments(false, false, "VISIT_TYPE_NAME"),
		DisableFlagsInUseLine: true,
	}
	filter.flags(cmd.Flags())
	cmd.Flags().StringVarP(&queue, "queue", "q", "", "target celery `QUEUE` (default that of the task type)")
	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		f, err := filter.filter(args[0])
		if err != nil {
			return err
		}
		return a.withBackend(cmd, func(ctx context.Context, b backend) error {
			tt, err := b.TaskType(ctx, scheduler.LoaderTaskType(args[0]))
			if errors.Is(err, scheduler.ErrUnknownTaskType) {
				return usagef(cmd, "Unknown task type %s.", scheduler.LoaderTaskType(args[0]))
			}
			if err != nil {
				return err
			}
			if queue == "" {
				queue = tt.BackendName
			}
			return a.sendVisits(cmd, b, []visits{{filter: f, taskType: tt, queue: queue}})
		})
	})
	return cmd
}

// visits are to be sent to a queue, as many as have room in it.
type visits struct {
	filter   scheduler.VisitFilter
	taskType scheduler.TaskType
	queue    string
}

// sendVisits fills queues with visits, once each.
func (a *app) sendVisits(cmd *cobra.Command, b backend, all []visits) error {
	send, stop, err := a.newSender(cmd, b)
	if err != nil {
		return err
	}
	for _, v := range all {
		var n int
		if n, err = send.visits(cmd.Context(), v); err != nil {
			break
		}
		a.log.Info("visits sent", "visit_type", v.filter.VisitType, "queue", v.queue, "visits", n)
	}
	return errors.Join(err, stop())
}

// messageSender sends visits and other messages within the free slots of queues,
// and says how many it sent.
type messageSender interface {
	visits(ctx context.Context, v visits) (int, error)
	// messages sends the first of some messages for a queue of a limited length
	// (0: none), as many as have room.
	messages(ctx context.Context, queue string, limit int64, all []celery.TaskMessage) (int, error)
}

// newSender makes a sender; stop ends it. With a database, messages go through
// the outbox. Without one they are published directly, as the peer does it:
// what is marked as scheduled then and doesn't reach the broker waits for the
// cooldown of scheduled visits.
func (a *app) newSender(cmd *cobra.Command, b backend) (send messageSender, stop func() error, err error) {
	if db, ok := b.(database); ok {
		d, err := a.newDispatcher(cmd, db.Store)
		if err != nil {
			return nil, nil, err
		}
		return outboxSender{a, d}, d.close, db.CheckVersion(cmd.Context())
	}
	broker, err := a.broker()
	if err != nil {
		return nil, nil, err
	}
	connection := celery.ConnectionOptions{Name: "swh-scheduler " + cmd.Name()}
	direct := directSender{
		backend:   b.(remote),
		publisher: celery.NewPublisher(broker, celery.PublisherOptions{ConnectionOptions: connection, Logger: a.log, MaxWait: publishWait}),
		inspector: celery.NewQueueInspector(broker, string(a.config.RabbitMQ.ManagementURL), celery.InspectorOptions{ConnectionOptions: connection, Logger: a.log}),
	}
	return direct, func() error { return errors.Join(direct.publisher.Close(), direct.inspector.Close()) }, nil
}

// publishWait is how long a command waits for a broker that is away.
const publishWait = 30 * time.Second

// outboxSender claims into the outbox and delivers what is there.
type outboxSender struct {
	app        *app
	dispatcher *dispatcher
}

func (s outboxSender) claim(ctx context.Context, queue dispatch.Queue, claim func(ctx context.Context, tx *sql.Tx, free int) (int, error)) (n int, err error) {
	err = s.app.sendOnce(ctx, s.dispatcher, sender{once: func(ctx context.Context) (int, error) {
		n, err = s.dispatcher.slots.Claim(ctx, queue, claim)
		return n, err
	}})
	return n, err
}

func (s outboxSender) visits(ctx context.Context, v visits) (int, error) {
	queue := dispatch.Queue{Name: v.queue, Limit: v.taskType.MaxQueueLength}
	shares, shared := s.app.config.Shares[v.taskType.Type]
	if v.queue == v.taskType.BackendName {
		queue = queue.OnLanes(v.taskType.Type, v.taskType, s.app.config.Lanes)
	} else {
		shared = false // it is the type's own queue that groups share
	}
	return s.claim(ctx, queue, func(ctx context.Context, tx *sql.Tx, free int) (int, error) {
		origins, err := tx.GrabNextVisits(ctx, v.filter, time.Now(), free, false)
		if err != nil {
			return 0, err
		}
		if shared && shares.By.OfVisits() {
			q := dispatch.SharedQueue{Name: v.queue, Shares: shares}
			return len(origins), dispatch.EnqueueGroupedVisits(ctx, tx, q, v.taskType.BackendName, origins, time.Now())
		}
		return len(origins), dispatch.EnqueueVisits(ctx, tx, v.queue, v.taskType.BackendName, origins)
	})
}

func (s outboxSender) messages(ctx context.Context, queue string, limit int64, all []celery.TaskMessage) (int, error) {
	return s.claim(ctx, dispatch.Queue{Name: queue, Limit: &limit}, func(ctx context.Context, tx *sql.Tx, free int) (int, error) {
		rows := make([]sql.OutboxRow, min(free, len(all)))
		for i := range rows {
			id, err := uuid.Parse(all[i].ID)
			if err != nil {
				return 0, err
			}
			rows[i] = sql.OutboxRow{Queue: queue, TaskID: id, TaskName: all[i].Name, Args: all[i].Args, Kwargs: all[i].Kwargs}
		}
		return len(rows), tx.EnqueueMessages(ctx, rows)
	})
}

// directSender publishes without an outbox.
type directSender struct {
	backend   remote
	publisher *celery.Publisher
	inspector *celery.QueueInspector
}

// free counts the free slots of a queue.
func (s directSender) free(ctx context.Context, queue string, limit int64) (int, error) {
	if limit <= 0 {
		return dispatch.MaxClaim, nil
	}
	length, err := s.inspector.Length(ctx, queue, 0)
	if err != nil {
		return 0, fmt.Errorf("count the free slots of queue %q: %w", queue, err)
	}
	return int(max(0, min(limit-int64(length.Messages()), dispatch.MaxClaim))), nil
}

func (s directSender) visits(ctx context.Context, v visits) (int, error) {
	limit := int64(0)
	if v.taskType.MaxQueueLength != nil {
		limit = *v.taskType.MaxQueueLength
	}
	free, err := s.free(ctx, v.queue, limit)
	if err != nil || free == 0 {
		return 0, err
	}
	// Visits are marked first: see that somebody is there to take them.
	connecting, cancel := context.WithTimeout(ctx, publishWait)
	defer cancel()
	if err := s.publisher.Connect(connecting); err != nil {
		return 0, err
	}
	origins, err := s.backend.GrabNextVisits(ctx, v.filter, time.Now(), free, false)
	if err != nil {
		return 0, err
	}
	kwargs, err := dispatch.LoaderKwargs(ctx, s.backend, origins)
	if err != nil {
		return 0, err
	}
	messages := make([]celery.TaskMessage, len(origins))
	for i := range origins {
		messages[i] = celery.TaskMessage{ID: uuid.NewString(), Name: v.taskType.BackendName, Args: json.RawMessage("[]"), Kwargs: kwargs[i]}
	}
	return s.publish(ctx, v.queue, messages)
}

func (s directSender) messages(ctx context.Context, queue string, limit int64, all []celery.TaskMessage) (int, error) {
	free, err := s.free(ctx, queue, limit)
	if err != nil {
		return 0, err
	}
	return s.publish(ctx, queue, all[:min(free, len(all))])
}

func (s directSender) publish(ctx context.Context, queue string, messages []celery.TaskMessage) (int, error) {
	if len(messages) == 0 {
		return 0, nil
	}
	if err := s.publisher.DeclareQueue(ctx, queue); err != nil {
		return 0, err
	}
	for i := range messages {
		messages[i].Queue = queue
	}
	sent := 0
	var first error
	for _, err := range s.publisher.Publish(ctx, messages) {
		if err == nil {
			sent++
		} else if first == nil {
			first = err
		}
	}
	if first != nil {
		return sent, fmt.Errorf("%d of %d messages for queue %q were not sent: %w", len(messages)-sent, len(messages), queue, first)
	}
	return sent, nil
}
