package freshness

import (
	"math"
	"syscall"
	"testing"
	"time"

	"swh-scheduler/internal/testenv/seed"
)

// BenchmarkWalk computes what the walk over candidates computes of an origin: whether its moment is off, and a new moment and wait.
// It reports the processor time of an origin, which depends less on other processes than the time of a run does.
func BenchmarkWalk(b *testing.B) {
	for _, c := range []struct {
		name            string
		reported, stale bool
	}{{"no reports", false, false}, {"no news", true, false}, {"news", true, true}} {
		b.Run(c.name, func(b *testing.B) {
			random := seed.Rand(b)
			origins := make([]History, 1000)
			for i := range origins {
				h := &origins[i]
				*h = seenOrigin()
				h.Estimate = Estimate{Changes: 0.5 + 5*random.Float64(), Days: math.Exp(7 * random.Float64())}
				h.LastVisit, h.LastSeen = noon.Add(-time.Duration(random.Int64N(int64(60*day)))), noon
				h.News = Quality{Right: 90, Wrong: 10, Reported: 70, Missed: 30}
				if c.reported {
					h.LastUpdate = h.LastVisit.Add(-100 * day)
				}
				if c.stale {
					h.LastUpdate = h.LastVisit.Add(time.Duration(random.Int64N(int64(noon.Sub(h.LastVisit) + 1))))
				}
			}
			began := spent(b)
			for b.Loop() {
				for i := range origins {
					h := &origins[i]
					h.IsOff(noon.Add(day), noon)
					h.MomentWithoutUpdate(noon)
					h.NewsWait(noon)
				}
			}
			b.ReportMetric(float64((spent(b)-began).Microseconds())/float64(b.N*len(origins)), "cpu-µs/origin")
		})
	}
}

// spent returns the processor time of this process.
func spent(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
