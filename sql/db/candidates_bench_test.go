package db_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/guptarohit/asciigraph"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// benchSizes are the numbers of listed origins to measure with:
// SWH_BENCH_SIZES, separated by commas.
func benchSizes(b *testing.B) []int {
	b.Helper()
	text := os.Getenv("SWH_BENCH_SIZES")
	if text == "" {
		text = "100000,1000000"
	}
	var sizes []int
	for _, s := range strings.Split(text, ",") {
		n, err := strconv.Atoi(s)
		if err != nil {
			b.Fatalf("SWH_BENCH_SIZES: %v", err)
		}
		sizes = append(sizes, n)
	}
	return sizes
}

// benchWorld is a database with many origins, of four listers: one in five
// without a last update, one in twenty disabled, two in three once scheduled,
// half of these loaded; some cool down.
type benchWorld struct {
	dsn     string
	origins int
	store   *db.Store
	build   time.Duration
}

// newBenchWorld fills a database, which has the Python scheduler's tables, and builds
// candidates.
func newBenchWorld(b *testing.B, dsn string, origins int) *benchWorld {
	b.Helper()
	w := &benchWorld{dsn: dsn, origins: origins}
	store, err := db.Open(b.Context(), dsn, db.Options{Command: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(store.Close)
	w.store = store
	w.exec(b, `insert into listers (id, name, instance_name, current_state, updated)
		select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'l', n, '{}', now() from generate_series(1, 4) n`)
	for first := 1; first <= origins; first += fillBatch {
		if err := pgx.BeginFunc(b.Context(), store.Pool(), func(tx pgx.Tx) error {
			return fill(b.Context(), tx, first, min(origins, first+fillBatch-1))
		}); err != nil {
			b.Fatal(err)
		}
	}
	w.exec(b, "vacuum analyze")
	began := time.Now()
	if _, err := db.Migrate(b.Context(), dsn, db.MigrateOptions{Rebuild: true}); err != nil {
		b.Fatal(err)
	}
	w.build = time.Since(began)
	w.exec(b, "vacuum")
	return w
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
	if _, err := w.store.Pool().Exec(b.Context(), statement, args...); err != nil {
		b.Fatal(err)
	}
}

// keep drains everything, as the keeper of schedule-recurrent does.
func (w *benchWorld) keep(b *testing.B) {
	b.Helper()
	for more := true; more; {
		kept, err := w.store.KeepCandidates(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		more = kept.More
	}
	w.exec(b, "vacuum scheduler_go.candidate_changes")
}

// grab takes a thousand origins and, if it is a real grab, writes their messages
// to the ledger.
func (w *benchWorld) grab(b *testing.B, policy model.VisitPolicy, dryRun bool) time.Duration {
	b.Helper()
	began := time.Now()
	err := w.store.InTx(b.Context(), func(ctx context.Context, tx *db.Tx) error {
		f := model.VisitFilter{VisitType: "git", Policy: policy, Cooldowns: model.DefaultCooldowns}
		now := time.Now()
		origins, err := tx.GrabNextVisits(ctx, f, now, 1000, dryRun)
		if err == nil && !dryRun {
			var work []db.Work
			if work, err = dispatch.VisitWork(ctx, tx, "q", "t", dispatch.Visits(origins), now); err == nil {
				err = tx.AddWork(ctx, work)
			}
		}
		if err == nil && len(origins) != 1000 {
			err = fmt.Errorf("%d origins", len(origins))
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

func median(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2].Microseconds()) / 1000
}

// least is the shortest of n times, in milliseconds: what else the machine does
// only adds to it.
func least(n int, do func() time.Duration) float64 {
	times := make([]time.Duration, n)
	for i := range times {
		times[i] = do()
	}
	return float64(slices.Min(times).Microseconds()) / 1000
}

// BenchmarkGrab compares grabs of 1,000 origins with the peer's, at each size of
// the table (SWH_BENCH_SIZES): in milliseconds, one from here and one from the peer's
// own backend, the shortest of a fixed number of grabs, whatever -benchtime.
// Candidates are built once a size (build-s).
//
// A table and a plot of the cost by size come at the end.
func BenchmarkGrab(b *testing.B) {
	costs := &costs{}
	for _, size := range benchSizes(b) {
		b.Run(fmt.Sprint("origins=", size), func(b *testing.B) {
			w := newBenchWorld(b, testenv.PeerDatabase(b), size)
			peer := startPeerGrab(b, w.dsn)
			peerMS := func(b *testing.B, policy model.VisitPolicy, n int, dryRun bool) float64 {
				return least(n, func() time.Duration {
					began := time.Now()
					peer.grab(b, model.VisitFilter{VisitType: "git", Policy: policy, Cooldowns: model.DefaultCooldowns}, began, 1000, dryRun)
					return time.Since(began)
				})
			}
			report := func(b *testing.B, ours, theirs float64) {
				costs.add(size, b.Name(), ours, theirs)
				if theirs == 0 {
					b.ReportMetric(ours, "ms")
					b.ReportMetric(0, "ns/op")
					return
				}
				bench.Report(b, "ours", map[string]float64{"ms": ours})
				bench.Report(b, "peer", map[string]float64{"ms": theirs})
			}
			b.Run("build", func(b *testing.B) {
				b.ReportMetric(w.build.Seconds(), "build-s")
				b.ReportMetric(0, "ns/op")
			})
			dry := func(b *testing.B, policy model.VisitPolicy, peerRuns int) {
				w.grab(b, policy, true) // warms the caches
				ours := least(15, func() time.Duration { return w.grab(b, policy, true) })
				theirs := 0.0
				if peerRuns > 0 {
					theirs = peerMS(b, policy, peerRuns, true)
				}
				report(b, ours, theirs)
			}
			for _, policy := range plainPolicies {
				b.Run("dry/"+string(policy), func(b *testing.B) { dry(b, policy, 3) })
			}
			for _, policy := range plainPolicies {
				b.Run("real/"+string(policy), func(b *testing.B) {
					ours := least(3, func() time.Duration {
						took := w.grab(b, policy, false)
						w.keep(b)
						return took
					})
					theirs := peerMS(b, policy, 1, false)
					w.keep(b)
					report(b, ours, theirs)
				})
			}
			// The front of each order fills with origins that cool down, as they
			// were just scheduled.
			front := min(200_000, size/50)
			for _, policy := range plainPolicies {
				b.Run("cooling/"+string(policy), func(b *testing.B) {
					w.schedule(b, policy, front)
					w.keep(b)
					b.ReportMetric(float64(w.grab(b, policy, true).Microseconds())/1000, "first-ms")
					dry(b, policy, 0)
				})
			}
			// The peer's code records half as many new origins, a million at most,
			// while the keeper works.
			b.Run("listed", func(b *testing.B) {
				recorded, backlog := w.list(b, min(1_000_000, size/2))
				for _, policy := range plainPolicies {
					b.Run(string(policy), func(b *testing.B) {
						dry(b, policy, 0)
						b.ReportMetric(recorded, "origins/s")
						b.ReportMetric(float64(backlog), "backlog")
					})
				}
			})
		})
	}
	b.Log("\n" + costs.text())
}

// costs are the figures of BenchmarkGrab by size of the table.
type costs struct {
	sizes []int
	kinds []string              // such as dry/oldest_scheduled_first
	cost  map[costOf][2]float64 // ours and the peer's, 0 where it was not measured
}

type costOf struct {
	kind string
	size int
}

// add notes a figure of the sub-benchmark BenchmarkGrab/origins=N/kind.
func (c *costs) add(size int, name string, ours, theirs float64) {
	kind := strings.SplitN(name, "/", 3)[2]
	if c.cost == nil {
		c.cost = map[costOf][2]float64{}
	}
	if !slices.Contains(c.sizes, size) {
		c.sizes = append(c.sizes, size)
	}
	if !slices.Contains(c.kinds, kind) {
		c.kinds = append(c.kinds, kind)
	}
	c.cost[costOf{kind, size}] = [2]float64{ours, theirs}
}

// text is a table in milliseconds, and a plot of how the cost of a dry run grows,
// on logarithmic scales: a line that lies flat doesn't grow.
func (c *costs) text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "1,000 origins, ms")
	for _, size := range c.sizes {
		fmt.Fprintf(w, "\t%d ours\tpeer", size)
	}
	fmt.Fprintln(w)
	var lines [2][]float64 // ours and the peer's, over all dry runs
	for _, kind := range c.kinds {
		fmt.Fprint(w, kind)
		for _, size := range c.sizes {
			cost, theirs := c.cost[costOf{kind, size}], "-"
			if cost[1] > 0 {
				theirs = fmt.Sprintf("%.0f", cost[1])
			}
			fmt.Fprintf(w, "\t%.1f\t%s", cost[0], theirs)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	for _, size := range c.sizes {
		var sums [2]float64
		n := 0.0
		for _, kind := range c.kinds {
			if cost, ok := c.cost[costOf{kind, size}]; ok && strings.HasPrefix(kind, "dry/") {
				sums[0] += math.Log10(cost[0])
				sums[1] += math.Log10(cost[1])
				n++
			}
		}
		lines[0], lines[1] = append(lines[0], sums[0]/n), append(lines[1], sums[1]/n)
	}
	if len(c.sizes) > 1 {
		b.WriteString(asciigraph.PlotMany([][]float64{lines[0], lines[1]}, asciigraph.Height(10), asciigraph.Width(60),
			asciigraph.Caption(fmt.Sprintf("dry runs: log10 of ms (lower line: ours), from %d to %d origins", c.sizes[0], c.sizes[len(c.sizes)-1]))))
	}
	return b.String()
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

// list records n new origins, a thousand at a time, beside a keeper. It returns
// how many a second, and what the keeper had not drained when the last was there.
func (w *benchWorld) list(b *testing.B, n int) (perSecond float64, backlog int64) {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	var keeper errgroup.Group
	keeper.Go(func() error {
		for ctx.Err() == nil {
			if _, err := w.store.KeepCandidates(b.Context()); err != nil {
				return err
			}
		}
		return nil
	})
	took := w.startWriter(b).write(b, "list", n)
	perSecond = float64(n) / took[0].Seconds()
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

// BenchmarkPeerWriters times the peer's own code that records 1,000 listed
// origins and upserts the stats of 1,000 visits, new ones and changed ones, with
// our triggers (with-ms) and without (without-ms), in turns.
func BenchmarkPeerWriters(b *testing.B) {
	w := newBenchWorld(b, testenv.PeerDatabase(b), 100_000)
	writer := w.startWriter(b)
	names := []string{"list new", "upsert new", "list changed", "upsert changed"}
	with, without := make([][]time.Duration, len(names)), make([][]time.Duration, len(names))
	for i := range 30 {
		times, switched := with, "enable"
		if i%2 == 0 {
			times, switched = without, "disable"
		}
		for _, table := range []string{"listed_origins", "origin_visit_stats"} {
			for _, event := range []string{"insert", "update"} {
				w.exec(b, "alter table "+table+" "+switched+" trigger scheduler_go_candidate_"+event)
			}
		}
		for j, took := range writer.write(b, "write", i) {
			times[j] = append(times[j], took)
		}
	}
	for j, name := range names {
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(median(with[j]), "with-ms")
			b.ReportMetric(median(without[j]), "without-ms")
			b.ReportMetric(median(with[j])/median(without[j]), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// peerWriter is a script of the peer's own code, which answers lines.
type peerWriter struct{ *testenv.Script }

func (w *benchWorld) startWriter(b *testing.B) peerWriter {
	b.Helper()
	return peerWriter{testenv.StartScript(b, nil, "testdata/bench_writers.py", w.dsn)}
}

// write gives a command and returns how long its parts took.
func (p peerWriter) write(b *testing.B, command string, n int) []time.Duration {
	b.Helper()
	var took []float64
	if err := json.Unmarshal([]byte(p.Say(b, fmt.Sprint(command, " ", n))), &took); err != nil {
		b.Fatal(err)
	}
	times := make([]time.Duration, len(took))
	for i, ms := range took {
		times[i] = time.Duration(ms * float64(time.Millisecond))
	}
	return times
}

// BenchmarkGrabThroughRPC compares dry grabs of 1,000 origins out of a million
// through the peer's own Python client, from our RPC server and from the peer's.
func BenchmarkGrabThroughRPC(b *testing.B) {
	w := newBenchWorld(b, testenv.PeerDatabase(b), 1_000_000)
	clients := map[string]peerWriter{"ours": rpcClient(b, serveRPC(b, w.store)), "peer": rpcClient(b, servePeerRPC(b, w.dsn))}
	for _, policy := range plainPolicies {
		for side, client := range clients {
			b.Run(string(policy)+"/side="+side, func(b *testing.B) {
				took := client.ask(b, string(policy))
				b.ReportMetric(took, "call-ms")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func serveRPC(b *testing.B, store *db.Store) (url string) {
	b.Helper()
	server, err := rpc.Listen(b.Context(), rpc.Options{
		Address: "127.0.0.1:0", Store: store, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- service.Group{Log: slog.New(slog.DiscardHandler)}.Run(ctx, service.Component{Name: "RPC server", Run: server.Run})
	}()
	b.Cleanup(func() {
		stop()
		<-done
	})
	return "http://" + server.Addr().String()
}

func servePeerRPC(b *testing.B, dsn string) (url string) {
	b.Helper()
	return "http://127.0.0.1:" + testenv.StartScript(b, nil, "-W", "ignore", "../../internal/rpc/testdata/peer_server.py", dsn).Line(b)
}

func rpcClient(b *testing.B, url string) peerWriter {
	b.Helper()
	return peerWriter{testenv.StartScript(b, nil, "testdata/bench_rpc.py", url)}
}

// ask gives a line and returns the number that answers it.
func (p peerWriter) ask(b *testing.B, line string) float64 {
	b.Helper()
	answer, err := strconv.ParseFloat(p.Say(b, line), 64)
	if err != nil {
		b.Fatal(err)
	}
	return answer
}
