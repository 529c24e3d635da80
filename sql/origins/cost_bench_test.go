package origins_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/migrate"
)

// cost is the server's cost of statements. images counts pages that WAL has whole, as their first change
// since a checkpoint.
type cost struct{ ms, walMB, images, pages float64 }

var costUnits = []struct {
	name string
	of   func(cost) float64
}{
	{"ms", func(c cost) float64 { return c.ms }},
	{"WAL-MB", func(c cost) float64 { return c.walMB }},
	{"images", func(c cost) float64 { return c.images }},
	{"pages", func(c cost) float64 { return c.pages }},
}

// costWorld is a benchWorld on a server of its own, which reports the costs of statements.
type costWorld struct{ *benchWorld }

func newCostWorld(b *testing.B, origins int) costWorld {
	b.Helper()
	dsn := benchDatabase
	if dsn == "" {
		dsn = testenv.PostgresServer(b, "full_page_writes=on", "max_wal_size=8GB", "checkpoint_timeout=1h", "autovacuum=off",
			"shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track_planning=on")
	}
	testenv.Migrate(b, dsn, migrate.Options{})
	w := costWorld{newBenchWorld(b, dsn, origins)}
	w.exec(b, "create extension if not exists pg_stat_statements")
	return w
}

// costOf runs do after a checkpoint and returns its cost. After a checkpoint, WAL has each changed page
// whole once.
func (w costWorld) costOf(b *testing.B, do func()) (c cost) {
	b.Helper()
	w.exec(b, "checkpoint")
	w.exec(b, "select pg_stat_statements_reset()")
	do()
	if err := w.store.Pool().QueryRow(b.Context(), `select sum(total_exec_time + total_plan_time), (sum(wal_bytes) / 1e6)::float8,
		sum(wal_fpi)::float8, sum(shared_blks_hit + shared_blks_read)::float8
		from pg_stat_statements where query not like '%pg_stat_statements%'`).Scan(&c.ms, &c.walMB, &c.images, &c.pages); err != nil {
		b.Fatal(err)
	}
	if os.Getenv("SWH_BENCH_STATEMENTS") != "" {
		fmt.Fprintln(os.Stderr, w.statements(b))
	}
	return c
}

// statements returns a table of the cost of each statement.
func (w costWorld) statements(b *testing.B) string {
	b.Helper()
	lines := testenv.Column[string](b, w.store.Pool(), `select format('%s ms, %s calls, %s images, %s bytes of WAL, %s pages: %s',
		round((total_exec_time + total_plan_time)::numeric, 1), calls, wal_fpi, wal_bytes, shared_blks_hit + shared_blks_read,
		left(regexp_replace(query, '\s+', ' ', 'g'), 100))
		from pg_stat_statements where query not like '%pg_stat_statements%' order by total_exec_time + total_plan_time desc limit 20`)
	return "\n" + strings.Join(lines, "\n")
}

// random returns the URLs of n random origins that meet a condition.
func (w *benchWorld) random(b *testing.B, n int, condition string) []string {
	b.Helper()
	drawn := make([]int64, 3*n)
	for i := range drawn {
		drawn[i] = 1 + w.r.Int64N(int64(w.origins))
	}
	urls := testenv.Column[string](b, w.store.Pool(), `select u.url from (select distinct `+urlOf+` as url from unnest($1::bigint[]) n) u
		where `+condition+` order by random() limit $2`, drawn, n)
	if len(urls) != n {
		b.Fatalf("%d origins, want %d", len(urls), n)
	}
	return urls
}

// bareUpdate sets last_scheduled of n random origins, without our triggers.
func (w costWorld) bareUpdate(b *testing.B, n int) cost {
	b.Helper()
	urls := w.visited(b, n)
	return w.costOf(b, func() { w.setScheduled(b, urls) })
}

// visited returns the URLs of n random origins that have stats.
func (w *benchWorld) visited(b *testing.B, n int) []string {
	b.Helper()
	return w.random(b, n, "exists (select from origin_visit_stats s where s.url = u.url and visit_type = 'git')")
}

// setScheduled sets last_scheduled of origins, without triggers.
func (w *benchWorld) setScheduled(b *testing.B, urls []string) {
	b.Helper()
	if err := pgx.BeginFunc(b.Context(), w.store.Pool(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(b.Context(), "set local session_replication_role = replica"); err != nil {
			return err
		}
		tag, err := tx.Exec(b.Context(), "update origin_visit_stats set last_scheduled = now() where url = any($1) and visit_type = 'git'", urls)
		if err == nil && tag.RowsAffected() != int64(len(urls)) {
			err = fmt.Errorf("%d rows", tag.RowsAffected())
		}
		return err
	}); err != nil {
		b.Fatal(err)
	}
}

// list records origins as a lister does after they changed.
func (w *benchWorld) list(b *testing.B, urls []string) {
	b.Helper()
	now := time.Now()
	var origins []model.ListedOrigin
	for _, url := range urls {
		origins = append(origins, model.ListedOrigin{ListerID: uuid.MustParse(listerOf(b, url)), URL: url, VisitType: "git", Enabled: true, LastUpdate: &now})
	}
	for batch := range slices.Chunk(origins, 1000) {
		if _, err := w.store.RecordListedOrigins(b.Context(), batch, false); err != nil {
			b.Fatal(err)
		}
	}
}

// listerOf returns the id of the lister that fill gives an origin.
func listerOf(b *testing.B, url string) string {
	b.Helper()
	var n int
	if _, err := fmt.Sscan(url[strings.LastIndex(url, "-")+1:], &n); err != nil {
		b.Fatal(err)
	}
	return fmt.Sprintf("00000000-0000-0000-0000-%012d", 1+n%4)
}

// visit records successful visits of origins as the journal client does.
func (w *benchWorld) visit(b *testing.B, urls []string) {
	b.Helper()
	var keys []model.OriginKey
	for _, url := range urls {
		keys = append(keys, model.OriginKey{URL: url, VisitType: "git"})
	}
	now, position := time.Now(), w.r.Int64N(1e7)
	if err := w.store.UpdateVisitStats(b.Context(), keys, func(ledger.KnownVisits) (c ledger.VisitChanges) {
		for _, k := range keys {
			c.Stats = append(c.Stats, &model.VisitStats{URL: k.URL, VisitType: k.VisitType, LastVisit: &now, LastSuccessful: &now,
				LastVisitStatus: model.VisitSuccessful, LastSnapshot: make([]byte, 20), NextVisitQueuePosition: &position, SuccessiveVisits: 1})
		}
		return c
	}); err != nil {
		b.Fatal(err)
	}
}

const costRounds = 7

// BenchmarkCosts measures costs on a server of its own, by the number of origins (SWH_BENCH_SIZES, from
// 100,000 on). It measures: the bare update of last_scheduled of 1,000 and of 10,000 random origins; claims
// of 1,000 visits by each policy; drains of their changes and of 10,000 changes; a listing of 10,000
// origins; a batch of 1,000 visits of the journal; the check of 128 pages of candidates; the vacuum after
// all. They take turns, each after a checkpoint, which maximises WAL. It reports medians, the middle half
// of ms, and multiples of the bare update of 1,000. It prints the sizes of tables and indexes, and with
// SWH_BENCH_STATEMENTS=1 the cost of each statement.
func BenchmarkCosts(b *testing.B) {
	for _, size := range benchSizes(b) {
		b.Run(fmt.Sprint("origins=", size), func(b *testing.B) {
			w := newCostWorld(b, size)
			fmt.Fprint(os.Stderr, w.sizes(b))
			all := map[string][]cost{}
			note := func(name string, c cost) { all[name] = append(all[name], c) }
			for range costRounds {
				note("bare update of 1,000", w.bareUpdate(b, 1000))
				note("bare update of 10,000", w.bareUpdate(b, 10_000))
				for _, policy := range plainPolicies {
					note("dry/"+string(policy), w.costOf(b, func() { w.grab(b, policy, true) }))
					note("claim/"+string(policy), w.costOf(b, func() { w.grab(b, policy, false) }))
					note("drain/"+string(policy), w.costOf(b, func() { bench.Drain(b, w.store) }))
				}
				for range 4 {
					w.grab(b, model.OldestScheduledFirst, false)
				}
				note("dry behind 4,000 marks", w.costOf(b, func() { w.grab(b, model.NeverVisitedOldestUpdateFirst, true) }))
				bench.Drain(b, w.store)
				changed := w.random(b, 10_000, "true")
				note("listing of 10,000", w.costOf(b, func() { w.list(b, changed) }))
				note("drain of 10,000", w.costOf(b, func() { bench.Drain(b, w.store) }))
				visited := w.random(b, 1000, "true")
				note("journal batch of 1,000", w.costOf(b, func() { w.visit(b, visited) }))
				note("drain of a journal batch", w.costOf(b, func() { bench.Drain(b, w.store) }))
				page := w.r.IntN(size / 100)
				note("check of 128 pages", w.costOf(b, func() { w.exec(b, "select scheduler_go.check_candidates($1::bigint, $1::bigint + 128)", page) }))
				note("vacuum", w.costOf(b, func() { w.exec(b, "vacuum scheduler_go.candidates, scheduler_go.candidate_changes") }))
			}
			fmt.Fprint(os.Stderr, w.sizes(b))
			w.report(b, all)
		})
	}
}

// report reports medians, and their multiples of the bare update's.
func (w costWorld) report(b *testing.B, all map[string][]cost) {
	b.Helper()
	at := func(costs []cost, of func(cost) float64, part float64) float64 {
		var values []float64
		for _, c := range costs {
			values = append(values, of(c))
		}
		slices.Sort(values)
		return values[int(part*float64(len(values)-1)+0.5)]
	}
	bare := all["bare update of 1,000"]
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b.Run(name, func(b *testing.B) {
			for _, unit := range costUnits {
				b.ReportMetric(at(all[name], unit.of, 0.5), unit.name)
			}
			b.ReportMetric(at(all[name], costUnits[0].of, 0.25), "ms-q1")
			b.ReportMetric(at(all[name], costUnits[0].of, 0.75), "ms-q3")
			b.ReportMetric(at(all[name], costUnits[0].of, 0.5)/at(bare, costUnits[0].of, 0.5), "of-bare-ms")
			b.ReportMetric(at(all[name], costUnits[1].of, 0.5)/at(bare, costUnits[1].of, 0.5), "of-bare-WAL")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// sizes returns a table of the sizes of tables and indexes that grow with the number of origins.
func (w costWorld) sizes(b *testing.B) string {
	b.Helper()
	rows, err := w.store.Pool().Query(b.Context(), `select oid::regclass::text, pg_relation_size(oid), greatest(reltuples, 0)::bigint from pg_class
		where relkind in ('r', 'i') and relnamespace in ('public'::regnamespace, 'scheduler_go'::regnamespace) and pg_relation_size(oid) > 1e6
		order by relkind desc, 1`)
	if err != nil {
		b.Fatal(err)
	}
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\nof %d origins, built in %.1f s:\tbytes\trows\tbytes an origin\t\n", w.origins, w.build.Seconds())
	var name string
	var bytes, count int64
	if _, err := pgx.ForEachRow(rows, []any{&name, &bytes, &count}, func() error {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.1f\t\n", name, bytes, count, float64(bytes)/float64(w.origins))
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	t.Flush()
	return text.String()
}
