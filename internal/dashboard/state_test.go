package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/status"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/journal"
	"swh-scheduler/sql/candidates"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/origins"
)

// broker has queues of 3 ready messages. Each has 2 consumers, unless its name says otherwise.
type broker struct{}

func (broker) Figures(context.Context, string) celery.QueueFigures { return celery.QueueFigures{} }

func (broker) LengthSince(_ context.Context, queue string, _ celery.QueueFigures, _ int) (celery.QueueLength, error) {
	length := celery.QueueLength{Exists: !strings.Contains(queue, ":"), Ready: 3, Unacknowledged: 4, Consumers: 2}
	if strings.Contains(queue, "unread") {
		length.Consumers = 0
	}
	return length, nil
}

// read returns a page's JSON.
func read[T any](s *site, path string) (data T) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.get(path, "Accept", "application/json")), &data); err != nil {
		s.t.Fatal(err)
	}
	return data
}

// The overview shows rates, durations and exceptions of ended work by type. Work counts once, though events and the
// journal may record it repeatedly.
func TestEndedWorkIsShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.Broker = broker{} },
		"insert into task_type (type, description, backend_name, max_queue_length) values ('list-git', '', 'swh.list', 10), ('load-git', '', 'swh.unread', 10)",
		`insert into task (type, arguments, next_run, status, policy, current_interval) select 'list-git', '{}', now(), 'next_run_scheduled', 'oneshot', '1 day' from generate_series(1, 4)`,
		"insert into task_run (task, backend_id, scheduled, status) select id, 'run-' || id, now(), 'scheduled' from task",
	)
	now := time.Now().Truncate(time.Microsecond)
	var events []settle.Outcome
	for n := 1; n <= 4; n++ {
		id := fmt.Sprintf("run-%d", n)
		end := settle.End{Status: model.RunEventful}
		if n == 4 {
			end = settle.End{Status: model.RunFailed, Error: new("requests.exceptions.ConnectionError: no route")}
		} else {
			events = append(events, settle.Outcome{BackendID: id, Received: now, Runtime: new(time.Duration(n) * 10 * time.Second)})
		}
		events = append(events, settle.Outcome{BackendID: id, Received: now, End: &end})
	}
	events = append(events, settle.Outcome{BackendID: uuid.NewString(), Received: now, End: &settle.End{Status: model.RunEventful}}) // of an unknown run
	workers := settle.Store{Store: s.store, Metrics: settle.NewMetrics(prometheus.NewRegistry())}
	rules := journal.Rules{Visits: &model.DefaultVisitRules}
	for range 2 { // all events are repeated
		if err := workers.ApplyOutcomes(t.Context(), events); err != nil {
			t.Fatal(err)
		}
		visits := []journal.Visit{
			{OriginKey: model.OriginKey{URL: "https://a.example", VisitType: "git"}, Date: now, Status: model.VisitSuccessful, Snapshot: []byte("1")},
			{OriginKey: model.OriginKey{URL: "https://b.example", VisitType: "git"}, Date: now, Status: model.VisitFailed},
		}
		if _, err := rules.Write(t.Context(), s.store, visits); err != nil {
			t.Fatal(err)
		}
	}
	s.exec("update scheduler_go.ended set minute = date_trunc('minute', now()) - interval '2 minutes'")

	o := read[overviewData](s, "/")
	at := slices.IndexFunc(o.Tasks, func(r typeData) bool { return r.Type == "list-git" })
	if at < 0 || len(o.Visits) != 1 {
		t.Fatalf("%+v", o)
	}
	list := o.Tasks[at]
	if diff := cmp.Diff([]any{[3]float64{0, 0.8, 4. / 60}, 20.0, map[string]int64{"eventful": 3, "failed": 1}, int64(1), []reason{{"ConnectionError", 1}}},
		[]any{list.Rates, *list.Average, list.Hour, list.Failed, list.Reasons}); diff != "" {
		t.Error(diff)
	}
	if *list.P95 < 30 || *list.P95 > 40 || list.Queue == nil || list.Queue.Ready != 3 || list.Queue.Limit != 10 {
		t.Errorf("p95 %g, queue %+v", *list.P95, list.Queue)
	}
	if git := o.Visits[0]; git.Type != "git" || git.Rates != [3]float64{0, 0.4, 2. / 60} || git.Failed != 1 || git.Hour["eventful"] != 1 {
		t.Errorf("%+v", git)
	}
	if *o.Flow.Queued != 6 || *o.Flow.Running != 8 || o.Flow.FailedInAHour != 2 {
		t.Errorf("%+v", o.Flow)
	}
	// From a standstill to its cause.
	body := s.has("/", "3 messages wait in swh.unread: no worker reads it.", `href="/queue?name=swh.unread"`, `href="/runbooks#QueueWithoutConsumer"`)
	if strings.Contains(body, "swh.list: no worker reads it") {
		t.Error("a queue that is read counts as unread")
	}
	s.has("/queue?name=swh.unread", "3 messages wait in swh.unread: no worker reads it.")
	s.has("/queues?q=list", "swh.list")
	if body := s.get("/queues?q=list"); strings.Contains(body, "swh.unread") {
		t.Error("a queue that was not asked for is shown")
	}
	s.has("/runbooks", `<h2 id="QueueWithoutConsumer">`, "<code>swh-scheduler queue status</code>")
}

// The dashboard evaluates each alert or lists it as one for Prometheus. Each alert has a runbook.
func TestProblems(t *testing.T) {
	t.Parallel()
	now := time.Now()
	seen := func(name string, ago time.Duration, state db.DaemonState) db.Daemon {
		return db.Daemon{Name: name, Host: "h", LastReport: now.Add(-ago), State: state}
	}
	var f facts
	f.now = now
	f.daemons = []db.Daemon{
		seen("start-runner", time.Hour, db.DaemonState{}), seen("start-runner", time.Minute, db.DaemonState{
			Waiting: map[string]float64{"RabbitMQ": 121, "PostgreSQL": 119, "the management API": 301}, Overdue: map[string]float64{"a loop": 1801, "another": 1799},
		}),
		seen("start-listener", time.Hour, db.DaemonState{}),
		seen("rpc-serve", time.Minute, db.DaemonState{Open: "0.0.0.0:5008"}), seen("rpc-serve", time.Minute, db.DaemonState{}),
		seen("journal-client", time.Hour, db.DaemonState{}), {Name: "journal-client", Started: now.Add(-time.Minute), LastReport: now}, // it was replaced
	}
	f.figures.Outgoing = append(f.figures.Outgoing, db.OutgoingQueue{Queue: "q", Oldest: now.Add(-time.Hour), Refused: 1})
	f.figures.Ready = append(f.figures.Ready, db.ReadyTasks{Type: "t", Priority: "high", Oldest: now.Add(-time.Hour)}, db.ReadyTasks{Type: "t", Oldest: now.Add(-time.Hour)})
	f.figures.Rejected.NewEvents, f.figures.Rejected.NewRecords, f.figures.SetAside.Tasks = 1, 1, 1
	f.figures.Runs.Unanswered, f.figures.CandidateChanges, f.figures.Silent.Left = 1001, 100_001, 1
	f.figures.Gone = []db.ListingFigures{{Lister: "gitweb", Held: 1}, {Lister: "cgit"}}
	ago := func(hours time.Duration) time.Time { return now.Add(-hours * time.Hour) }
	f.figures.HintSources = []origins.HintSource{
		{Source: "github", Moved: 2002, FirstHint: ago(25 + 14*24), LastHint: ago(25)},
		{Source: "rare", Moved: 2000, FirstHint: ago(25 + 14*24), LastHint: ago(25)}, {Source: "present", Moved: 2002, FirstHint: ago(24 + 14*24), LastHint: ago(24)},
		{Source: "ended", Moved: 5000, FirstHint: ago(14 * 24), LastHint: ago(8 * 24)},
	}
	f.queues = []status.Queue{
		{Queue: "a", Ready: 1}, {Queue: "b", Lane: "s l", Backlog: 1}, {Queue: "c", Consumers: 1}, {Queue: "d", Problem: "its node is down"},
		{Queue: "e", Unacknowledged: new(0), Consumers: 1}, {Queue: "f"},
	}
	f.ended = map[ledger.EndedKey]*ledger.Ended{{Source: ledger.EndedByWorker, Type: "t"}: {Five: 20, FiveStatuses: map[string]int64{"failed": 11}}}
	f.groups = []status.Group{{Queue: "a", Group: "g", Waiting: 1}, {Queue: "a", Group: "h", Waiting: 1, HourPieces: 1}}
	f.lanes = []status.Lane{{TaskType: "t", Lane: "l", Slots: 1, Again: 2, WaitP95: 7 * 3600, SlowSentExpress: 101, Ended: 150, GivenUp: 101}, {Slots: 1, Sent: 1}}
	found := map[string]int{}
	for i, p := range f.problems() {
		found[p.Alert]++
		if i > 0 && p.Critical && !f.problems()[i-1].Critical {
			t.Errorf("%s is critical and comes late", p.Alert)
		}
	}
	if found["MessagesRefused"] != 2 || found["QueueWithoutConsumer"] != 1 || found["ReadyTasksDelayed"] != 1 || found["ServiceUnreachable"] != 1 || found["DaemonDown"] != 1 || found["DaemonMissing"] != 1 || found["RPCUnauthenticated"] != 1 || found["HintSourceSilent"] != 1 {
		t.Errorf("%v", found)
	}
	for alert := range found {
		if slices.Contains(notHere, alert) {
			t.Errorf("%s is said not to be evaluated", alert)
		}
	}
	alerts := testenv.Read(t, "../../deploy/prometheus/alerts.yml")
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(alerts), -1) {
		known[m[1]] = true
		if found[m[1]] == 0 && !slices.Contains(notHere, m[1]) {
			t.Errorf("%s is not evaluated", m[1])
		}
		if at := slices.IndexFunc(runbooks, func(r runbook) bool { return r.Alert == m[1] }); at < 0 || len(runbooks[at].Means) == 0 || len(runbooks[at].Steps) == 0 {
			t.Errorf("%s has no runbook", m[1])
		}
	}
	for _, alert := range notHere {
		if !known[alert] {
			t.Errorf("there is no alert %s", alert)
		}
	}
	if none := (facts{now: now, figures: db.Figures{Build: candidates.Build{Phase: "ready"}}}).problems(); len(none) > 0 {
		t.Errorf("of nothing: %+v", none)
	}
}

// Groups and lanes are shown with their target, current and past shares.
func TestGroupsAndLanesAreShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.Broker = broker{} },
		"insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.git', 10)",
		`insert into scheduler_go.share_history (queue, share_group, minute, seconds, pieces)
			select 'swh.git', g, date_trunc('minute', now()) - n * interval '10 minutes', case g when 'github' then 30 else 10 end, 1 from generate_series(1, 12) n, unnest(array['github', 'gitlab']) g`,
	)
	s.config.Shares = map[string]model.Shares{"load-git": {By: model.ShareByListerInstance, Weights: map[string]float64{"github": 3}, Default: 1, HalfLife: time.Hour}}
	s.config.Lanes = map[string][]model.Lane{"load-git": {
		{Name: "express", Queue: "express:{backend_name}", SoftTimeLimit: time.Minute, TimeLimit: 2 * time.Minute, Slots: 7, MinSlots: 1},
		{Name: "slow", Queue: "{backend_name}", SoftTimeLimit: time.Hour, TimeLimit: 2 * time.Hour, Slots: 8, MinSlots: 1},
	}}
	q := read[queueData](s, "/queue?name=swh.git")
	if len(q.Past) != 2 || q.Past[0].Group != "github" || len(q.Past[0].Parts) != pastTimes || q.Past[0].Parts[3] != 0.75 {
		t.Errorf("%+v", q.Past)
	}
	if len(q.Lanes) != 2 || q.Lanes[0].Slots != 7 || len(q.Groups) != 2 || q.Groups[0].Hour != 0.75 {
		t.Errorf("%+v\n%+v", q.Lanes, q.Groups)
	}
	s.has("/queue?name=swh.git", "75.0 %", "<meter", "express")
	s.has("/queues", "github", "express:swh.git")
}

// Listers are shown with their counts, and pools with the delay of their queue position.
func TestListersAreShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, append(odd,
		"insert into visit_scheduler_queue_position (visit_type, position) values ('git', extract(epoch from now())::bigint - 9060)",
		"update listers set last_listing_finished_at = now() - interval '3 hours 31 minutes'")...)
	s.has("/listers", "1\u202f234\u202f567", "2 h 3", "3 h 3") // 31 to 39 minutes: the page may be late
	if l := read[listersData](s, "/listers?q=nope"); l.Found != 0 || len(l.Listers) != 0 {
		t.Errorf("%+v", l)
	}
}

// Sources of hints are shown with their counts. One that has stopped is a problem.
func TestHintSourcesAreShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, `insert into scheduler_go.hint_sources (source, moved, newer, repeated, unknown, refused, visits, found, first_hint, last_hint)
		values ('github', 1234567, 5, 6, 7, 8, 4, 3, now() - interval '30 days', now() - interval '25 hours'), ('<b>', 1, 0, 0, 0, 0, 0, 0, now(), now())`)
	body := s.has("/listers", "Sources of hints", "1\u202f234\u202f567", "75.0 %", `<span class="bad"><time`, "&lt;b&gt;")
	if strings.Contains(body, "<b>") {
		t.Error("a source isn't escaped")
	}
	if l := read[listersData](s, "/listers"); len(l.Hints) != 2 || l.Hints[0].Known != 11 || !l.Hints[0].Silent || l.Hints[1].Silent || l.Hints[1].FoundPart != nil {
		t.Errorf("%+v", l.Hints)
	}
	s.has("/", "The source of hints github has sent none for", `href="/runbooks#HintSourceSilent"`)
}

// Daemons are shown with the state that each has written.
func TestDaemonsAreShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for _, name := range []string{"start-runner", "start-listener"} {
		err := s.store.RecordDaemon(t.Context(), db.Daemon{ID: uuid.New(), Name: name, Version: "1.2", Host: "host1", Started: time.Now().Add(-2 * time.Hour), State: db.DaemonState{
			Waiting: map[string]float64{"RabbitMQ": 300, "PostgreSQL": 0}, Last: map[string]time.Time{"x": time.Now()},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.exec("update scheduler_go.daemons set seen = now() - interval '91 minutes' where name = 'start-listener'",
		"insert into scheduler_go.daemons select gen_random_uuid(), 'restarts', '1.2', 'host2', now() - interval '3 hours', now() - n * interval '1 second' - interval '2 hours', '{}' from generate_series(1, 1100) n",
		"insert into scheduler_go.keeper (job, began, until, seconds, result, failed) values ('graphs', now(), 'epoch', 2, 'it broke', true)")
	s.has("/daemons", "start-runner", "RabbitMQ for 5 min", `<span class="bad">1 h 3`, `<span class="bad">it broke</span>`, "host1", "1.2")
	s.has("/", "start-listener on host1 has not reported for 1 h 3")
}

// Reports of the configured directory are shown without running their scripts. Other files are not served.
func TestReportsAreShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.has("/reports", "names no directory")
	directory := filepath.Join(t.TempDir(), "reports")
	s.config.Dashboard.Reports = directory
	s.forget()
	for _, path := range []string{"/reports", "/reports/a.html"} {
		if answer, body := s.ask(http.MethodGet, path, nil); answer.StatusCode != 500 || !strings.Contains(body, "(dashboard.reports) can&#39;t be read: no such file or directory.") || strings.Contains(body, directory) {
			t.Errorf("%s without the directory: %s, %s", path, answer.Status, body)
		}
	}
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"reports/a.html": "<style>p{}</style><p>waits", "reports/b.txt": "s3cret", "c.html": "s3cret", "reports/<b>.html": "s3cret"} {
		if err := os.WriteFile(filepath.Join(directory, "..", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../c.html", filepath.Join(directory, "d.html")); err != nil {
		t.Fatal(err)
	}
	s.forget()
	if body := s.has("/reports", `href="/reports/a.html"`); strings.Contains(body, "b.txt") || strings.Contains(body, "d.html") || strings.Contains(body, "<b>") {
		t.Error(body)
	}
	answer, body := s.ask(http.MethodGet, "/reports/a.html", nil)
	if answer.StatusCode != 200 || body != "<style>p{}</style><p>waits" || !strings.HasPrefix(answer.Header.Get("Content-Security-Policy"), "sandbox; default-src 'none'") {
		t.Errorf("%s %v\n%s", answer.Status, answer.Header, body)
	}
	for _, path := range []string{"b.txt", "..%2Fc.html", "d.html", "nope.html", "%3Cb%3E.html"} {
		if answer, body := s.ask(http.MethodGet, "/reports/"+path, nil); answer.StatusCode < 400 || strings.Contains(body, "s3cret") {
			t.Errorf("%s: %s\n%s", path, answer.Status, body)
		}
	}
}
