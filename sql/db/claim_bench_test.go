package db_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// cost is what statements cost the server.
type cost struct{ ms, walMB float64 }

// costOf does something after a checkpoint, from when on each page is written whole once
// more, and returns what it cost.
func (w *benchWorld) costOf(b *testing.B, do func()) cost {
	b.Helper()
	w.exec(b, "checkpoint")
	lsn := func() (at string) {
		b.Helper()
		if err := w.store.Pool().QueryRow(b.Context(), "select pg_current_wal_insert_lsn()::text").Scan(&at); err != nil {
			b.Fatal(err)
		}
		return at
	}
	before, began := lsn(), time.Now()
	do()
	c := cost{ms: float64(time.Since(began).Microseconds()) / 1000}
	if err := w.store.Pool().QueryRow(b.Context(), "select pg_wal_lsn_diff($1::text::pg_lsn, $2::text::pg_lsn)::float8 / 1e6", lsn(), before).Scan(&c.walMB); err != nil {
		b.Fatal(err)
	}
	return c
}

func medianCost(costs []cost) cost {
	middle := func(of func(cost) float64) float64 {
		var all []float64
		for _, c := range costs {
			all = append(all, of(c))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return cost{middle(func(c cost) float64 { return c.ms }), middle(func(c cost) float64 { return c.walMB })}
}

// bareUpdate sets last_scheduled of a thousand random origins, without our triggers.
func (w *benchWorld) bareUpdate(b *testing.B) cost {
	b.Helper()
	rows, err := w.store.Pool().Query(b.Context(), "select url from origin_visit_stats tablesample system_rows(20000) order by random() limit 1000")
	if err != nil {
		b.Fatal(err)
	}
	urls, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.Fatal(err)
	}
	return w.costOf(b, func() {
		if err := pgx.BeginFunc(b.Context(), w.store.Pool(), func(tx pgx.Tx) error {
			if _, err := tx.Exec(b.Context(), "set local session_replication_role = replica"); err != nil {
				return err
			}
			tag, err := tx.Exec(b.Context(), "update origin_visit_stats set last_scheduled = now() where url = any($1) and visit_type = 'git'", urls)
			if err == nil && tag.RowsAffected() != 1000 {
				err = fmt.Errorf("%d rows", tag.RowsAffected())
			}
			return err
		}); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkClaim compares claims of 1,000 visits with the bare update of last_scheduled of
// 1,000 random origins, and times drains of 10,000 changes: medians, in turns, each after a
// checkpoint, which makes WAL most.
func BenchmarkClaim(b *testing.B) {
	for _, size := range benchSizes(b) {
		b.Run(fmt.Sprint("origins=", size), func(b *testing.B) {
			w := newBenchWorld(b, size)
			w.exec(b, "create extension if not exists tsm_system_rows")
			all := map[string][]cost{}
			note := func(name string, c cost) { all[name] = append(all[name], c) }
			for range 5 {
				note("bare", w.bareUpdate(b))
				for _, policy := range plainPolicies {
					note("dry/"+string(policy), w.costOf(b, func() { w.grab(b, policy, true) }))
					note("claim/"+string(policy), w.costOf(b, func() { w.grab(b, policy, false) }))
					note("drain/"+string(policy), w.costOf(b, func() { w.keep(b) }))
				}
				for range 4 {
					w.grab(b, model.OldestScheduledFirst, false)
				}
				note("dry behind 4,000 marks", w.costOf(b, func() { w.grab(b, model.NeverVisitedOldestUpdateFirst, true) }))
				w.keep(b)
				w.exec(b, `update listed_origins set last_update = now() where (url, visit_type) in
					(select url, visit_type from listed_origins tablesample system_rows(200000) order by random() limit 10000)`)
				note("drain of 10,000", w.costOf(b, func() { w.keep(b) }))
			}
			bare := medianCost(all["bare"])
			for _, name := range slices.Sorted(maps.Keys(all)) {
				b.Run(name, func(b *testing.B) {
					c := medianCost(all[name])
					b.ReportMetric(c.ms, "ms")
					b.ReportMetric(c.walMB, "WAL-MB")
					b.ReportMetric(c.ms/bare.ms, "of-bare-time")
					b.ReportMetric(c.walMB/bare.walMB, "of-bare-WAL")
					b.ReportMetric(0, "ns/op")
				})
			}
		})
	}
}

// BenchmarkFilteredGrab times dry grabs of 1,000 origins with filters: from candidates, the
// shortest of three, and, as while these are built, from the peer's tables.
func BenchmarkFilteredGrab(b *testing.B) {
	lister := uuid.NullUUID{UUID: uuid.MustParse("00000000-0000-0000-0000-000000000001"), Valid: true}
	for _, size := range benchSizes(b) {
		b.Run(fmt.Sprint("origins=", size), func(b *testing.B) {
			w := newBenchWorld(b, size)
			for _, filter := range []struct {
				name string
				set  func(*model.VisitFilter)
			}{
				{"plain", func(*model.VisitFilter) {}},
				{"tablesample", func(f *model.VisitFilter) { f.TableSample = 0.1 }},
				{"longer cooldowns", func(f *model.VisitFilter) { f.Cooldowns.Absolute *= 30 }},
				{"shorter cooldowns", func(f *model.VisitFilter) { f.Cooldowns.Scheduled /= 2 }},
				{"of the Python command", func(f *model.VisitFilter) {
					f.Cooldowns.Failed, f.Cooldowns.NotFound = f.Cooldowns.NotFound, f.Cooldowns.Failed
				}},
				{"no cooldowns", func(f *model.VisitFilter) { f.Cooldowns = model.Cooldowns{} }},
				{"lister", func(f *model.VisitFilter) { f.ListerID = lister }},
				{"first visits", func(f *model.VisitFilter) {
					f.Policy, f.ListerID, f.Cooldowns = model.FirstVisitsAfterListing, lister, model.Cooldowns{}
				}},
			} {
				f := model.VisitFilter{VisitType: "git", Policy: model.AlreadyVisitedOrderByLag, Cooldowns: model.DefaultCooldowns}
				filter.set(&f)
				grab := func() time.Duration {
					began := time.Now()
					if err := w.store.InTx(b.Context(), func(ctx context.Context, tx *db.Tx) error {
						_, err := tx.GrabNextVisits(ctx, f, began, 1000, true)
						return err
					}); err != nil {
						b.Fatal(err)
					}
					return time.Since(began)
				}
				b.Run(filter.name, func(b *testing.B) {
					bench.Report(b, "candidates", map[string]float64{"ms": least(3, grab)})
					w.exec(b, "update scheduler_go.candidate_build set phase = 'empty'")
					bench.Report(b, "tables", map[string]float64{"ms": least(1, grab)})
					w.exec(b, "update scheduler_go.candidate_build set phase = 'ready'")
				})
			}
		})
	}
}
