package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/testenv"
)

// The gauges show the messages and consumers of each queue, also without claims, and omit deleted queues.
func TestQueueGauges(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ch := b.channel(t)
	for _, queue := range []string{"express:load", "gone"} {
		testenv.Declare(t, ch, queue, nil)
		testenv.Put(t, ch, queue, amqp.Publishing{})
	}
	reg := prometheus.NewRegistry()
	g := dispatch.QueueGauges{Observer: b.inspector, Log: slog.New(slog.DiscardHandler), Queues: func(context.Context) ([]string, error) {
		return []string{"express:load", "gone", "never there"}, nil
	}}
	g.Register(reg, nil)
	shows := func(lines ...string) {
		t.Helper()
		testenv.Becomes(t, "the gauges", nil, func() error {
			if err := g.RunOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := "# HELP swh_scheduler_queue_consumers Number of consumers of a queue.\n# TYPE swh_scheduler_queue_consumers gauge\n"
			return testutil.GatherAndCompare(reg, strings.NewReader(want+strings.Join(lines, "\n")+"\n"), "swh_scheduler_queue_consumers")
		})
	}
	consumers := func(queue string, n int) string {
		return fmt.Sprintf("swh_scheduler_queue_consumers{queue=%q} %d", queue, n)
	}
	shows(consumers("express:load", 0), consumers("gone", 0))
	if n := testutil.CollectAndCount(reg, "swh_scheduler_queue_messages"); n != 2 {
		t.Errorf("messages of %d queues", n)
	}
	if _, err := ch.Consume("express:load", "", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDelete("gone", false, false, false); err != nil {
		t.Fatal(err)
	}
	shows(consumers("express:load", 1))
	if n := testutil.CollectAndCount(reg, "swh_scheduler_queue_messages"); n != 1 {
		t.Errorf("messages of %d queues, one is left", n)
	}
}

// A thousand queues are observed some at a time, as claims wait for answers, too. If the broker is slow, the rest are
// observed together.
func TestQueueGaugesAskSlowly(t *testing.T) {
	var queues []string
	for n := range 1000 {
		queues = append(queues, fmt.Sprint("queue-", n))
	}
	for name, tc := range map[string]struct {
		answer      time.Duration // the broker's time for an Observe
		most        int           // queues of an Observe
		least, last time.Duration // of the whole
	}{
		"fast": {10 * time.Millisecond, 16, 10 * time.Second, 15 * time.Second},
		"slow": {5 * time.Second, 1000, 15 * time.Second, 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broker := &slowBroker{answer: tc.answer}
				reg := prometheus.NewRegistry()
				g := dispatch.QueueGauges{Observer: broker, Log: slog.New(slog.DiscardHandler), Queues: func(context.Context) ([]string, error) { return queues, nil }}
				g.Register(reg, nil)
				began := time.Now()
				if err := g.RunOnce(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < tc.least || took > tc.last || broker.most > tc.most {
					t.Errorf("it took %v, up to %d queues were observed together", took, broker.most)
				}
				if n := testutil.CollectAndCount(reg, "swh_scheduler_queue_consumers"); n != 1000 {
					t.Errorf("%d queues are shown", n)
				}
			})
		})
	}
}

// slowBroker is an Observer of queues without messages.
type slowBroker struct {
	answer time.Duration
	most   int // queues observed together
}

func (b *slowBroker) Observe(_ context.Context, now func() time.Time, queues []string, _ bool) map[string]celery.Observation {
	time.Sleep(b.answer)
	b.most = max(b.most, len(queues))
	observed := make(map[string]celery.Observation)
	for _, queue := range queues {
		observed[queue] = celery.Observation{Asked: now(), Exists: true}
	}
	return observed
}
