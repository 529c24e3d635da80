package dispatch_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/testenv"
)

// read has somebody read a queue until the test ends.
func (l *laned) read(queue string) {
	l.t.Helper()
	if _, err := l.channel(l.t).Consume(queue, "", false, false, false, false, nil); err != nil {
		l.t.Fatal(err)
	}
}

// Within a minute, nothing more is sent to a lane that nobody reads, if another one is read:
// that takes what waits, and later what is in the queue. When somebody reads it, it gets work again.
func TestUnreadLanesGetNothing(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(2, 2)...)
	l.slots.SetNow(func() time.Time { return l.now })
	for _, queue := range l.q.Lanes.Queues() {
		if err := l.publisher.DeclareQueue(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
	}
	l.read(lanedQueue)
	l.claim(1)
	if diff := cmp.Diff([]int{0}, numbers(l.outboxOf("express:"+lanedQueue))); diff != "" {
		t.Fatalf("a lane without workers at first (-want +got):\n%s", diff)
	}
	if _, _, err := l.deliverer.Round(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	l.now = l.now.Add(time.Minute)
	l.claim(2)
	if express, slow := numbers(l.outboxOf("express:"+lanedQueue)), numbers(l.outboxOf(lanedQueue)); len(express) != 0 || len(slow) != 2 {
		t.Fatalf("a minute later %v are sent to the lane that nobody reads, %v to the other", express, slow)
	}

	// After ten minutes what is in its queue, and is ours, goes to the other one, too.
	testenv.Put(t, l.channel(t), "express:"+lanedQueue, amqp.Publishing{CorrelationId: "another's"})
	reg, queues := prometheus.NewRegistry(), []dispatch.Queue{l.q}
	l.slots.Register(reg)
	pump := dispatch.NewLanePump(dispatch.LanePumpOptions{
		Store: l.store, Slots: l.slots, Log: slog.New(slog.DiscardHandler), Reg: reg, Recall: l.inspector.Recall,
		Queues: func(context.Context) ([]dispatch.Queue, error) { return queues, nil },
	})
	l.exec("delete from scheduler_go.work where queue = $1", lanedQueue) // which has room again
	l.now = l.now.Add(10 * time.Minute)
	for range 2 {
		if err := pump.RunOnce(t.Context(), l.now); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]int{0}, numbers(l.outboxOf(lanedQueue))); diff != "" {
		t.Errorf("recalled (-want +got):\n%s", diff)
	}
	if length, err := l.inspector.Length(t.Context(), "express:"+lanedQueue, 0); err != nil || length.Ready != 1 {
		t.Errorf("the queue holds %+v, %v; want the message that is not ours", length, err)
	}

	if err := l.inspector.Recall(t.Context(), "none", 1, nil); err != nil {
		t.Errorf("a queue that is not there: %v", err)
	}

	l.sent()
	l.read("express:" + lanedQueue)
	l.claim(1)
	if diff := cmp.Diff([]int{3}, numbers(l.outboxOf("express:"+lanedQueue))); diff != "" {
		t.Errorf("when somebody reads it (-want +got):\n%s", diff)
	}

	// Lanes that were taken out of the configuration are shown no more: no alert stands on them.
	for _, want := range []int{2, 0} {
		if n, err := testutil.GatherAndCount(reg, "swh_scheduler_lane_unread"); n != want || err != nil {
			t.Errorf("%d lanes are shown, %v, want %d", n, err, want)
		}
		queues = nil
		if err := pump.RunOnce(t.Context(), l.now.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
}
