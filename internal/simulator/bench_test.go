package simulator

import (
	"fmt"
	"math"
	"testing"
	"time"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/model"
)

// benchRuns is how often each side is measured: the shortest time counts, as what
// else the machine does only adds to it.
const benchRuns = 2

// BenchmarkRun compares simulations with the peer's, each on a database of its own:
// the seconds that the run takes, the visits that it comes to, and the seconds that
// filling the database takes (fill-s).
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
			ours, peer := math.Inf(1), math.Inf(1)
			oursFill, peerFill := math.Inf(1), math.Inf(1)
			var visits, peerVisits int
			for range benchRuns * b.N {
				began := time.Now()
				store := s.fill(b, began)
				oursFill = min(oursFill, time.Since(began).Seconds())
				began = time.Now()
				report, err := Run(b.Context(), s.options(b, store, began))
				if err != nil {
					b.Fatal(err)
				}
				ours, visits = min(ours, time.Since(began).Seconds()), report.Visits
				theirs := s.peer(b, time.Now())
				peer, peerVisits = min(peer, theirs.RunSeconds), theirs.Visits
				peerFill = min(peerFill, theirs.FillSeconds)
			}
			bench.Report(b, "ours", map[string]float64{"s": ours, "visits": float64(visits), "fill-s": oursFill})
			bench.Report(b, "peer", map[string]float64{"s": peer, "visits": float64(peerVisits), "fill-s": peerFill})
		})
	}
}
