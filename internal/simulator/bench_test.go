package simulator

import (
	"fmt"
	"testing"
	"time"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/model"
)

// BenchmarkRun compares simulations with the Python scheduler's, each on its own database. It reports the seconds of
// the run, its number of visits, and the seconds in which the database is filled (fill-s).
func BenchmarkRun(b *testing.B) {
	for _, s := range []setting{
		{OriginScheduler, model.OldestScheduledFirst, 3000, 12, DefaultWorkers, ""},
		{OriginScheduler, model.OldestScheduledFirst, 20_000, 24, DefaultWorkers, ""},
		{OriginScheduler, model.NeverVisitedOldestUpdateFirst, 20_000, 6, DefaultWorkers, ""},
		{TaskScheduler, "", 9500, 24, DefaultWorkers, ""},
	} {
		name := fmt.Sprintf("%s/origins=%d/hours=%g", s.kind, s.origins, s.hours)
		if s.policy != "" {
			name += "/" + string(s.policy)
		}
		b.Run(name, func(b *testing.B) {
			bench.Compare(b, bench.Side{Name: bench.Ours, Run: func() bench.Figures {
				began := time.Now()
				store := s.fill(b, began)
				filled := time.Now()
				report, err := Run(b.Context(), s.options(b, store, filled))
				if err != nil {
					b.Fatal(err)
				}
				return bench.Figures{"s": time.Since(filled).Seconds(), "visits": float64(report.Visits), "fill-s": filled.Sub(began).Seconds()}
			}}, bench.Side{Name: bench.Peer, Run: func() bench.Figures {
				theirs := s.python(b, time.Now())
				return bench.Figures{"s": theirs.RunSeconds, "visits": float64(theirs.Visits), "fill-s": theirs.FillSeconds}
			}})
		})
	}
}
