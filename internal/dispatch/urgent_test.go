package dispatch_test

import (
	"context"
	"sync"
	"testing"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// stuckPublisher doesn't end to publish for the queue "bulk" until it is released.
type stuckPublisher struct {
	*celery.Publisher
	stuck, release chan struct{}
	once           sync.Once
}

func (p *stuckPublisher) Publish(ctx context.Context, m []celery.TaskMessage) []error {
	if len(m) > 0 && m[0].Queue == "bulk" { // none are left if their queue could not be declared
		p.once.Do(func() { close(p.stuck) })
		<-p.release
	}
	return p.Publisher.Publish(context.WithoutCancel(ctx), m)
}

// An urgent message is sent while batches of others are being sent, by any process.
func TestUrgentMessagesDontWaitForOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	bulk := b.enqueue(t, "bulk", 3*dispatch.DeliverBatch)
	p := &stuckPublisher{Publisher: b.publisher, stuck: make(chan struct{}), release: make(chan struct{})}
	d := b.deliverer(t, p)
	stop := testenv.Run(t, d.Run)
	<-p.stuck
	urgent, ids := messages("save_code_now:q", 1)
	urgent[0].Urgent = true
	if err := b.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error { return tx.AddWork(ctx, urgent) }); err != nil {
		t.Fatal(err)
	}
	d.Wake()
	testenv.Becomes(t, "outgoing messages", len(bulk), func() int { return b.outbox(t) })
	assertSame(t, b.received(t, "save_code_now:q"), ids)
	close(p.release)
	testenv.Becomes(t, "outgoing messages", 0, func() int { return b.outbox(t) })
	assertSame(t, b.received(t, "bulk"), bulk)
	stop()
}
