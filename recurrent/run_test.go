package recurrent

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/testenv"
)

// Without any loader's task type, the daemon waits. It begins to schedule when one is added.
func TestRunWaitsForTheFirstLoader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(t, "plain", 5, false)
	w.exec(t, "update task_type set type = 'list-git'")
	s := New(Options{
		Store: w.store, Slots: w.slots, Log: logger(t), Reg: prometheus.NewRegistry(),
		Policies:         map[string][]model.WeightedPolicy{"default": evenly},
		NoOriginsBackoff: noOriginsBackoff, QueueFullBackoff: queueFullBackoff,
	})
	s.splay, s.typesPeriod = func() time.Duration { return 0 }, 10*time.Millisecond
	stop := testenv.Run(t, s.Run)
	w.exec(t, "update task_type set type = 'load-git'")
	w.awaitScheduled(t, 5)
	stop()
}

// Loops start and stop with the task types. A daemon without any stays ready.
func TestVisitTypesComeAndGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(t, "hg", 5, true)
	w.exec(t, "update listed_origins set visit_type = 'hg' where url like 'https://hg/%'")
	s := New(Options{
		Store: w.store, Slots: w.slots, Log: logger(t), Reg: prometheus.NewRegistry(),
		Policies:         map[string][]model.WeightedPolicy{"default": evenly},
		NoOriginsBackoff: time.Hour, QueueFullBackoff: time.Hour,
	})
	s.splay, s.typesPeriod = func() time.Duration { return 0 }, 10*time.Millisecond
	health := service.NewHealth()
	stop := testenv.Run(t, func(ctx context.Context) error { return s.Run(service.WithHealth(ctx, health)) })
	w.exec(t, "insert into task_type (type, description, backend_name, max_queue_length) values ('load-hg', '', 'swh.test.hg', 100)")
	w.awaitScheduled(t, 5)
	if got := w.scheduled(t); !slices.Contains(got, "https://hg/1") {
		t.Errorf("scheduled: %q", got)
	}
	w.exec(t, "delete from task_type")
	// The loops left are those for candidates, samples and visit types.
	testenv.Becomes(t, "loops without task types, and what they wait for", "3 []", func() string {
		return fmt.Sprint(testutil.CollectAndCount(health.Collector("test"), "swh_scheduler_loop_overdue_seconds"), health.NotReady())
	})
	stop()
}

// A visit type without visits waits for long, but schedules an origin at once when it is listed or its
// cooldown ends.
func TestDueOriginEndsARest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := New(Options{
		Store: w.store, Slots: w.slots, Log: logger(t), Reg: prometheus.NewRegistry(),
		Policies:         map[string][]model.WeightedPolicy{"default": evenly},
		NoOriginsBackoff: time.Hour, QueueFullBackoff: time.Hour,
	})
	s.splay = func() time.Duration { return 0 }
	stop := testenv.Run(t, s.Run)
	for n, kind := range []string{"first", "second", "third"} { // a round may be underway at the first origin
		w.list(t, kind, 1, true)
		w.awaitScheduled(t, n+1)
	}
	w.list(t, "cooling", 1, true)
	w.exec(t, `insert into origin_visit_stats (url, visit_type, last_scheduled, last_visit, last_visit_status, last_successful, last_snapshot)
		values ('https://cooling/1', 'git', now() - interval '12 hours' + interval '3 seconds', now() - interval '11 hours', 'successful', '2025-01-01', '\x00')
		on conflict (url, visit_type) do nothing`)
	w.awaitScheduled(t, 4)
	stop()
}

// If an origin is due and claims get none, the round queries ever less often.
func TestDueOriginThatCannotBeClaimedIsQueriedLess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.round(t, evenly)
	r.splay = func() time.Duration { return 0 }
	step := func(want time.Duration) {
		t.Helper()
		result, err := r.next(t.Context())
		if err != nil || result.Next != want {
			t.Errorf("%+v, %v, want %s", result, err, want)
		}
	}
	step(duePeriod)
	w.list(t, "plain", 1, true)
	r.Slots = noSlots{w.slots}
	step(2 * duePeriod)
	step(4 * duePeriod)
	r.Slots = w.slots
	step(time.Millisecond)
	r.idle = false
	step(duePeriod)
}

// noSlots opens claims without free slots.
type noSlots struct{ Slots }

func (s noSlots) Open(ctx context.Context, q dispatch.Queue) (*dispatch.Claim, error) {
	c, err := s.Slots.Open(ctx, q)
	if err == nil {
		c.Size = 0
	}
	return c, err
}

// awaitScheduled waits until n origins are scheduled.
func (w *world) awaitScheduled(t *testing.T, n int) {
	t.Helper()
	testenv.Becomes(t, "scheduled origins", n, func() int { return min(n, len(w.scheduled(t))) })
}
