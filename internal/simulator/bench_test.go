package simulator

import (
	"fmt"
	"math"
	"testing"
	"time"

	"swh-scheduler/internal/scheduler"
)

// benchRuns is how often each side is measured: the shortest time counts, as what
// else the machine does only adds to it.
const benchRuns = 2

// BenchmarkRun compares simulations with the peer's, each on a database of its own:
// the seconds that the run takes here (ours-s) and there (peer-s), how many times as
// fast ours is (ratio), and the visits that both came to; the same for filling the
// database.
func BenchmarkRun(b *testing.B) {
	for _, s := range []setting{
		{OriginScheduler, scheduler.OldestScheduledFirst, 3000, 12, DefaultWorkers},
		{OriginScheduler, scheduler.OldestScheduledFirst, 20_000, 24, DefaultWorkers},
		{OriginScheduler, scheduler.NeverVisitedOldestUpdateFirst, 20_000, 6, DefaultWorkers},
		{TaskScheduler, "", 9500, 24, DefaultWorkers},
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
				store := s.fill(b)
				oursFill = min(oursFill, time.Since(began).Seconds())
				began = time.Now()
				report, err := Run(b.Context(), s.options(b, store))
				if err != nil {
					b.Fatal(err)
				}
				ours, visits = min(ours, time.Since(began).Seconds()), report.Visits
				theirs := s.peer(b)
				peer, peerVisits = min(peer, theirs.RunSeconds), theirs.Visits
				peerFill = min(peerFill, theirs.FillSeconds)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ours, "ours-s")
			b.ReportMetric(peer, "peer-s")
			b.ReportMetric(peer/ours, "ratio")
			b.ReportMetric(float64(visits), "ours-visits")
			b.ReportMetric(float64(peerVisits), "peer-visits")
			b.ReportMetric(oursFill, "ours-fill-s")
			b.ReportMetric(peerFill, "peer-fill-s")
		})
	}
}
