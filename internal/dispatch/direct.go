package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/celery"
	"swh-scheduler/internal/model"
)

// PublishWait is how long Direct waits for the broker.
const PublishWait = 30 * time.Second

// Direct sends messages within the free slots of queues without the ledger, as the Python
// scheduler does: for a scheduler that is an RPC server. What is being sent when a process
// dies may be lost, and senders that count the same slots fill them twice.
type Direct struct {
	Publisher *celery.Publisher // its MaxWait is PublishWait
	Inspector *celery.QueueInspector

	// Rest is how long a queue that fails has no free slots: what is marked as sent for one that
	// refuses messages is lost, try by try.
	Rest    time.Duration
	resting sync.Map // until when a queue rests (time.Time), by its name
}

func (d *Direct) Close() error { return errors.Join(d.Publisher.Close(), d.Inspector.Close()) }

// failed notes that a queue rests, if err is about it.
func (d *Direct) failed(queue string, err error) {
	if celery.IsOfQueue(err) {
		d.resting.Store(queue, time.Now().Add(d.Rest))
	}
}

// Free counts the free slots of a queue with a limit (nil or 0: none). One that can't be
// asked is an error, whatever its limit; one that rests has none.
func (d *Direct) Free(ctx context.Context, queue string, limit *int64) (int, error) {
	if until, ok := d.resting.Load(queue); ok && time.Now().Before(until.(time.Time)) {
		return 0, nil
	}
	length, err := d.Inspector.Length(ctx, queue, 0)
	if err != nil {
		d.failed(queue, err)
		return 0, fmt.Errorf("count the free slots of queue %q: %w", queue, err)
	}
	if limit == nil || *limit <= 0 {
		return MaxClaim, nil
	}
	return freeSlots(*limit, length.Messages()), nil
}

// Ready makes sure that the broker is there, and has the queue. It precedes what marks work
// as sent.
func (d *Direct) Ready(ctx context.Context, queue string) error {
	ctx, cancel := context.WithTimeout(ctx, PublishWait)
	defer cancel()
	if err := d.Publisher.Connect(ctx); err != nil {
		return err
	}
	err := d.Publisher.DeclareQueue(ctx, queue)
	d.failed(queue, err)
	return err
}

// Publish sends messages to a queue, and returns the error of each that was not sent, in
// their order.
func (d *Direct) Publish(ctx context.Context, queue string, messages []celery.TaskMessage) []error {
	for i := range messages {
		messages[i].Queue = queue
	}
	errs := d.Publisher.Publish(ctx, messages)
	for _, err := range errs {
		d.failed(queue, err)
	}
	return errs
}

// Visits sends a task of a name for each of some origins, which the caller has marked as
// scheduled, and returns how many it sent.
func (d *Direct) Visits(ctx context.Context, from Listers, queue, taskName string, origins []model.ListedOrigin) (int, error) {
	kwargs, err := LoaderKwargs(ctx, from, origins)
	if err != nil {
		return 0, err
	}
	messages := make([]celery.TaskMessage, len(origins))
	for i := range origins {
		messages[i] = celery.TaskMessage{ID: uuid.NewString(), Name: taskName, Args: noArgs, Kwargs: kwargs[i]}
	}
	return d.Send(ctx, queue, messages)
}

// Send is Publish with one error for all, and the number of messages sent.
func (d *Direct) Send(ctx context.Context, queue string, messages []celery.TaskMessage) (sent int, err error) {
	var first error
	for _, err := range d.Publish(ctx, queue, messages) {
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
