package dispatch_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/testenv"
)

// A queue that the broker refuses to declare is backed off with its messages. Those of other queues are sent.
func TestQueueThatCannotBeDeclaredHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const reserved = "amq.reserved" // RabbitMQ refuses to declare names that begin so
	kept := b.enqueue(t, reserved, 1)
	want := b.enqueue(t, "good", 10)
	kept = append(kept, b.enqueue(t, reserved, 2)...)
	done, err := b.deliverer(t, b.publisher).Drain(t.Context())
	if err != nil || done.Confirmed != 10 || done.Refused != 3 {
		t.Fatalf("%+v, %v, want 10 confirmed and 3 refused", done, err)
	}
	assertSame(t, b.received(t, "good"), want)
	left := testenv.Value[[]string](t, b.store.Pool(), `select array_agg(task_id::text order by place) from scheduler_go.work
		where attempts = 1 and last_error like '%amq.reserved%' and not_before > now()`)
	assertSame(t, left, kept)
}

// countingCalls counts what the deliverer does to the broker.
type countingCalls struct {
	*celery.Publisher
	messages atomic.Int64
}

func (p *countingCalls) Publish(ctx context.Context, m []celery.TaskMessage) []error {
	p.messages.Add(int64(len(m)))
	return p.Publisher.Publish(ctx, m)
}

// A queue rejects thousands of messages. After each back-off, a pass tries at most two batches of them, and sends
// all messages of other queues. When the queue has room, all its messages arrive.
func TestRejectingQueueIsBackedOffWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ch := b.channel(t)
	testenv.Declare(t, ch, "full", amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	full := b.enqueue(t, "full", 3000)
	want := b.enqueue(t, "good", 1000)
	p := &countingCalls{Publisher: b.publisher}
	d := b.deliverer(t, p)
	began := time.Now()
	done, err := d.Drain(t.Context())
	if err != nil || done.Confirmed != 1001 {
		t.Fatalf("%+v, %v, want 1001 confirmed", done, err)
	}
	tries := 1 // the delay doubles
	for since, delay := time.Since(began), time.Second; since > delay; delay *= 2 {
		since, tries = since-delay, tries+1
	}
	if n := p.messages.Load(); n > int64(1000+tries*2*dispatch.DeliverBatch) {
		t.Errorf("%d messages tried in %s, of which 1000 are for the good queue", n, time.Since(began))
	}
	assertSame(t, b.received(t, "good"), want)
	if _, err := ch.QueueDelete("full", false, false, false); err != nil {
		t.Fatal(err)
	}
	stop := testenv.Run(t, d.Run)
	testenv.Becomes(t, "outgoing messages", 0, func() int { return b.outbox(t) })
	stop()
	// The first one went with the queue.
	if got := b.received(t, "full"); len(got) != len(full)-1 || len(set(got)) != len(got) {
		t.Errorf("%d messages, %d different, want %d", len(got), len(set(got)), len(full)-1)
	}
}

// A deliverer that is stopped just after the broker confirmed a batch still deletes its rows: it aborts neither
// the commit nor its connection.
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

// A message that a full queue rejects is backed off. It counts as no outage and delays no other message.
func TestRejectedMessageIsBackedOff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	testenv.Declare(t, b.channel(t), "full", amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	full := b.enqueue(t, "full", 2)
	want := b.enqueue(t, "good", 5)
	done, err := b.deliverer(t, b.publisher).Drain(t.Context())
	if err != nil || done.Confirmed != 6 || done.Refused != 1 {
		t.Fatalf("%+v, %v, want 6 confirmed and 1 refused", done, err)
	}
	assertSame(t, b.received(t, "good"), want)
	assertSame(t, b.received(t, "full"), full[:1])
	if left := testenv.Value[string](t, b.store.Pool(), `select task_id::text from scheduler_go.work
		where attempts = 1 and last_error <> '' and not_before > now()`); left != full[1] {
		t.Errorf("%s is backed off, want %s", left, full[1])
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

// Unconfirmed messages stay outgoing and are sent again next. The rows of confirmed ones are deleted.
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

// endlessPublisher takes all messages, and has as many written as it takes, for a while.
type endlessPublisher struct {
	t       *testing.T
	b       *bench
	left    atomic.Int64 // batches to write
	written atomic.Int64 // messages
	taken   atomic.Int64
}

func (*endlessPublisher) DeclareQueue(context.Context, string) error { return nil }

func (p *endlessPublisher) Publish(_ context.Context, m []celery.TaskMessage) []error {
	p.taken.Add(int64(len(m)))
	if p.left.Add(-1) >= 0 {
		p.written.Add(int64(len(p.b.enqueue(p.t, "q", dispatch.DeliverBatch))))
	}
	return make([]error, len(m))
}

// If messages arrive as fast as they are sent, a round ends after its time, and the next one continues. A loop
// whose round doesn't end would count as stuck.
func TestRoundEndsUnderConstantSupply(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const batches = 12
	p := &endlessPublisher{t: t, b: b}
	p.left.Store(batches)
	p.written.Add(int64(len(b.enqueue(t, "q", 2*dispatch.DeliverBatch))))
	d := b.deliverer(t, p)
	over := make(chan time.Time, 1)
	over <- time.Time{}
	done, more, err := d.Round(t.Context(), over)
	if err != nil || !more || p.left.Load() < 0 {
		t.Fatalf("%+v, more: %t, %v: the round ended when nothing was left", done, more, err)
	}
	if _, more, err := d.Round(t.Context(), nil); err != nil || more || p.taken.Load() != p.written.Load() || b.outbox(t) != 0 {
		t.Errorf("%v, more: %t: %d of %d messages were taken", err, more, p.taken.Load(), p.written.Load())
	}
}
