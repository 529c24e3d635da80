package dispatch_test

import (
	"context"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

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

// work takes messages and acknowledges them until ctx ends.
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

// eventually waits for a state that another goroutine brings about.
func eventually(t *testing.T, reached func() bool) {
	t.Helper()
	deadline := time.After(5 * time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !reached() {
		select {
		case <-deadline:
			t.Fatal("not reached within five minutes")
		case <-tick.C:
		}
	}
}

func hostPort(t *testing.T, brokerURL string) string {
	t.Helper()
	u, err := url.Parse(brokerURL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func withHost(t *testing.T, brokerURL, host string) string {
	t.Helper()
	u, err := url.Parse(brokerURL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = host
	return u.String()
}
