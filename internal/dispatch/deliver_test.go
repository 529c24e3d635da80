package dispatch_test

import (
	"context"
	"testing"
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
	if err := b.store.Pool().QueryRow(t.Context(), `select array_agg(task_id::text order by id) from scheduler_go.outbox`).Scan(&left); err != nil {
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
