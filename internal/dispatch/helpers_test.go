package dispatch_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
)

// prefetch is how many messages the worker of these tests takes at a time.
const prefetch = 5

// countingPublisher counts what the broker confirms.
type countingPublisher struct {
	*celery.Publisher
	confirmed *atomic.Int64
}

func (p *countingPublisher) Publish(ctx context.Context, m []celery.TaskMessage) []error {
	errs := p.Publisher.Publish(ctx, m)
	for _, err := range errs {
		if err == nil {
			p.confirmed.Add(1)
		}
	}
	return errs
}

// work receives messages and acknowledges them until ctx ends.
func (b *bench) work(t *testing.T, ctx context.Context, queue string, acknowledged *atomic.Int64) {
	conn, err := amqp.Dial(b.broker.URL)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Error(err)
		return
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		t.Error(err)
		return
	}
	deliveries, err := ch.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil)
	if err != nil {
		t.Error(err)
		return
	}
	for d := range deliveries {
		if err := d.Ack(false); err != nil {
			return
		}
		acknowledged.Add(1)
	}
}

func assertSame(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %d messages, %d of them different, want %d in order", len(got), len(set(got)), len(want))
	}
}

func set(ids []string) map[string]bool {
	s := make(map[string]bool)
	for _, id := range ids {
		s[id] = true
	}
	return s
}
