package origins_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/migrate"
)

const (
	pushSecret  = "a-secret-of-webhooks"
	pushQueue   = "webhooks"
	pushClients = 64
	// pushWaiting is how many origins without other changes wait for hints, to measure from push to queue.
	pushWaiting = 20_000
)

// pushWorld is a database with rpc-serve, which receives webhooks, and schedule-recurrent.
type pushWorld struct {
	*benchWorld
	url       string
	waiting   string // URL of the waiting origins, up to their number
	processes map[string]*exec.Cmd
	queued    <-chan queuedPush
}

// queuedPush is a visit that came out of the queue.
type queuedPush struct {
	url string
	at  time.Time
}

// BenchmarkWebhooks measures signed webhooks of GitHub through rpc-serve by the number of origins (SWH_BENCH_SIZES;
// SWH_BENCH_DATABASE). Their origins are as Zipf's law has it, one in ten is unknown, and one in a hundred comes twice. One part
// sends as many as there are answers, one sends 2,000 a second. Meanwhile schedule-recurrent drains candidates, and
// one push in 200 is of a visit type without other changes: it is measured from the push until a worker takes its message
// from the queue. cpu-us-… are microseconds of processor time for each webhook, of each process. bare-us is the processor time of
// PostgreSQL for an update of a random row without our triggers.
func BenchmarkWebhooks(b *testing.B) {
	part := time.Duration(bench.Size(60, 3)) * time.Second
	for _, size := range benchSizes(b) {
		w := newPushWorld(b, size)
		for _, side := range []struct {
			name      string
			perSecond int
		}{{"most", 0}, {"paced", 2000}} {
			b.Run(fmt.Sprintf("origins=%d/%s", size, side.name), func(b *testing.B) {
				w.measure(b, part, side.perSecond)
			})
		}
		b.Run(fmt.Sprintf("origins=%d/bare", size), w.bare)
	}
}

func newPushWorld(b *testing.B, origins int) *pushWorld {
	b.Helper()
	mq, dsn := testenv.RabbitMQ(b), benchDatabase
	if dsn == "" {
		dsn = testenv.PostgresServer(b, "max_wal_size=2GB", "checkpoint_timeout=10min")
	}
	testenv.Migrate(b, dsn, migrate.Options{})
	w := &pushWorld{benchWorld: newBenchWorld(b, dsn, origins), processes: map[string]*exec.Cmd{}}
	w.waiting = fmt.Sprintf("https://hinted%d.example.org/repository-", time.Now().Unix())
	w.exec(b, `insert into task_type (type, description, backend_name, max_queue_length) values ('load-hg', '', $1, 1000)
		on conflict (type) do update set backend_name = excluded.backend_name, max_queue_length = excluded.max_queue_length`, pushQueue)
	w.exec(b, `with listed as (
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, first_seen, last_seen, last_update)
		select '00000000-0000-0000-0000-000000000001', $1::text || n, 'hg', '{}', true, now() - interval '90 days', now(), now() - interval '9 days'
		from generate_series(1, $2::int) n returning url
	)
	insert into origin_visit_stats (url, visit_type, last_successful, last_visit, last_visit_status, last_scheduled, last_snapshot)
	select url, 'hg', at, at, 'successful', at, '\x01' from listed, (select now() - interval '8 days' as at) d`, w.waiting, pushWaiting)
	w.keep(b)
	w.queued = takePushes(b, mq.URL)
	program := bench.Programs(b)[0]
	config := bench.ConfigFile(b, dsn, mq.URL, fmt.Sprintf(`hints: {github: {secret: %q, hosts: "*.example.org", max_per_second: 100000}}`, pushSecret),
		"scheduling_policy: {hg: [{policy: already_visited_order_by_lag, weight: 1}]}")
	start := func(name string, arguments ...string) *exec.Cmd {
		w.processes[name] = program.Command(config, append([]string{name}, arguments...)...)
		return w.processes[name]
	}
	w.url, _ = bench.Serve(b, func(address string) *exec.Cmd {
		host, port, _ := strings.Cut(address, ":")
		return start("rpc-serve", "--host", host, "--port", port)
	})
	bench.Start(b, start("schedule-recurrent", "--visit-type", "hg"))
	return w
}

// takePushes consumes the queue, and returns its visits.
func takePushes(b *testing.B, broker string) <-chan queuedPush {
	b.Helper()
	ch := testenv.Channel(b, broker)
	if _, err := ch.QueueDeclare(pushQueue, true, false, false, false, nil); err != nil {
		b.Fatal(err)
	}
	messages, err := ch.Consume(pushQueue, "", true, false, false, false, nil)
	if err != nil {
		b.Fatal(err)
	}
	taken := make(chan queuedPush, pushWaiting)
	go func() {
		for m := range messages {
			var message [3]json.RawMessage
			var kwargs struct{ URL string }
			if json.Unmarshal(m.Body, &message) == nil && json.Unmarshal(message[1], &kwargs) == nil {
				taken <- queuedPush{kwargs.URL, time.Now()}
			}
		}
	}()
	return taken
}

// pushes are the webhooks of a part, by status of the answer, with the time that answers took.
type pushes struct {
	mu       sync.Mutex
	statuses map[int]int
	took     []time.Duration
	sent     map[string]time.Time // of waiting origins
}

// measure sends webhooks for a time, perSecond of them or, if it is 0, as many as there are answers.
func (w *pushWorld) measure(b *testing.B, lasting time.Duration, perSecond int) {
	p := &pushes{statuses: map[int]int{}, sent: map[string]time.Time{}}
	next := make(chan []byte, pushClients)
	before, began := w.processorTimes(b), time.Now()
	g, ctx := errgroup.WithContext(b.Context())
	for c := range pushClients {
		g.Go(func() error { return w.client(ctx, c, next, p) })
	}
	bodies := w.bodies(b, p)
	for n, end := 0, began.Add(lasting); time.Now().Before(end) && ctx.Err() == nil; n++ {
		if perSecond > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(perSecond))))
		}
		select {
		case next <- bodies():
		case <-ctx.Done():
		}
	}
	close(next)
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	elapsed, after := time.Since(began), w.processorTimes(b)
	answers := len(p.took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(p.statuses[http.StatusOK])/elapsed.Seconds(), "hints/s")
	for name, before := range before {
		b.ReportMetric(float64((after[name]-before).Microseconds())/float64(answers), "cpu-us-"+name)
	}
	for status, n := range p.statuses {
		if status != http.StatusOK {
			b.ReportMetric(float64(n), fmt.Sprint("answers-", status))
		}
	}
	slices.Sort(p.took)
	b.ReportMetric(float64(p.took[answers/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(p.took[answers*99/100].Microseconds())/1000, "p99-ms")
	left, err := w.store.CandidateBacklog(b.Context(), 10_000_000)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(left), "changes-left")
	queued := w.untilQueued(p.sent, lasting)
	if len(queued) == 0 {
		b.Fatal("no push came to the queue")
	}
	slices.Sort(queued)
	b.ReportMetric(queued[len(queued)/2].Seconds(), "queue-p50-s")
	b.ReportMetric(queued[len(queued)*99/100].Seconds(), "queue-p99-s")
	b.ReportMetric(float64(len(p.sent)-len(queued)), "queue-missing")
	memory, peak := bench.Memory(b, w.processes["rpc-serve"])
	b.ReportMetric(memory, "rpc-serve-MiB")
	b.ReportMetric(peak, "rpc-serve-peak-MiB")
}

// untilQueued returns the times from pushes to the queue. It waits as long as messages come, and longest as given.
func (w *pushWorld) untilQueued(sent map[string]time.Time, longest time.Duration) (took []time.Duration) {
	end := time.After(max(longest, 20*time.Second))
	for len(took) < len(sent) {
		select {
		case q := <-w.queued:
			if at, ok := sent[q.url]; ok {
				took = append(took, q.at.Sub(at))
			}
		case <-end:
			return took
		}
	}
	return took
}

// client sends bodies from an address of its own on one connection.
func (w *pushWorld) client(ctx context.Context, n int, next <-chan []byte, p *pushes) error {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(n+1))}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	defer transport.CloseIdleConnections()
	var took []time.Duration
	statuses := map[int]int{}
	for body := range next {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/hints/github", bytes.NewReader(body))
		if err != nil {
			return err
		}
		h := hmac.New(sha256.New, []byte(pushSecret))
		h.Write(body)
		r.Header = http.Header{
			"Content-Type": {"application/json"}, "User-Agent": {"GitHub-Hookshot/044aadd"}, "X-Github-Event": {"push"},
			"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(h.Sum(nil))},
		}
		began := time.Now()
		answer, err := transport.RoundTrip(r)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, answer.Body) // the status counts
		_ = answer.Body.Close()
		took = append(took, time.Since(began))
		statuses[answer.StatusCode]++
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took = append(p.took, took...)
	for status, n := range statuses {
		p.statuses[status] += n
	}
	return nil
}

// bodies returns a function that returns the next body. Only one goroutine may call it.
func (w *pushWorld) bodies(b *testing.B, p *pushes) func() []byte {
	b.Helper()
	r := seed.Rand(b)
	zipf := rand.NewZipf(r, 1.1, 1, uint64(w.origins-1))
	n, waiting := 0, testenv.Value[int](b, w.store.Pool(), "select count(*) from origin_visit_stats where visit_type = 'hg' and last_scheduled > last_visit and url like $1", w.waiting+"%")
	last := pushBody("https://forge1.example.org/user/repository", "0", time.Now())
	return func() []byte {
		n++
		url := originOf(zipf.Uint64()*7919%uint64(w.origins) + 1)
		switch {
		case n%200 == 0 && waiting < pushWaiting:
			waiting++
			url = fmt.Sprint(w.waiting, waiting)
			p.mu.Lock()
			p.sent[url] = time.Now()
			p.mu.Unlock()
		case n%100 == 1:
			return last
		case n%10 == 0:
			url = fmt.Sprintf("https://forge%d.example.org/new/repository-%d", n%97, r.Uint64())
		}
		last = pushBody(url, fmt.Sprintf("%016x", r.Uint64()), time.Now())
		return last
	}
}

// originOf is urlOf in Go.
func originOf(n uint64) string {
	return fmt.Sprintf("https://forge%d.example.org/user%d/repository-%d", n%97, n*7919%100003, n)
}

// pushBody is a webhook of GitHub on a push of two commits, of some 8 KiB.
func pushBody(url, commit string, at time.Time) []byte {
	return []byte(strings.NewReplacer("{url}", url, "{commit}", commit, "{pushed}", fmt.Sprint(at.Unix()), "{date}", at.UTC().Format(time.RFC3339)).Replace(pushTemplate()))
}

// pushTemplate has the fields that GitHub documents.
var pushTemplate = sync.OnceValue(func() string {
	links := func(of string, names ...string) map[string]any {
		all := map[string]any{}
		for _, name := range names {
			all[name+"_url"] = of + "/" + name + "{/id}"
		}
		return all
	}
	with := func(all map[string]any, more map[string]any) map[string]any {
		for name, value := range more {
			all[name] = value
		}
		return all
	}
	user := func() map[string]any {
		return with(links("https://api.forge.example.org/users/user", "followers", "following", "gists", "starred", "subscriptions", "organizations", "repos", "events", "received_events", "avatar"),
			map[string]any{"login": "user", "id": 21031067, "node_id": "MDQ6VXNlcjIxMDMxMDY3", "type": "User", "site_admin": false})
	}
	change := map[string]any{
		"id": "{commit}{commit}", "tree_id": "{commit}{commit}", "distinct": true, "message": "a change of some files\n\nIts reason in two\nlines.", "timestamp": "{date}", "url": "{url}/commit/{commit}",
		"author": map[string]any{"name": "User", "email": "user@example.org", "username": "user"}, "committer": map[string]any{"name": "User", "email": "user@example.org", "username": "user"},
		"added": []string{"docs/a.md"}, "removed": []string{}, "modified": []string{"README.md", "src/main.c", "src/util.c"},
	}
	repository := with(links("https://api.forge.example.org/repos/user/repository", "forks", "keys", "collaborators", "teams", "hooks", "issue_events", "events", "assignees", "branches", "tags", "blobs", "git_tags",
		"git_refs", "trees", "statuses", "languages", "stargazers", "contributors", "subscribers", "subscription", "commits", "git_commits", "comments", "issue_comment", "contents", "compare", "merges", "archive",
		"downloads", "issues", "pulls", "milestones", "notifications", "labels", "releases", "deployments"),
		map[string]any{
			"id": 186853002, "name": "repository", "full_name": "user/repository", "private": false, "owner": user(), "html_url": "{url}", "clone_url": "{url}.git", "description": "a repository", "fork": false,
			"created_at": 1557933565, "updated_at": "{date}", "pushed_at": json.Number("1234567890"), "size": 1024, "stargazers_count": 12, "language": "C", "default_branch": "main", "topics": []string{"a", "b"},
		})
	text, err := json.Marshal(map[string]any{
		"ref": "refs/heads/main", "before": "{commit}{commit}", "after": "{commit}{commit}", "compare": "{url}/compare/a...b", "created": false, "deleted": false, "forced": false,
		"repository": repository, "pusher": map[string]any{"name": "user", "email": "user@example.org"}, "sender": user(), "commits": []any{change, change}, "head_commit": change,
	})
	if err != nil {
		panic(err)
	}
	return strings.Replace(string(text), "1234567890", "{pushed}", 1)
})

// bare updates random rows of listed_origins in statements of 100, without our triggers.
func (w *pushWorld) bare(b *testing.B) {
	rows := bench.Size(20_000, 1000)
	before, began := w.processorTimes(b)["postgresql"], time.Now()
	for range rows / 100 {
		urls := make([]string, 100)
		for i := range urls {
			urls[i] = originOf(w.r.Uint64N(uint64(w.origins)) + 1)
		}
		if err := pgx.BeginFunc(b.Context(), w.store.Pool(), func(tx pgx.Tx) error {
			if _, err := tx.Exec(b.Context(), "set local session_replication_role = replica"); err != nil {
				return err
			}
			_, err := tx.Exec(b.Context(), "update listed_origins set last_update = now() where url = any($1) and visit_type = 'git'", urls)
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(rows)/time.Since(began).Seconds(), "rows/s")
	b.ReportMetric(float64((w.processorTimes(b)["postgresql"]-before).Microseconds())/float64(rows), "bare-us")
}

// processorTimes returns the processor time of each process, of all processes of PostgreSQL, and of this one.
func (w *pushWorld) processorTimes(b *testing.B) map[string]time.Duration {
	b.Helper()
	times := map[string]time.Duration{"sender": bench.ProcessorTime(b, os.Getpid())}
	for name, cmd := range w.processes {
		times[name] = bench.ProcessorTime(b, cmd.Process.Pid)
	}
	times["postgresql"] = bench.FamilyTime(b, testenv.Value[int](b, w.store.Pool(), "select pg_backend_pid()"))
	return times
}
