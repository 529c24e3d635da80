package recurrent

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
)

// A database without any loader's task type is waited on, not an end: the
// daemon begins to schedule when one is added.
func TestRunWaitsForTheFirstLoader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(t, "plain", 5, false)
	w.exec(t, "update task_type set type = 'list-git'")
	s := New(Options{
		Store: w.store, Slots: w.slots, Log: logger(t), Reg: prometheus.NewRegistry(),
		Policies:         map[string][]model.WeightedPolicy{"default": evenly},
		NoOriginsBackoff: DefaultNoOriginsBackoff, QueueFullBackoff: DefaultQueueFullBackoff,
	})
	s.splay = func() time.Duration { return 0 }
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	w.exec(t, "update task_type set type = 'load-git'")
	s.Change(s.Options) // looks at once
	w.awaitScheduled(t, 5, ended)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Visit types come and go with their task types, and a daemon that has none left is ready.
// Policies and waits that change are taken up at once, also by a visit type that rests.
func TestVisitTypesAndPoliciesChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(t, "plain", 5, false)
	w.list(t, "hg", 5, true)
	w.exec(t, "update listed_origins set visit_type = 'hg' where url like 'https://hg/%'")
	o := Options{
		Store: w.store, Slots: w.slots, Log: logger(t), Reg: prometheus.NewRegistry(),
		Policies: map[string][]model.WeightedPolicy{
			"default": weighted(map[model.VisitPolicy]float64{model.NeverVisitedOldestUpdateFirst: 1}), // plain ones have no update
		},
		NoOriginsBackoff: time.Hour, QueueFullBackoff: time.Hour,
	}
	s := New(o)
	s.splay = func() time.Duration { return 0 }
	health := service.NewHealth()
	ctx, stop := context.WithCancel(service.WithHealth(t.Context(), health))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	w.exec(t, "insert into task_type (type, description, backend_name, max_queue_length) values ('load-hg', '', 'swh.test.hg', 100)")
	s.Change(o) // looks at once
	w.awaitScheduled(t, 5, ended)
	if got := w.scheduled(t); !slices.Contains(got, "https://hg/1") {
		t.Errorf("scheduled: %q", got)
	}
	o.Policies = map[string][]model.WeightedPolicy{"default": evenly}
	s.Change(o)
	w.awaitScheduled(t, 10, ended)
	w.exec(t, "delete from task_type")
	s.Change(o)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		// Left are the loops that keep candidates, follow samples, and look for visit types.
		waits, loops := health.Waits(), testutil.CollectAndCount(health.Collector("test"), "swh_scheduler_overdue_seconds")
		if len(waits) == 0 && loops == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("without task types there are %d loops, and it waits: %q", loops, waits)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A visit type that has nothing to visit rests for long, but not from news: an origin that
// is listed, or that has cooled down, is scheduled at once.
func TestNewsEndARest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := New(Options{
		Store: w.store, Slots: w.slots, Log: logger(t), Reg: prometheus.NewRegistry(),
		Policies:         map[string][]model.WeightedPolicy{"default": evenly},
		NoOriginsBackoff: time.Hour, QueueFullBackoff: time.Hour,
	})
	s.splay = func() time.Duration { return 0 }
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	for n, kind := range []string{"first", "second", "third"} { // a round may be underway at the first
		w.list(t, kind, 1, true)
		w.awaitScheduled(t, n+1, ended)
	}
	w.list(t, "cooling", 1, true)
	w.exec(t, `insert into origin_visit_stats (url, visit_type, last_scheduled, last_visit, last_visit_status, last_successful, last_snapshot)
		values ('https://cooling/1', 'git', now() - interval '12 hours' + interval '3 seconds', now() - interval '11 hours', 'successful', '2025-01-01', '\x00')
		on conflict (url, visit_type) do nothing`)
	w.awaitScheduled(t, 4, ended)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// News that a claim then can't take, for whatever reason, are looked for ever less often.
func TestNewsThatCannotBeClaimedAreLookedForLess(t *testing.T) {
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
	step(newsPeriod)
	w.list(t, "plain", 1, true)
	r.Slots = noSlots{}
	step(2 * newsPeriod)
	step(4 * newsPeriod)
	r.Slots = w.slots
	step(time.Millisecond)
	r.idle = false
	step(newsPeriod)
}

// noSlots claims nothing.
type noSlots struct{}

func (noSlots) Claim(context.Context, dispatch.Queue, dispatch.ClaimFunc) (int, error) { return 0, nil }
func (noSlots) Waiting(dispatch.Queue) bool                                            { return false }

// awaitScheduled waits until n origins are scheduled.
func (w *world) awaitScheduled(t *testing.T, n int, ended <-chan error) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for len(w.scheduled(t)) < n {
		select {
		case err := <-ended:
			t.Fatalf("ended: %v", err)
		case <-deadline:
			t.Fatalf("%d of %d origins are scheduled after two minutes", len(w.scheduled(t)), n)
		case <-tick.C:
		}
	}
}
