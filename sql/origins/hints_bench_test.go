package origins_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/hints"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// BenchmarkHints measures hints of random origins by the number of origins (SWH_BENCH_SIZES): requests of one hint each, 64
// at a time, which share transactions. Candidates are not drained meanwhile; drain-ms is the time for that afterwards.
func BenchmarkHints(b *testing.B) {
	for _, size := range benchSizes(b) {
		b.Run(fmt.Sprint("origins=", size), func(b *testing.B) {
			dsn := benchDatabase
			if dsn == "" {
				dsn = testenv.PythonDatabase(b)
			}
			w := newBenchWorld(b, dsn, size)
			urls := testenv.Column[string](b, w.store.Pool(), "select url from listed_origins tablesample system (20) where enabled limit 100000")
			if len(urls) == 0 {
				urls = testenv.Column[string](b, w.store.Pool(), "select url from listed_origins where enabled limit 100000")
			}
			batcher := hints.NewBatcher(w.store)
			const clients = 64
			took := make([][]time.Duration, clients)
			w.keep(b)
			b.ResetTimer()
			var g errgroup.Group
			for c := range clients {
				g.Go(func() error {
					for i := c; i < b.N; i += clients {
						began := time.Now()
						if _, err := batcher.Hint(context.Background(), []model.Hint{{URL: urls[(i*7919)%len(urls)], Source: fmt.Sprint("s", c%4)}}); err != nil {
							return err
						}
						took[c] = append(took[c], time.Since(began))
					}
					return nil
				})
			}
			if err := g.Wait(); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			all := slices.Concat(took...)
			slices.Sort(all)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "hints/s")
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(ms(func() { w.keep(b) }), "drain-ms")
		})
	}
}
