package listener

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
)

// faulty is a store in which the outcomes of some runs meet a fault of the program.
type faulty struct {
	settle.Store
	guilty map[string]bool
	times  int // how often a fault that passes is left
	alone  atomic.Int64
	now    atomic.Int64 // so many calls of Now, and then one panics
}

func (f *faulty) Now() time.Time {
	if f.now.Add(-1) == 0 {
		panic("no time")
	}
	return f.Store.Now()
}

func (f *faulty) ApplyInTurn(ctx context.Context, outcomes []settle.Outcome, locked func()) error {
	for _, o := range outcomes {
		if f.guilty[o.BackendID] && o.End != nil || f.times > 0 {
			f.times--
			if len(outcomes) == 1 {
				f.alone.Add(1)
			}
			var none *settle.End
			_ = none.Status
		}
	}
	return f.Store.ApplyInTurn(ctx, outcomes, locked)
}

// A panic in some events' outcomes doesn't end the listener. These events are retried alone and set aside with the
// reason; all others are applied.
func TestPanicsAreSetAside(t *testing.T) {
	t.Parallel()
	pg := ownDatabase(t)
	const n = 20
	pg.addTasks(t, n, "run")
	store := &faulty{Store: openStore(t, pg.dsn), guilty: map[string]bool{"run-3": true, "run-17": true}}
	source := &script{bodies: append(streams(t, "run", n), message(t, taskEvent("task-failed", "run-3", 1)))}
	l := newTestListener(t, source, store)
	stop := testenv.Run(t, l.Run)
	testenv.Becomes(t, "runs that have ended", n-2, func() int { return pg.count(t, "run", "eventful") })
	testenv.Becomes(t, "events that are set aside", 3, func() int { return len(pg.rejections(t)) })
	stop()
	for _, got := range pg.rejections(t) {
		if !strings.HasPrefix(got, "run-3|ended as ") && !strings.HasPrefix(got, "run-17|ended as ") || !strings.Contains(got, "fault of the program") || !strings.Contains(got, "nil pointer") {
			t.Errorf("rejected event %q", got)
		}
	}
	if got := testutil.ToFloat64(l.metrics.malformed.WithLabelValues(string(Panicked))); got != 3 {
		t.Errorf("%v faults are counted, want 3", got)
	}
	if got := store.alone.Load(); got != 6 {
		t.Errorf("the guilty were tried %d times alone, want twice each", got)
	}
}

// A panic that doesn't repeat sets nothing aside.
func TestPanicThatPassesSetsNothingAside(t *testing.T) {
	t.Parallel()
	pg := ownDatabase(t)
	pg.addTasks(t, 1, "run")
	l := newTestListener(t, nil, &faulty{Store: openStore(t, pg.dsn), times: 1})
	feed(t, l, message(t, resultEvent("run-0", true)))
	if got := pg.count(t, "run", "eventful"); got != 1 || len(pg.rejections(t)) > 0 {
		t.Errorf("%d runs ended, set aside: %q", got, pg.rejections(t))
	}
}

// A message whose decoding panics is set aside with its beginning. The messages around it are applied.
func TestMessageThatPanicsIsSetAside(t *testing.T) {
	t.Parallel()
	pg := ownDatabase(t)
	pg.addTasks(t, 3, "run")
	store := &faulty{Store: openStore(t, pg.dsn)}
	l := newTestListener(t, nil, store)
	store.now.Store(2)
	var bodies [][]byte
	for i := range 3 {
		bodies = append(bodies, message(t, startedEvent(name("run", i))))
	}
	feed(t, l, bodies...)
	if got := pg.count(t, "run", "started"); got != 2 || pg.count(t, "run-1", "started") != 0 {
		t.Errorf("%d runs started", got)
	}
	got := pg.rejections(t)
	if len(got) != 1 || !strings.HasPrefix(got[0], "|"+string(bodies[1])+"||") || !strings.Contains(got[0], "no time") {
		t.Errorf("set aside: %q", got)
	}
}

// If one event of a message panics, the others are applied.
func TestEventThatPanicsIsSetAside(t *testing.T) {
	t.Parallel()
	pg := ownDatabase(t)
	pg.addTasks(t, 2, "run")
	l := newTestListener(t, nil, openStore(t, pg.dsn))
	l.metrics.outcomes = nil // so that an end is a fault, and a runtime isn't
	feed(t, l, message(t, taskEvent("task-failed", "run-0", 1), taskEvent("task-succeeded", "run-1", 2).with("runtime", 1)))
	got := pg.rejections(t)
	if len(got) != 1 || !strings.HasPrefix(got[0], "run-0|{") || !strings.Contains(got[0], `"task-failed"`) || strings.Contains(got[0], "task-succeeded") || !strings.Contains(got[0], "nil pointer") {
		t.Errorf("set aside: %q", got)
	}
	if n := testenv.Value[int](t, pg.pool, "select count(*) from scheduler_go.run_durations"); n != 1 {
		t.Errorf("%d durations, want 1", n)
	}
}
