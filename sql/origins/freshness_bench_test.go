package origins_test

import (
	"fmt"
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

// BenchmarkFreshnessGrab counts the blocks of tables and indexes that a grab of 1,000 origins reads, by the
// policy freshness and by others: dry and claimed, with nothing to drain.
func BenchmarkFreshnessGrab(b *testing.B) {
	for _, size := range benchSizes(b) {
		b.Run(fmt.Sprint("origins=", size), func(b *testing.B) {
			w := openBenchWorld(b, testenv.PythonDatabase(b), size)
			w.fill(b)
			testenv.Migrate(b, w.dsn, migrate.Options{Policies: byFreshness, Rebuild: true})
			if err := w.store.ConfigureFreshness(b.Context(), map[string]time.Duration{"git": 100 * day}); err != nil {
				b.Fatal(err)
			}
			w.exec(b, "update scheduler_go.freshness_control set threshold = 1e-3, applied = 1e-3") // many are due
			w.keep(b)
			if err := w.store.RenewMoments(b.Context(), time.Now()); err != nil {
				b.Fatal(err)
			}
			w.exec(b, "vacuum analyze")
			for _, how := range []string{"dry", "claimed"} {
				for _, policy := range append([]model.VisitPolicy{model.Freshness}, plainPolicies...) {
					b.Run(how+"/"+string(policy), func(b *testing.B) {
						w.grab(b, policy, true) // caches the blocks read once
						w.keep(b)
						before := w.blocks(b)
						w.grab(b, policy, how == "dry")
						b.ReportMetric(w.blocks(b)-before, "blocks")
						b.ReportMetric(0, "ns/op")
					})
				}
			}
		})
	}
}

// blocks returns the number of blocks of tables and indexes read until now.
func (w *benchWorld) blocks(b *testing.B) (n float64) {
	b.Helper()
	w.exec(b, "select pg_stat_force_next_flush()")
	if err := w.store.Pool().QueryRow(b.Context(), `select sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0))::float8
		from pg_statio_all_tables where schemaname in ('public', 'scheduler_go')`).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}
