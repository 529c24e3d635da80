package dispatch_test

import (
	"context"
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
)

// A queue that the broker does not let us declare keeps its own messages in the
// outbox, for the next try; those of other queues are sent.
func TestQueueThatCannotBeDeclaredHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const reserved = "amq.reserved" // RabbitMQ refuses to declare names that begin so
	kept := b.enqueue(t, reserved, 1)
	want := b.enqueue(t, "good", 10)
	kept = append(kept, b.enqueue(t, reserved, 2)...)
	done, err := b.deliverer(t, b.publisher).Drain(t.Context())
	if err == nil || done.Confirmed != 10 || done.Refused != 0 {
		t.Fatalf("%+v, %v, want 10 confirmed and the refusal", done, err)
	}
	assertSame(t, b.received(t, "good"), want)
	var left []string
	if err := b.store.Pool().QueryRow(t.Context(), `select array_agg(task_id::text order by place) from scheduler_go.work`).Scan(&left); err != nil {
		t.Fatal(err)
	}
	assertSame(t, left, kept)
}

// A deliverer that is told to stop when the broker has just confirmed a batch still
// deletes its rows: it gives up neither the commit nor its connection.
func TestStopKeepsTheCommitOfWhatWasConfirmed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	want := b.enqueue(t, "q", 100)
	ctx, stop := context.WithCancel(t.Context())
	stopped := &faultyPublisher{Publisher: b.publisher, after: stop}
	done, _ := b.deliverer(t, stopped).Drain(ctx)
	if done.Confirmed != 100 || b.outbox(t) != 0 {
		t.Errorf("%+v, %d rows left in the outbox", done, b.outbox(t))
	}
	assertSame(t, b.received(t, "q"), want)
}

// A message that its queue rejects, as it is full, is put off; it is no outage, and
// holds up no other.
func TestRejectedMessageIsPutOff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, err := b.channel(t).QueueDeclare("full", true, false, false, false, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	full := b.enqueue(t, "full", 2)
	want := b.enqueue(t, "good", 5)
	done, err := b.deliverer(t, b.publisher).Drain(t.Context())
	if err != nil || done.Confirmed != 6 || done.Refused != 1 {
		t.Fatalf("%+v, %v, want 6 confirmed and 1 refused", done, err)
	}
	assertSame(t, b.received(t, "good"), want)
	assertSame(t, b.received(t, "full"), full[:1])
	var left string
	if err := b.store.Pool().QueryRow(t.Context(), `select task_id::text from scheduler_go.work
		where attempts = 1 and last_error <> '' and not_before > now()`).Scan(&left); err != nil || left != full[1] {
		t.Errorf("%s is put off, want %s (%v)", left, full[1], err)
	}
}

// halfPublisher sends the first half of each batch, and knows nothing of the rest.
type halfPublisher struct{ *celery.Publisher }

func (p halfPublisher) Publish(ctx context.Context, m []celery.TaskMessage) []error {
	errs := p.Publisher.Publish(ctx, m[:len(m)/2])
	for range m[len(m)/2:] {
		errs = append(errs, errors.New("not confirmed"))
	}
	return errs
}

// What the broker has not confirmed stays in the outbox as it was, and is sent next;
// what it has is gone.
func TestUnconfirmedMessagesStay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	want := b.enqueue(t, "q", 10)
	done, err := b.deliverer(t, halfPublisher{b.publisher}).Drain(t.Context())
	if err == nil || done.Confirmed < 5 || done.Confirmed+b.outbox(t) != 10 {
		t.Fatalf("%+v, %v, %d rows left", done, err, b.outbox(t))
	}
	if _, err := b.deliverer(t, b.publisher).Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	assertSame(t, b.received(t, "q"), want)
}
