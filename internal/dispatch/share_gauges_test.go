package dispatch_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/tasks"
)

// Shares are measured at the start, not after a part of the minute between measurements: a daemon is ready only
// after each loop's first round. The test repeats it eight times, because a random wait may be short.
func TestSharesAreMeasuredAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	queue := dispatch.SharedQueue{Name: "swh.load.git", Shares: model.Shares{Weights: map[string]float64{"github": 50}, HalfLife: time.Hour}}
	registries := make([]*prometheus.Registry, 8)
	for i := range registries {
		registries[i] = prometheus.NewRegistry()
		gauges := dispatch.NewShareGauges(b.store, func(context.Context) ([]dispatch.SharedQueue, error) { return []dispatch.SharedQueue{queue}, nil }, slog.New(slog.DiscardHandler), registries[i])
		ended := make(chan error)
		go func() { ended <- gauges.Run(t.Context()) }()
		t.Cleanup(func() {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	testenv.Becomes(t, "all show weights", true, func() bool {
		return !slices.ContainsFunc(registries, func(r *prometheus.Registry) bool {
			n, err := testutil.GatherAndCount(r, "swh_scheduler_share_weight")
			return err != nil || n == 0
		})
	})
}

// A group whose work arrived while the queue was full counts as waiting, although no claim has read it. Tasks that
// are set aside don't count, nor does a group at its ceiling.
func TestGroupThatWaitsForAFullQueueIsShown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tt := model.TaskType{Type: "load-git", BackendName: "swh.load.git"}
	if err := b.store.CreateTaskType(t.Context(), tt); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.CreateTasks(t.Context(), []tasks.NewTask{{Type: "load-git", NextRun: b.store.Now().Add(-time.Hour), Policy: model.Oneshot}}); err != nil {
		t.Fatal(err)
	}
	shares := model.Shares{By: model.ShareByTaskType, Weights: map[string]float64{"load-git": 50}, MaxInFlight: map[string]int{}, HalfLife: time.Hour}
	reg := prometheus.NewRegistry()
	gauges := dispatch.NewShareGauges(b.store, func(context.Context) ([]dispatch.SharedQueue, error) {
		return []dispatch.SharedQueue{{Name: tt.Queue(), Type: &tt, Shares: shares}}, nil
	}, slog.New(slog.DiscardHandler), reg)
	check := func(weight float64) {
		t.Helper()
		if err := gauges.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := 0. // also if there is none
		for _, f := range families {
			if f.GetName() == "swh_scheduler_share_weight" {
				got = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		if got != weight {
			t.Errorf("weight %g, want %g", got, weight)
		}
	}
	check(50)
	testenv.Exec(t, b.store.Pool(), "insert into scheduler_go.set_aside_tasks (task, arguments, reason) select id, '', '' from task")
	check(0)
	shares.MaxInFlight["load-git"] = 1
	testenv.Exec(t, b.store.Pool(), `delete from scheduler_go.set_aside_tasks; insert into scheduler_go.work (task_id, state, queue, home, since, task_name, args, kwargs, share_group, cost)
		values (gen_random_uuid(), 'sent', 'swh.load.git', 'swh.load.git', now(), 'x', '[]', '{}', 'load-git', 1)`)
	check(0)
}

// The gauges omit a queue that is not shared, so that no alert fires for its last figures.
func TestGaugesOfRemovedShares(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	reg, shared := prometheus.NewRegistry(), []dispatch.SharedQueue{{Name: "swh.load.git", Shares: model.Shares{Weights: map[string]float64{"github": 50}, HalfLife: time.Hour}}}
	gauges := dispatch.NewShareGauges(b.store, func(context.Context) ([]dispatch.SharedQueue, error) { return shared, nil }, slog.New(slog.DiscardHandler), reg)
	for _, want := range []int{1, 0} {
		if err := gauges.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := testutil.GatherAndCount(reg, "swh_scheduler_share_weight"); n != want || err != nil {
			t.Errorf("%d queues are shown, %v, want %d", n, err, want)
		}
		shared = nil
	}
}
