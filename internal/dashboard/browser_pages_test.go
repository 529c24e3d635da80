package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/dashboard"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/status"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/listener"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// hostile contains a script unless it is escaped, characters that reorder text, and many letters.
var hostile = `<script>alert("x")</script><img src=https://elsewhere.example/x onerror=alert(1)>'"&amp;` + "\u202egnp.exe" + strings.Repeat("x", 300)

// queues has queues of listers without consumers, and empty queues of indexers.
type queues struct{}

func (queues) Figures(context.Context, string) celery.QueueFigures { return celery.QueueFigures{} }

func (queues) LengthSince(_ context.Context, queue string, _ celery.QueueFigures, _ int) (celery.QueueLength, error) {
	switch {
	case strings.Contains(queue, "lister"):
		return celery.QueueLength{Exists: !strings.Contains(queue, ":"), Ready: 12}, nil
	case strings.Contains(queue, "indexer"):
		return celery.QueueLength{Exists: !strings.Contains(queue, ":"), Consumers: 2}, nil
	}
	return celery.QueueLength{Exists: !strings.Contains(queue, ":"), Ready: 3, Unacknowledged: 4, Consumers: 2}, nil
}

// site serves a dashboard with a small database, in which the user ann may act.
func site(t *testing.T, statements ...string) string {
	t.Helper()
	store := testenv.OpenLocal(t, testenv.Database(t), postgres.Options{Command: "dashboard"})
	for _, statement := range statements {
		testenv.Exec(t, store.Pool(), statement)
	}
	c := config.Default()
	c.Hosters = model.Hosters{Default: model.HosterLimit{MaxInFlight: 5}, LostAfter: time.Hour, Backoff: &model.DefaultHosterBackoff}
	return siteWith(t, store, queues{}, c)
}

// siteWith does the same with a database, a broker and a configuration.
func siteWith(t *testing.T, store *db.Store, broker status.QueueSource, c *config.Config) string {
	t.Helper()
	d, err := dashboard.New(dashboard.Options{
		Reads: store, Acts: store, Config: c, Broker: broker, Version: "test", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Access: dashboard.Access{Users: []config.DashboardUser{dashboard.Ann()}},
		Revoke: func(context.Context, []string, bool) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Patient()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		d.Work(ctx)
	}()
	server := httptest.NewServer(d)
	t.Cleanup(func() {
		d.Stop()
		server.Close()
		stop()
		<-worked
	})
	return server.URL
}

// archive inserts the contents of a small archive: listings, failed loads, a graph, and set-aside rows.
var archive = []string{
	`insert into scheduler_go.refusing_hosters values
		('gitlab/gitlab2.example.org', 3.2, 'epoch', 10, 'epoch', now() + interval '1 hour', 1, 0, 'epoch', 'epoch', 0, now() - interval '7 minutes', 'too_many', 'unexpected http resp 429 for https://gitlab2.example.org/group1/project1/info/refs?service=git-upload-pack', 0, 'epoch', false),
		('git.example.org', 2, now() + interval '40 minutes', 10, 'epoch', now() + interval '40 minutes', 3, 0, 'epoch', now() - interval '3 hours', 0, now() - interval '20 minutes', 'refused', '[Errno 111] Connection refused', 0, 'epoch', false)`,
	`insert into scheduler_go.work (state, queue, task_id, task_name, args, kwargs, hosters)
		select 'sent', 'swh.loader.git.tasks.UpdateGitRepository', gen_random_uuid(), 't', '[]', '{}', array['gitlab/gitlab' || 1 + n % 3 || '.example.org', 'gitlab' || 1 + n % 3 || '.example.org'] from generate_series(1, 9) n`,
	`insert into task_type (type, description, backend_name, default_interval, max_queue_length, num_retries) values
		('load-git', 'Loads a Git repository', 'swh.loader.git.tasks.UpdateGitRepository', '64 days', 1000, 3),
		('list-gitlab', 'Lists an instance of GitLab', 'swh.lister.gitlab.tasks.RangeGitLabLister', '1 day', 100, 3),
		('index-origin', 'Indexes an origin', 'swh.indexer.tasks.OriginMetadata', '1 day', 500, 0)`,
	`insert into listers (id, name, instance_name, current_state, updated, last_listing_finished_at)
		select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'gitlab', 'gitlab' || n || '.example.org', '{}', now(), now() - n * interval '7 hours' from generate_series(1, 3) n`,
	`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
		select ('00000000-0000-0000-0000-00000000000' || 1 + n % 3)::uuid, 'https://gitlab' || 1 + n % 3 || '.example.org/group' || n % 7 || '/project' || n, 'git', '{}', n % 17 > 0,
			now() - interval '1 hour', now() - n * interval '3 hours' from generate_series(1, 300) n`,
	`insert into origin_visit_stats (url, visit_type, last_visit, last_visit_status, last_scheduled, last_successful)
		select url, visit_type, now() - interval '2 days' - length(url) * interval '20 minutes', case when right(url, 1) = '3' then 'failed' else 'successful' end::last_visit_status,
			now() - interval '3 days', now() - interval '9 days'
		from listed_origins where right(url, 1) <> '7'`,
	`insert into task (type, arguments, next_run, status, policy, retries_left, priority, current_interval)
		select 'load-git', jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('url', 'https://gitlab' || 1 + n % 3 || '.example.org/group' || n % 7 || '/project' || n)),
			now() + (n % 50 - 10) * interval '20 minutes', (enum_range(null::task_status))[1 + n % 4], 'oneshot', n % 4,
			case when n % 9 = 0 then 'high' when n % 9 = 1 then 'normal' end::task_priority, null
		from generate_series(1, 200) n`,
	`insert into task (type, arguments, next_run, status, policy, retries_left, current_interval)
		select 'list-gitlab', jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('instance', 'gitlab' || n || '.example.org')), now() + n * interval '1 hour',
			'next_run_not_scheduled', 'recurring', 3, '1 day' from generate_series(1, 3) n`,
	`insert into task_run (task, backend_id, scheduled, started, ended, status, metadata)
		select id, gen_random_uuid(), now() - k * interval '5 hours', now() - k * interval '5 hours' + interval '4 minutes', now() - k * interval '5 hours' + k * interval '11 minutes',
			case when status = 'disabled' then 'failed' else 'eventful' end::task_run_status, '{"worker": "loader-git@worker3"}'
		from task, generate_series(3, 1, -1) k where type = 'load-git' and status in ('disabled', 'completed') order by k desc`,
	`insert into scheduler_go.graphs (name, submitted) values ('import of gitlab1.example.org', now() - interval '40 minutes')`,
	`insert into task (type, arguments, next_run, status, policy)
		select case when n = 1 then 'list-gitlab' when n = 8 then 'index-origin' else 'load-git' end, '{"args": [], "kwargs": {}}',
			case when n in (7, 8) then scheduler_go.never() else now() - interval '5 minutes' end,
			case when n = 1 then 'completed' when n = 2 then 'disabled' when n in (3, 4) then 'next_run_scheduled' else 'next_run_not_scheduled' end::task_status, 'oneshot'
		from generate_series(1, 8) n`,
	`insert into scheduler_go.graph_tasks (graph, task, name, any_result, dependencies)
		select 1, 203 + n, case when n = 1 then 'list' when n = 8 then 'index' else 'load-' || chr(95 + n) end, n = 8, case when n = 1 then 0 when n = 8 then 6 else 1 end
		from generate_series(1, 8) n`,
	`insert into scheduler_go.graph_edges (task, depends_on) select 203 + n, 204 from generate_series(2, 7) n union all select 211, 203 + n from generate_series(2, 7) n`,
	`update scheduler_go.graph_tasks set watch = case when task = 211 then 206 else 204 end where task in (210, 211)`,
	`insert into task_run (task, backend_id, scheduled, started, ended, status)
		select 203 + n, gen_random_uuid(), now() - queued * interval '1 minute', now() - began * interval '1 minute', now() - over * interval '1 minute', status::task_run_status
		from (values (1, 40, 39, 31, 'eventful'), (2, 30, 28, 19, 'failed'), (3, 30, 3, null, 'started'), (4, 30, 19, null, 'started')) r (n, queued, began, over, status)`,
	`insert into scheduler_go.run_durations (run, type, runtime, recorded) select n, case when n % 2 = 0 then 'load-git' else 'index-origin' end, 400 + 300 * (n % 2), now() from generate_series(1, 40) n`,
	`insert into scheduler_go.set_aside_tasks (task, arguments, reason, since) values (5, '', 'its kwargs are a JSON array, not an object', now() - interval '2 hours')`,
	`insert into scheduler_go.set_aside_origins (lister_id, url, visit_type, content, reason) select lister_id, url, visit_type, '', 'its last_update is infinite' from listed_origins where url like '%project42'`,
	`insert into scheduler_go.rejected_events (received, backend_id, event, sqlstate, reason) values (now() - interval '3 hours', 'b8e7f2c0-0000-4000-8000-000000000001', 'task-succeeded at 99999999999', '22008', 'date out of range')`,
	`insert into scheduler_go.rejected_records (topic, partition, record_offset, kind, detail) values ('swh.journal.objects.origin_visit_status', 3, 77120, 'undecodable', 'its date is no timestamp')`,
	`insert into scheduler_go.daemons (id, name, version, host, started, seen, state)
		select gen_random_uuid(), n, '1.9.0', 'scheduler1', now() - interval '3 days', case n when 'start-listener' then now() - interval '25 minutes' else now() end, '{}'
		from unnest(array['start-runner', 'start-listener', 'schedule-recurrent']) n`,
	// Ended work: three hours by minute, and some weeks. All loads have failed for a quarter of an hour.
	`insert into scheduler_go.ended (minute, source, type, status, exception, bucket, part, pieces, seconds)
		select date_trunc('minute', now()) - n * interval '1 minute', source, type, status, exception, bucket + n % 5, 0, greatest(1, pieces + pieces * sin(n / 17.0) / 2), pieces * 60
		from generate_series(1, 235) n, (values ('worker', 'load-git', 'eventful', '', 24, 20), ('worker', 'load-git', 'uneventful', '', 18, 40), ('worker', 'load-git', 'failed', 'NotFound', -1, 2),
			('wait', 'load-git', '', '', 30, 60), ('worker', 'list-gitlab', 'eventful', '', 40, 1), ('worker', 'index-origin', 'eventful', '', 9, 15), ('journal', 'git', 'eventful', '', -1, 18), ('journal', 'git', 'failed', '', -1, 2)) v (source, type, status, exception, bucket, pieces)
		where n > 15 or type <> 'load-git'
		union all
		select date_trunc('minute', now()) - n * interval '1 minute', 'worker', 'load-git', 'failed', 'ConnectionError', 20, 1, 41, 300 from generate_series(1, 15) n`,
	`insert into scheduler_go.ended_past (span, since, source, type, status, exception, pieces, seconds, buckets, counts)
		select span, date_trunc(span, now(), 'UTC') - n * ('1 ' || span)::interval, source, type, status, exception, pieces * k, pieces * k * 30, array[15, 20, 25], array[pieces * k / 2, pieces * k / 3, pieces * k - pieces * k / 2 - pieces * k / 3]
		from generate_series(5, 720) n, (values ('hour', 60), ('day', 1440)) p (span, k),
			(values ('worker', 'load-git', 'eventful', '', 20), ('worker', 'load-git', 'failed', 'NotFound', 2), ('wait', 'load-git', '', '', 22), ('journal', 'git', 'eventful', '', 20)) v (source, type, status, exception, pieces)`,
	`insert into scheduler_go.errors (type, exception, first, last) values ('load-git', 'NotFound', now() - interval '400 days', now() - interval '4 hours')`,
	`insert into scheduler_go.failures (at, type, exception, message, worker, task, visit_type, url)
		select now() - n * interval '20 seconds', 'load-git', case n % 20 when 0 then 'NotFound' else 'ConnectionError' end,
			case n % 20 when 0 then 'swh.loader.exception.NotFound: no repository' else 'requests.exceptions.ConnectionError: HTTPSConnectionPool(host=''gitlab2.example.org'', port=443): Max retries exceeded' end,
			'loader-git@worker' || n % 3, case n % 2 when 0 then 2 * n + 3 end, 'git', 'https://gitlab' || 1 + (2 * n + 3) % 3 || '.example.org/group' || (2 * n + 3) % 7 || '/project' || 2 * n + 3 from generate_series(60, 1, -1) n`,
	`insert into scheduler_go.visit_turns (origin, at, status, before, visits, last_before) select hashtextextended('git ' || url, 0), now() - d * interval '1 day', status, before, n, now() - (d + 4) * interval '1 day'
		from listed_origins, (values (220, 'failed', 'successful', 9), (210, 'successful', 'failed', 2), (30, 'failed', 'successful', 14)) v (d, status, before, n) where url like '%/project73'`,
	`update origin_visit_stats set successive_visits = 3 where url like '%/project73'`,
	`insert into scheduler_go.running (run, task, type, started, worker) select r.id, r.task, t.type, r.started, 'loader-git@worker' || r.id % 3 from task_run r join task t on t.id = r.task where r.status = 'started'`,
	// A week of counts of origins, and figures of queues, shares and pools.
	`insert into scheduler_metrics (lister_id, visit_type, last_update, origins_known, origins_enabled, origins_never_visited, origins_with_pending_changes)
		select id, 'git', now() - interval '3 hours', 40000, 38000, 9000, 4000 from listers`,
	`insert into scheduler_go.listings (lister_id, finished, previous) select id, last_listing_finished_at, last_listing_finished_at - interval '2 hours' from listers
		on conflict (lister_id) do update set finished = excluded.finished - case when excluded.lister_id::text like '%3' then interval '12 days' else '0' end, previous = excluded.finished - interval '13 days'`,
	`update listers set last_listing_finished_at = last_listing_finished_at - interval '12 days' where instance_name like 'gitlab3%'`,
	`insert into scheduler_go.figures (span, figure, name, part, since, samples, sums)
		select span, figure, name, part, at, k, coalesce((select array_agg(k * v) from unnest(vals) v), '{}')
		from (values ('five', '5 minutes'::interval, 36, 1), ('hour', '1 hour', 719, 12), ('day', '1 day', 729, 288)) p (span, step, n, k), generate_series(0, p.n) i,
			lateral (select to_timestamp(floor(extract(epoch from now()) / extract(epoch from step)) * extract(epoch from step)) - i * step as at) a,
			lateral (values ('queue', '', '', '{}'::float8[]), ('share', '', '', '{}'), ('origins', '', '', '{}'), ('pools', '', '', '{}'), ('staleness', '', '', '{}'), ('visits', '', '', '{}'),
				('queue', 'swh.loader.git.tasks.UpdateGitRepository', '', array[600 + 300 * sin(i / 9.0), 40, 5, 0, 40]),
				('queue', 'swh.lister.gitlab.tasks.RangeGitLabLister', '', array[i % 20, 2, 0, 0, 0]),
				('share', 'swh.loader.git.tasks.UpdateGitRepository', 'gitlab1.example.org', array[0.6, 0.55 + 0.1 * sin(i / 5.0)]), ('share', 'swh.loader.git.tasks.UpdateGitRepository', 'gitlab2.example.org', array[0.4, 0.45 - 0.1 * sin(i / 5.0)]),
				('origins', 'git', '', array[120000 - 1000 * extract(epoch from now() - at) / 86400, 114000, 27000 + 700 * extract(epoch from now() - at) / 86400, 12000, extract(epoch from at) - 10800]),
				('pools', 'git', '', array[3000, 27000, 12000, 72000 + 100 * i]), ('staleness', 'git', '', array[1000, 1000 * (90000 + 100 * i), 500, 500 * (60000 + 100 * i)]),
				('visits', 'git', '', array[20, 2, 18, 2200])) f (figure, name, part, vals)`,
	`analyze`,
}

// withHostile returns statements that insert hostile names, URLs and texts everywhere.
func withHostile() []string {
	q := strings.ReplaceAll(hostile, "'", "''")
	return append(archive[:len(archive):len(archive)],
		`insert into task_type (type, description, backend_name) values ('`+q+`', '`+q+`', '`+q+`')`,
		`insert into task (type, arguments, next_run, status, policy) values ('`+q+`', jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('url', '`+q+`')), now() - interval '1 hour', 'next_run_not_scheduled', 'oneshot')`,
		`insert into task_run (task, backend_id, scheduled, status, metadata) select id, '`+q+`', now(), 'scheduled', jsonb_build_object('error', '`+q+`') from task where type = '`+q+`'`,
		`insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000009', '`+q+`', '`+q+`', '{}', now())`,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen) values ('00000000-0000-0000-0000-000000000009', 'https://x.example/`+q+`', '`+q+`', '{}', true, now())`,
		`insert into scheduler_go.set_aside_tasks (task, arguments, reason) select id, '', '`+q+`' from task where type = '`+q+`'`,
		`insert into scheduler_go.rejected_events (received, backend_id, event, sqlstate, reason) values (now(), '`+q+`', '`+q+`', '', '`+q+`')`,
		`insert into scheduler_go.rejected_records (topic, partition, record_offset, kind, detail) values ('`+q+`', 0, 1, '`+q+`', '`+q+`')`,
		`insert into scheduler_go.ended (minute, source, type, status, exception, bucket, part, pieces, seconds) values (date_trunc('minute', now()) - interval '2 minutes', 'worker', '`+q+`', 'failed', '`+q+`', 3, 0, 7, 9)`,
		`insert into scheduler_go.failures (at, type, exception, message, worker, visit_type, url) values (now(), '`+q+`', '`+q+`', '`+q+`', '`+q+`', '`+q+`', 'https://x.example/`+q+`')`,
		`insert into scheduler_go.graphs (name, submitted) values ('`+q+`', now())`,
		`insert into scheduler_go.refusing_hosters values ('`+q+`', 1, 'epoch', 10, 'epoch', now() + interval '1 hour', 0, 0, 'epoch', 'epoch', 0, now(), 'too_many', '`+q+`', 0, 'epoch', false)`,
		`insert into scheduler_metrics (lister_id, visit_type, last_update, origins_known, origins_enabled, origins_never_visited, origins_with_pending_changes) values ('00000000-0000-0000-0000-000000000009', '`+q+`', now(), 4, 3, 2, 1)`,
		`insert into scheduler_go.graph_tasks (graph, task, name, any_result, dependencies) select 2, id, '`+q+`', false, 0 from task where type = '`+q+`'`,
	)
}

// logIn logs ann in with the login form.
func (t *tab) logIn(address string) {
	t.t.Helper()
	t.visit(address + "/login")
	t.fill("name", "ann")
	t.fill("secret", "s3cret")
	t.load("the login", func() { t.click("main button", "Log in") })
}

// paths returns all pages: those of the navigation, and one of each kind of page that they link to.
func paths(t *testing.T, tab *tab) []string {
	t.Helper()
	var menu []string
	tab.eval(`[...document.querySelectorAll("nav a")].map(a => a.getAttribute("href"))`, &menu)
	if len(menu) < 5 {
		t.Fatalf("the navigation has %v", menu)
	}
	return append(menu, "/login", "/tasks/1", "/tasks/3", "/tasks/212", "/origins?url=https://", "/origin?url="+url.QueryEscape("https://x.example/"+hostile),
		"/origin?url=https://gitlab2.example.org/group1/project1", "/graphs/1", "/graphs/2", "/queue?name=swh.lister.gitlab.tasks.RangeGitLabLister", "/tasks?status=disabled&type=load-git", "/tasks/999",
		"/types/load-git", "/types/load-git?range=30d", "/types/load-git?range=2y", "/types/"+url.PathEscape(hostile), "/errors?range=30d", "/errors?type=load-git&exception=ConnectionError",
		"/errors?type="+url.QueryEscape(hostile)+"&exception="+url.QueryEscape(hostile), "/running?type=load-git", "/tasks?type=load-git&exception=NotFound",
		"/freshness?workers=40&by=2099-01-01&visit_type=git", "/freshness?range=30d", "/queue?name=swh.loader.git.tasks.UpdateGitRepository&range=2y", "/search?find=gitlab", "/search?find=nothing+at+all", "/search?find="+url.QueryEscape(hostile))
}

// A user who may act opens every page with hostile names and URLs. axe-core finds no fault, in both widths and both
// colour schemes. No script fails or comes from the data, no other host is contacted, and no page is wider than a small
// phone's screen. Each page is loaded once; the checks that depend on the size run for each size.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	address := site(t, withHostile()...)
	tab := startBrowser(t).open(1280, 900, false)
	tab.logIn(address)
	tab.visit(address + "/")
	for _, path := range paths(t, tab) {
		tab.resize(1280, 900, false)
		tab.visit(address + path)
		check := func(how, rules string) {
			t.Helper()
			for _, fault := range tab.faults(rules) {
				t.Errorf("%.60s, %s: %.700s", path, how, fault)
			}
		}
		fits := func(how string) {
			t.Helper()
			var wide []string
			tab.eval(`document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("body *")].filter(e => !e.closest(".wide, pre") && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 150))`, &wide)
			if len(wide) > 0 {
				t.Errorf("%.60s, %s: wider than the screen: %.500q", path, how, wide)
			}
		}
		check("light and wide", "")
		fits("wide")
		tab.resize(1280, 900, true)
		check("dark and wide", colours)
		tab.resize(390, 740, false)
		check("light and narrow", colours)
		tab.resize(390, 740, true)
		check("dark and narrow", "")
		fits("narrow")
		tab.resize(360, 740, true)
		fits("narrowest")
		if strings.HasPrefix(path, "/tasks?") {
			tab.until(`document.querySelector("#found").getBoundingClientRect().bottom < innerHeight - 200`) // the first results are on the first screen
		}
		for _, problem := range tab.newProblems() {
			if !strings.Contains(problem, "404") || path != "/tasks/999" {
				t.Errorf("%.60s: %.500s", path, problem)
			}
		}
	}
}

// An operator finds failed tasks and runs all of them again, with keyboard and mouse. The open page shows the result,
// and the audit lists the action. Without scripts, the pages have the same content.
func TestActInABrowser(t *testing.T) {
	t.Parallel()
	standing, store := standStill(t) // the workers start meanwhile
	address := site(t, archive...)
	browser := startBrowser(t)
	tab := browser.open(1300, 900, false)
	tab.visit(address + "/tasks?status=disabled")
	if text := tab.text(); strings.Contains(text, "Apply to") {
		t.Error("somebody who has not logged in is offered actions")
	}
	tab.do("Input.dispatchKeyEvent", values{"type": "keyDown", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9})
	tab.until(`document.activeElement.textContent === "Skip to content"`)
	tab.logIn(address)

	tab.visit(address + "/tasks")
	first := func(want string) {
		t.Helper()
		tab.until(fmt.Sprintf(`document.querySelector("tbody th").textContent === %q`, want))
	}
	var newest string
	tab.eval(`document.querySelector("tbody th").textContent`, &newest)
	oldest := `[...document.querySelectorAll("tbody th")].map((th) => Number(th.textContent)).sort((a, b) => a - b)[0]`
	tab.click("thead button", "Task")
	tab.until(`Number(document.querySelector("tbody th").textContent) === ` + oldest)
	tab.click("thead button", "Task") // descending
	first(newest)
	tab.click("thead button", "Type")
	tab.click("thead button", "Type")
	tab.click("thead button", "Type") // the order of the server
	first(newest)
	tab.eval(`document.querySelector("#status").value = "disabled"`, nil)
	tab.load("the search", func() { tab.click("button", "Search") })
	var query string
	if tab.eval("location.search", &query); !strings.Contains(query, "status=disabled") {
		t.Errorf("the filter is not in the address: %q", query)
	}
	tab.eval(`document.querySelector("input.all").click()`, nil)
	tab.until(`document.querySelectorAll("input[name=id]:checked").length === 50`)
	tab.eval(`document.querySelector("#action").value = "respawn"`, nil)
	tab.load("the count", func() { tab.click("button", "Apply to all matches: count them first …") })
	tab.until(`document.body.innerText.includes("51 match")`)
	tab.load("the confirmation", func() { tab.click("button", "Apply to all 51") })
	tab.until(`document.body.innerText.includes("done: done to 51 of 51")`)

	// The same without scripts.
	tab.do("Emulation.setScriptExecutionDisabled", values{"value": true})
	tab.visit(address + "/audit")
	if text := tab.text(); !strings.Contains(text, "respawn") || !strings.Contains(text, "ann") {
		t.Error(text)
	}
	tab.load("the graph", func() { tab.do("Page.navigate", values{"url": address + "/graphs/1"}) })
	tab.load("cancelling", func() { tab.click("button", "Cancel what was not sent") })
	for deadline := time.Now().Add(patience); !strings.Contains(tab.text(), "done: done to 1"); tab.visit(address + "/audit/2") {
		if time.Now().After(deadline) {
			t.Fatal(tab.text())
		}
	}
	tab.visit(address + "/hosters")
	tab.load("the hoster", func() { tab.click("button", "Reset …") })
	for deadline := time.Now().Add(patience); !strings.Contains(tab.text(), "Apply to 1"); tab.visit(address + "/audit/3") {
		if time.Now().After(deadline) {
			t.Fatal(tab.text())
		}
	}
	tab.load("the confirmation", func() { tab.click("button", "Apply to 1") })
	for deadline := time.Now().Add(patience); !strings.Contains(tab.text(), "done: done to 1"); tab.visit(address + "/audit/3") {
		if time.Now().After(deadline) {
			t.Fatal(tab.text())
		}
	}
	if problems := tab.newProblems(); len(problems) > 0 {
		t.Error(problems)
	}
	onCall(t, browser, standing, store)
}

// standStill creates queues that stand still, on a real broker with a listener and real workers. One worker hangs, and
// one fails each task. It returns the dashboard's address and doesn't wait for the workers.
func standStill(t *testing.T) (string, *db.Store) {
	t.Helper()
	server := testenv.RabbitMQ(t)
	broker := parsed.Broker(t, server.URL)
	ch := testenv.ListenerQueue(t, server.URL)
	startWorker(t, server.URL, "hangs", "swh.hangs")
	startWorker(t, server.URL, "fails", "swh.fails", "swh.git", "swh.svn", "swh.later")
	for queue, messages := range map[string]int{"swh.unread": 3, "express:swh.git": 2} { // of a task type, and of a lane
		testenv.Declare(t, ch, queue, nil)
		testenv.Put(t, ch, queue, make([]amqp.Publishing, messages)...)
	}
	store := testenv.OpenLocal(t, testenv.Database(t))
	for _, statement := range []string{
		`insert into task_type (type, description, backend_name, max_queue_length) values
			('list-unread', '', 'swh.unread', 9), ('index', '', 'swh.hangs', 4), ('deposit', '', 'swh.fails', 9), ('load-git', '', 'swh.git', 9), ('load-svn', '', 'swh.svn', 9), ('later', '', 'swh.later', 9)`,
		`insert into task (type, arguments, next_run, status, policy, retries_left)
			select 'index', jsonb_build_object('args', '[600]'::jsonb, 'kwargs', jsonb_build_object('url', 'https://example.org/slow' || n)), now(), 'next_run_scheduled'::task_status, 'oneshot'::task_policy, 0 from generate_series(1, 5) n
			union all select 'deposit', '{"args": [], "kwargs": {"message": "no disk"}}', now(), 'next_run_scheduled', 'oneshot', 0 from generate_series(1, 2)
			union all select 'later', '{"args": [], "kwargs": {"url": "https://example.org/tomorrow"}}', now() + interval '1 day', 'next_run_not_scheduled', 'oneshot', 0`,
		`insert into task_run (task, backend_id, scheduled, status) select id, 'celery-' || id, now(), 'scheduled' from task where status = 'next_run_scheduled'`,
		`insert into scheduler_go.work (state, queue, task_id, task_name, args, kwargs, hosters)
			select 'sent', 'swh.svn', gen_random_uuid(), 't', '[]', '{}', '{forge/forge.example}' from generate_series(1, 5)`,
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	testenv.Run(t, listener.New(listener.Options{
		Source: celery.NewConsumer(broker, listener.ConsumerOptions(log)), Store: settle.Store{Store: store}, Log: log, Registerer: prometheus.NewRegistry(),
	}).Run)
	publisher := celery.NewPublisher(broker, celery.PublisherOptions{Logger: log})
	t.Cleanup(func() { _ = publisher.Close() })
	for _, queue := range []string{"swh.hangs", "swh.fails", "swh.git", "swh.svn", "swh.later"} {
		if err := publisher.DeclareQueue(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
	}
	var messages []celery.TaskMessage
	for n := range 7 {
		m := celery.TaskMessage{ID: fmt.Sprintf("celery-%d", n+1), Name: "swh.test.Sleep", Queue: "swh.hangs", Args: json.RawMessage("[600]")}
		if n >= 5 {
			m.Name, m.Queue, m.Args = "swh.test.Fail", "swh.fails", json.RawMessage(`["no disk"]`)
		}
		messages = append(messages, m)
	}
	if err := errors.Join(publisher.Publish(t.Context(), messages)...); err != nil {
		t.Fatal(err)
	}
	inspector := celery.NewQueueInspector(broker, server.ManagementURL, celery.InspectorOptions{})
	t.Cleanup(func() { _ = inspector.Close() })
	c := config.Default()
	c.Hosters = model.Hosters{Default: model.HosterLimit{MaxInFlight: 5}, LostAfter: time.Hour}
	c.Lanes = map[string][]model.Lane{"load-git": {
		{Name: "express", Queue: "express:{backend_name}", SoftTimeLimit: time.Minute, TimeLimit: 2 * time.Minute, Slots: 7, MinSlots: 1},
		{Name: "slow", Queue: "{backend_name}", SoftTimeLimit: time.Hour, TimeLimit: 2 * time.Hour, Slots: 8, MinSlots: 1},
	}}
	return siteWith(t, store, inspector, c), store
}

// startWorker starts a real Celery worker with one process and the tasks of ../../celery/testdata.
func startWorker(t *testing.T, broker, name string, queues ...string) {
	t.Helper()
	all := strings.Join(queues, ",")
	testenv.StartChild(t, t.TempDir(), name, "env", "TEST_BROKER="+broker, "TEST_QUEUES="+all, "PYTHONDONTWRITEBYTECODE=1",
		testenv.Python(t), "-m", "celery", "--workdir", "../../celery/testdata", "--app", "tasks", "worker", "--hostname", name+"@host", "--queues", all, "--concurrency", "1", "--without-mingle", "--without-gossip")
}

// onCall is a session of an operator on call. From each standstill, three clicks lead to its cause.
func onCall(t *testing.T, b *browser, site string, store *db.Store) {
	t.Helper()
	testenv.Becomes(t, "runs that began and that failed", "1 2", func() string {
		return testenv.Value[string](t, store.Pool(), `select concat_ws(' ', (select count(*) from task_run where status = 'started'), (select sum(pieces) from scheduler_go.ended where status = 'failed'))`)
	})
	testenv.Exec(t, store.Pool(), "update scheduler_go.ended set minute = minute - interval '1 minute'") // pages show whole minutes
	tab := b.open(1300, 900, false)
	for _, walk := range [][]string{ // the texts of links, and a text of the page behind them
		{"3 messages wait in swh.unread: no worker reads it.", "QueueWithoutConsumer", "swh-scheduler queue status"},
		{"No worker reads the lane load-git express, the queue express:swh.git.", "LaneWithoutConsumer", "LaneWithoutConsumer"},
		{"Queues", "swh.hangs", "It is full: its limit is 4 messages, ready or unacknowledged. More are sent as these end.", "https://example.org/slow1"},
		// The worker runs one task and has received another. A fourth click shows the worker.
		{"Queues", "swh.hangs", "Workers take no more, and 1 message is unacknowledged. They run long tasks or hang: the list of tasks shows the workers and start times.", "1", "hangs@host"},
		{"Queues", "swh.fails", "Of deposit, 2 of the 2 that ended in the last hour failed, most by ValueError.", "fails@host"},
		// One click shows the reason of the failures: the worker's exception, with the worker and by type.
		{"ValueError", "fails@host"},
		{"deposit", "ValueError: no disk"},
		{"Queues", "swh.svn", "The hoster forge/forge.example has 5 visits in flight, as many as it takes.", "forge/forge.example"},
		{"Queues", "swh.later", "No task later is ready to be sent.", "https://example.org/tomorrow"},
	} {
		tab.visit(site + "/")
		for _, link := range walk[:len(walk)-1] {
			quoted, _ := json.Marshal(link)
			tab.until(fmt.Sprintf(`[...document.querySelectorAll("a")].some(a => a.textContent.trim() === %s)`, quoted))
			tab.load(link, func() { tab.click("a", link) })
		}
		if text := tab.text(); !strings.Contains(text, walk[len(walk)-1]) {
			t.Errorf("%q doesn't lead to the cause, but to\n%s", walk, text)
		}
	}
	if problems := tab.newProblems(); len(problems) > 0 {
		t.Error(problems)
	}
}

// screenshots are the pictures in docs/reference/dashboard.md.
var screenshots = []struct {
	name, path    string
	width, height int
	dark          bool
}{
	{"tasks", "/tasks?type=load-git&status=disabled", 900, 560, false},
	{"queue", "/queue?name=swh.lister.gitlab.tasks.RangeGitLabLister", 900, 620, false},
	{"task", "/tasks/3#runs-title", 900, 560, true},
	{"origin", "/origin?url=https://gitlab2.example.org/group3/project73", 900, 560, false},
	{"graph", "/graphs/1#picture", 900, 980, false},
	{"narrow", "/tasks?type=load-git", 390, 760, true},
	{"timeline", "/graphs/1#path", 900, 560, true},
	{"over-time", "/#flow-title", 1000, 760, false},
	{"type", "/types/load-git", 1000, 800, false},
	{"errors", "/errors", 1000, 460, true},
	{"freshness", "/freshness", 1000, 620, false},
}

// With SCREENSHOTS=DIRECTORY (make screenshots) the test writes the pictures of docs/reference/dashboard.md. Otherwise
// it checks that they exist and are small.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	directory := os.Getenv("SCREENSHOTS")
	if directory == "" {
		page := testenv.Read(t, "../../docs/reference/dashboard.md")
		for _, s := range screenshots {
			file := filepath.Join("../../docs/reference/dashboard", s.name+".png")
			if info, err := os.Stat(file); err != nil || info.Size() > 100_000 {
				t.Errorf("%s: %v, more than 100 kB, or not there", file, err)
			}
			if !strings.Contains(string(page), "dashboard/"+s.name+".png") {
				t.Errorf("docs/reference/dashboard.md doesn't show %s", file)
			}
		}
		return
	}
	address := site(t, archive...)
	tab := startBrowser(t).open(1100, 800, false)
	tab.logIn(address)
	for _, s := range screenshots {
		tab.resize(s.width, s.height, s.dark)
		tab.visit(address + s.path)
		if err := os.WriteFile(filepath.Join(directory, s.name+".png"), tab.screenshot(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
