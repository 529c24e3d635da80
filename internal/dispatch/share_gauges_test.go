package dispatch_test

import (
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
		gauges := dispatch.NewShareGauges(b.store, []dispatch.SharedQueue{queue}, slog.New(slog.DiscardHandler), registries[i])
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
