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
)

// Shares are measured at once, not after a part of the minute between measurements: a daemon
// is ready only when each of its loops has done a round. Eight, as a random wait may be
// short.
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
	eventually(t, func() bool {
		return !slices.ContainsFunc(registries, func(r *prometheus.Registry) bool {
			n, err := testutil.GatherAndCount(r, "swh_scheduler_share_weight")
			return err != nil || n == 0
		})
	})
}

// A queue that is no longer shared is no longer shown, so that no alert stands on its last
// figures.
func TestGaugesOfRemovedShares(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	reg, shared := prometheus.NewRegistry(), []dispatch.SharedQueue{{Name: "swh.load.git", Shares: model.Shares{Weights: map[string]float64{"github": 50}, HalfLife: time.Hour}}}
	gauges := dispatch.NewShareGauges(b.store, func(context.Context) ([]dispatch.SharedQueue, error) { return shared, nil }, slog.New(slog.DiscardHandler), reg)
	for _, want := range []int{1, 0} {
		if err := gauges.RunOnce(t.Context(), b.store.Now()); err != nil {
			t.Fatal(err)
		}
		if n, err := testutil.GatherAndCount(reg, "swh_scheduler_share_weight"); n != want || err != nil {
			t.Errorf("%d queues are shown, %v, want %d", n, err, want)
		}
		shared = nil
	}
}
