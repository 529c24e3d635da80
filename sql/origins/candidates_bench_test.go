package origins_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
)

// benchSizes returns the numbers of listed origins to measure with: SWH_BENCH_SIZES, separated by commas.
func benchSizes(b *testing.B) []int {
	b.Helper()
	text := os.Getenv("SWH_BENCH_SIZES")
	if text == "" {
		text = "100000,300000,1000000"
		if bench.Quick() {
			text = "50000,60000"
		}
	}
	var sizes []int
	for _, s := range strings.Split(text, ",") {
		n, err := strconv.Atoi(s)
		if err != nil {
			b.Fatalf("SWH_BENCH_SIZES: %v", err)
		}
		sizes = append(sizes, n)
	}
	if benchDatabase != "" && len(sizes) != 1 {
		b.Fatal("SWH_BENCH_DATABASE takes one number in SWH_BENCH_SIZES")
	}
	return sizes
}

// benchWorld is a database with many origins of four listers. One in five has no last update, one in twenty
// is disabled, two in three were scheduled, half of these are loaded, and some cool down.
type benchWorld struct {
	dsn     string
	origins int
	store   *db.Store
	build   time.Duration
	r       *rand.Rand
}

// openBenchWorld opens a database with a number of origins.
func openBenchWorld(b *testing.B, dsn string, origins int) *benchWorld {
	b.Helper()
	return &benchWorld{dsn: dsn, origins: origins, store: testenv.OpenLocal(b, dsn), r: seed.Rand(b)}
}

// benchDatabase is the database of benchmarks that use SWH_BENCH_DATABASE. It is empty, or an earlier run
// has filled it with as many origins.
var benchDatabase = os.Getenv("SWH_BENCH_DATABASE")

// newBenchWorld fills a database that has the Python scheduler's tables, unless it is filled, and builds
// candidates.
func newBenchWorld(b *testing.B, dsn string, origins int) *benchWorld {
	b.Helper()
	w := openBenchWorld(b, dsn, origins)
	if !testenv.Value[bool](b, w.store.Pool(), "select exists (select from listed_origins)") {
		w.fill(b)
		w.buildCandidates(b)
	} else if n := testenv.Value[int](b, w.store.Pool(), "select count(*) from listed_origins"); n < origins {
		b.Fatalf("SWH_BENCH_DATABASE was filled with %d origins, not %d", n, origins)
	}
	return w
}

// fill adds the origins, without triggers.
func (w *benchWorld) fill(b *testing.B) {
	b.Helper()
	w.exec(b, `insert into listers (id, name, instance_name, current_state, updated)
		select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'l', n, '{}', now() from generate_series(1, 4) n`)
	for first := 1; first <= w.origins; first += fillBatch {
		if err := pgx.BeginFunc(b.Context(), w.store.Pool(), func(tx pgx.Tx) error {
			return fill(b.Context(), tx, first, min(w.origins, first+fillBatch-1))
		}); err != nil {
			b.Fatal(err)
		}
	}
	w.exec(b, "vacuum analyze")
}

func (w *benchWorld) buildCandidates(b *testing.B) {
	b.Helper()
	began := time.Now()
	testenv.Migrate(b, w.dsn, migrate.Options{Rebuild: true})
	w.build = time.Since(began)
	w.exec(b, "vacuum")
}

const (
	fillBatch = 1_000_000

	// urlOf is the URL of origin n in SQL.
	urlOf = `'https://forge' || n % 97 || '.example.org/user' || n * 7919 % 100003 || '/repository-' || n`
)

// fill adds the origins from first to last, without triggers.
func fill(ctx context.Context, tx pgx.Tx, first, last int) error {
	if _, err := tx.Exec(ctx, "set local session_replication_role = replica"); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `with listed as (
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, first_seen, last_seen, last_update)
		select ('00000000-0000-0000-0000-00000000000' || 1 + n % 4)::uuid, `+urlOf+`, 'git', '{}', n % 20 <> 0,
		  now() - random() * interval '900 days', now(), case when n % 5 < 4 then now() - random() * interval '700 days' end
		from generate_series($1::bigint, $2::bigint) n
		returning url
	)
	insert into origin_visit_stats (url, visit_type, last_successful, last_visit, last_visit_status, last_scheduled, last_snapshot, next_visit_queue_position)
	select url, 'git', case when r < 0.5 then at end, case when r < 0.7 then at end,
	  case when r < 0.5 then 'successful' when r < 0.6 then 'failed' when r < 0.7 then 'not_found' end::last_visit_status,
	  at - interval '1 hour', case when r < 0.5 then '\x0123456789012345678901234567890123456789'::bytea end,
	  case when r < 0.7 then (random() * 1e7)::bigint end
	from (select url, random() as r, now() - random() * interval '500 days' as at from listed where random() < 0.7) o`, first, last)
	return err
}

func (w *benchWorld) exec(b *testing.B, statement string, args ...any) {
	b.Helper()
	testenv.Exec(b, w.store.Pool(), statement, args...)
}

// keep drains all changes, as the keeper of schedule-recurrent does.
func (w *benchWorld) keep(b *testing.B) {
	b.Helper()
	bench.Drain(b, w.store)
	w.exec(b, "vacuum scheduler_go.candidate_changes")
}

// grab grabs a thousand origins and, unless it is a dry run, writes their messages to the ledger.
func (w *benchWorld) grab(b *testing.B, policy model.VisitPolicy, dryRun bool) time.Duration {
	b.Helper()
	began := time.Now()
	origins := w.grabAt(b, model.VisitFilter{VisitType: "git", Policy: policy, Cooldowns: model.DefaultCooldowns}, began, dryRun)
	took := time.Since(began)
	if len(origins) != 1000 {
		b.Fatalf("%d origins", len(origins))
	}
	return took
}

// grabAt grabs a thousand origins at a date.
func (w *benchWorld) grabAt(b *testing.B, f model.VisitFilter, now time.Time, dryRun bool) (origins []model.ListedOrigin) {
	b.Helper()
	if err := w.store.InTx(b.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		if dryRun {
			origins, err = tx.GrabNextVisits(ctx, f, now, 1000, true)
			return err
		}
		grabbed, err := tx.Grabs(now).Next(ctx, f, 1000)
		if err != nil {
			return err
		}
		for _, v := range grabbed {
			origins = append(origins, v.Origin)
		}
		work, err := dispatch.VisitWork(ctx, tx, "q", "t", dispatch.Visits(grabbed), now)
		if err != nil {
			return err
		}
		return tx.AddWork(ctx, work)
	}); err != nil {
		b.Fatal(err)
	}
	return origins
}

// done runs do and then drains the recorded changes. It returns the time without and with the drain.
func (w *benchWorld) done(b *testing.B, do func()) bench.Figures {
	b.Helper()
	took := ms(do)
	return bench.Figures{"until-done-ms": took, "ms": took + ms(func() { bench.Drain(b, w.store) })}
}

// least returns the shortest of n times, in milliseconds: other load only adds to a time.
func least(n int, do func() time.Duration) float64 {
	times := make([]time.Duration, n)
	for i := range times {
		times[i] = do()
	}
	return float64(slices.Min(times).Microseconds()) / 1000
}

// BenchmarkCoolingGrab measures dry grabs of 1,000 origins, the shortest of 15, by the number of origins
// (SWH_BENCH_SIZES). Origins that cool down are first in each order. It also measures after and beside a
// lister that records half as many new origins, at most a million.
func BenchmarkCoolingGrab(b *testing.B) {
	for _, size := range benchSizes(b) {
		b.Run(fmt.Sprint("origins=", size), func(b *testing.B) {
			w := newBenchWorld(b, testenv.PythonDatabase(b), size)
			dry := func(b *testing.B, policy model.VisitPolicy) {
				w.grab(b, policy, true) // warms the caches
				b.ReportMetric(least(15, func() time.Duration { return w.grab(b, policy, true) }), "ms")
				b.ReportMetric(0, "ns/op")
			}
			front := min(200_000, size/50)
			for _, policy := range plainPolicies {
				b.Run("cooling/"+string(policy), func(b *testing.B) {
					w.schedule(b, policy, front)
					w.keep(b)
					b.ReportMetric(float64(w.grab(b, policy, true).Microseconds())/1000, "first-ms")
					dry(b, policy)
				})
			}
			b.Run("listed", func(b *testing.B) {
				recorded, backlog := w.listNew(b, min(1_000_000, size/2))
				for _, policy := range plainPolicies {
					b.Run(string(policy), func(b *testing.B) {
						dry(b, policy)
						b.ReportMetric(recorded, "origins/s")
						b.ReportMetric(float64(backlog), "backlog")
					})
				}
			})
		})
	}
}

// schedule marks the first n origins of a policy's order as scheduled now.
func (w *benchWorld) schedule(b *testing.B, policy model.VisitPolicy, n int) {
	b.Helper()
	if err := w.store.InTx(b.Context(), func(ctx context.Context, tx *db.Tx) error {
		f := model.VisitFilter{VisitType: "git", Policy: policy, Cooldowns: model.DefaultCooldowns}
		_, err := tx.GrabNextVisits(ctx, f, time.Now(), n, false)
		return err
	}); err != nil {
		b.Fatal(err)
	}
}

// listNew makes the Python scheduler's code record n new origins, a thousand at a time, beside a keeper. It
// returns the rate per second, and the changes not drained at the end.
func (w *benchWorld) listNew(b *testing.B, n int) (perSecond float64, backlog int64) {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	var keeper errgroup.Group
	keeper.Go(func() error {
		for ctx.Err() == nil {
			if _, err := w.store.MaintainCandidates(b.Context()); err != nil {
				return err
			}
		}
		return nil
	})
	ms := startPeerScript(b, "postgresql", w.dsn).ms(b, call{"call": "new_listings", "count": n})
	perSecond = float64(n) / ms * 1000
	backlog, err := w.store.CandidateBacklog(b.Context(), 10_000_000)
	if err != nil {
		b.Fatal(err)
	}
	stop()
	if err := keeper.Wait(); err != nil {
		b.Fatal(err)
	}
	return perSecond, backlog
}
