package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

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
