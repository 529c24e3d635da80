package simulator

import (
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// If more work waits than workers can do, a policy's weight for forks is the forks' fraction of the visits. Without
// it, their fraction of the visits is that of the origins.
func TestForks(t *testing.T) {
	t.Parallel()
	for part, want := range map[float64][2]float64{0: {0.4, 0.6}, 0.1: {0.02, 0.2}} {
		store := openStore(t, testenv.Database(t))
		s := setting{OriginScheduler, model.OldestScheduledFirst, 2000, 1, 300, ""}
		options := s.options(t, store, time.Now())
		options.Policies["default"][0].Forks, options.Forks = part, 0.5
		if err := Fill(t.Context(), store, options.Listers, s.origins, options.Forks, time.Now(), nil); err != nil {
			t.Fatal(err)
		}
		simulation, err := newSimulation(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		simulation.queues[0].capacity = minBatch // less than the origins, so that a claim leaves some
		report, err := simulation.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := float64(report.Forks) / float64(report.Visits)
		if report.Visits < 100 || got < want[0] || got > want[1] {
			t.Errorf("with %g for forks, %d of %d visits were of forks", part, report.Forks, report.Visits)
		}
	}
}
