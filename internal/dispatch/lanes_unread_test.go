package dispatch_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"swh-scheduler/internal/dispatch"
)

// read consumes a queue until the test ends.
func (l *laned) read(queue string) {
	l.t.Helper()
	if _, err := l.channel(l.t).Consume(queue, "", false, false, false, false, nil); err != nil {
		l.t.Fatal(err)
	}
}

// A lane scaled to zero workers keeps its slots, so that an autoscaler sees its messages in the queue. Further
// work waits in its backlog.
func TestLanesWithoutWorkersHaveTheirSlots(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(20, 3)...)
	l.slots.SetNow(func() time.Time { return l.now })
	for _, lane := range l.q.Lanes.Lanes {
		if err := l.publisher.DeclareQueue(t.Context(), lane.Queue); err != nil {
			t.Fatal(err)
		}
	}
	l.read("express:" + lanedQueue)
	l.claim(5)
	express := l.outboxOf("express:" + lanedQueue)
	if len(express) != 5 {
		t.Fatalf("%v are sent to the express lane, want 5", numbers(express))
	}
	l.sent()
	l.now = l.now.Add(75 * time.Second)
	l.keep()
	for _, p := range express {
		l.apply(l.start(p.id), l.over(p.id, time.Minute))
	}
	l.keep()
	if diff := cmp.Diff([]int{0, 1, 2}, numbers(l.outboxOf(lanedQueue))); diff != "" {
		t.Errorf("sent to the lane without workers (-want +got):\n%s", diff)
	}
	if n := l.count("scheduler_go.work where state = 'backlog' and lane = 1"); n != 2 {
		t.Errorf("%d wait, want 2", n)
	}
}

// The metric shows a lane that has had work and no workers for a minute, until it has workers or is removed. So no
// alert fires for a removed lane.
func TestLanesWithoutWorkersAreShown(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(2, 2)...)
	l.slots.SetNow(func() time.Time { return l.now })
	for _, lane := range l.q.Lanes.Lanes {
		if err := l.publisher.DeclareQueue(t.Context(), lane.Queue); err != nil {
			t.Fatal(err)
		}
	}
	l.read(lanedQueue)
	l.claim(1)
	reg, queues := prometheus.NewRegistry(), []dispatch.Queue{l.q}
	l.slots.Register(reg)
	pump := dispatch.NewLanePump(dispatch.LanePumpOptions{
		Store: l.store, Slots: l.slots, Log: slog.New(slog.DiscardHandler), Reg: reg,
		Queues: func(context.Context) ([]dispatch.Queue, error) { return queues, nil },
	})
	look := func(after time.Duration) float64 {
		t.Helper()
		l.now = l.now.Add(after)
		if err := pump.RunOnce(t.Context(), l.now); err != nil {
			t.Fatal(err)
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		shown := 0.0
		for _, f := range families {
			if f.GetName() == "swh_scheduler_lane_without_consumer" {
				for _, m := range f.GetMetric() {
					shown += m.GetGauge().GetValue()
				}
			}
		}
		return shown
	}
	for i, step := range []struct {
		after time.Duration
		read  bool
		want  float64
	}{{0, false, 0}, {30 * time.Second, false, 0}, {time.Minute, false, 1}, {time.Second, true, 0}} {
		if step.read {
			l.read("express:" + lanedQueue)
		}
		if shown := look(step.after); shown != step.want {
			t.Errorf("step %d: %v lanes are shown as without workers, want %v", i, shown, step.want)
		}
	}
	queues = nil
	look(time.Minute)
	if n, err := testutil.GatherAndCount(reg, "swh_scheduler_lane_without_consumer"); n != 0 || err != nil {
		t.Errorf("%d lanes that are gone are shown, %v", n, err)
	}
}
