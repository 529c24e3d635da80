package dashboard

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

// largeArchive returns statements for the given numbers of origins, tasks, runs and durations. They also add 1,000 task
// types with queues, and a graph with 667 tasks all over the table.
func largeArchive(rows int) []string {
	return []string{
		"insert into task_type (type, description, backend_name, max_queue_length) select 'type-' || n, '', 'swh.unread.some.long.name.of.a.task.' || n, 1000 from generate_series(1, 999) n union all select 'load-git', '', 'swh.git', 1000",
		"insert into listers (id, name, instance_name, current_state, updated) select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'lister-' || n, 'instance-' || n, '{}', now() from generate_series(1, 300) n",
		`insert into scheduler_metrics (lister_id, visit_type, last_update, origins_known, origins_enabled, origins_never_visited, origins_with_pending_changes)
			select id, v, now(), 1, 1, 1, 1 from listers, unnest(array['git', 'svn']) v`,
		"insert into scheduler_go.ended select date_trunc('minute', now()) - interval '1 minute', 'worker', 'type-' || n, 'failed', 'Error' || n % 7, 20, 0, 5, 100 from generate_series(1, 1000) n",
		// Two years of 30 types: by minute, hour and day, and single failures.
		`insert into scheduler_go.ended select date_trunc('minute', now()) - m * interval '1 minute', 'worker', case t when 1 then 'load-git' else 'type-' || t end, status, exception, b, 0, 5, 100
			from generate_series(2, 235) m, generate_series(1, 30) t, generate_series(18, 27, 3) b, (values ('eventful', ''), ('failed', 'Error1')) v (status, exception)`,
		`insert into scheduler_go.ended_past select span, date_trunc(span, now(), 'UTC') - n * ('1 ' || span)::interval, source, case t when 1 then 'load-git' else 'type-' || t end, status, exception, 2000, 9000,
				(select array_agg(b) from generate_series(10, 29) b), array_fill(100, array[20])
			from generate_series(5, 719) n, (values ('hour'), ('day')) p (span), generate_series(1, 30) t, (values ('worker', 'eventful', ''), ('worker', 'failed', 'Error1'), ('wait', '', '')) v (source, status, exception)`,
		"insert into scheduler_go.errors select 'type-' || n, 'Error1', now() - interval '99 days', now() - interval '1 day' from generate_series(1, 30) n",
		`insert into scheduler_go.failures (at, type, exception, message, worker, task, visit_type, url) select now() - n * interval '1 second', case n % 30 when 1 then 'load-git' else 'type-' || n % 30 end, 'Error' || n % 7, repeat('m', 200), 'loader@host', n, 'git', 'https://example.org/' || n
			from generate_series(200000, 1, -1) n`,
		`insert into scheduler_go.figures (span, figure, name, part, since, samples, sums)
			select span, figure, case when q > 0 then name || q else '' end, '', at, k, array[k * 5, k, k, k, k * 2]
			from (values ('five', '5 minutes'::interval, 36, 1), ('hour', '1 hour', 719, 12), ('day', '1 day', 729, 288)) p (span, step, n, k), generate_series(0, p.n) i,
				lateral (select to_timestamp(floor(extract(epoch from now()) / extract(epoch from step)) * extract(epoch from step)) - i * step as at) a,
				(values ('queue', 'swh.unread.some.long.name.of.a.task.', 300), ('origins', 'type-', 30), ('visits', 'type-', 30), ('pools', 'type-', 30), ('staleness', 'type-', 30)) f (figure, name, names), generate_series(0, names) q`,
		"insert into scheduler_go.running select n, n, 'load-git', now() - n * interval '1 second', 'loader@host' from generate_series(1, 5000) n",
		fmt.Sprintf(`do $$ begin
			set local session_replication_role = replica;
			insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
				select ('00000000-0000-0000-0000-' || lpad((1 + n %% 300)::text, 12, '0'))::uuid, 'https://forge' || n %% 97 || '.example.org/user' || n * 7919 %% 100003 || '/repository-' || n,
					'git', '{}', n %% 20 > 0, now(), now() - random() * interval '700 days' from generate_series(1, %[1]d::bigint) n;
			insert into origin_visit_stats (url, visit_type, last_visit, last_visit_status, last_scheduled, last_successful)
				select url, 'git', at, 'successful', at - interval '1 hour', at
				from (select url, now() - random() * interval '500 days' as at from listed_origins where enabled) o;
			insert into task (type, arguments, next_run, status, policy, retries_left, priority, current_interval)
				select case when n %% 3 = 0 then 'load-git' else 'type-' || 1 + n %% 999 end, jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('url', 'https://example.org/' || n)),
					now() + (random() - 0.01) * interval '99 days', (enum_range(null::task_status))[1 + n %% 4], 'recurring', 3, case when n %% 50 = 0 then 'high' end::task_priority, '64 days'
				from generate_series(1, %[1]d) n;
			insert into task_run (task, backend_id, scheduled, started, ended, status, metadata)
				select id, 'run-' || id, now() - interval '2 hours', now() - interval '2 hours', now() - interval '1 hour', 'eventful', '{"worker": "loader-git@worker3"}' from task;
			insert into scheduler_go.run_durations (run, type, runtime, recorded) select id, 'load-git', 60, now() from task_run;
			insert into scheduler_go.graphs (name, submitted) select 'graph-' || n, now() - n * interval '1 minute' from generate_series(1, %[1]d / 50) n;
			insert into scheduler_go.graph_tasks (graph, task, name, any_result, dependencies) select 1 + n %% (%[1]d / 50 - 1), n, 't' || n, false, 1 from generate_series(1, %[1]d) n where n %% (%[1]d / 1000) > 0;
			insert into scheduler_go.graph_tasks (graph, task, name, any_result, dependencies)
				select %[1]d / 50, n * (%[1]d / 1000), 'step-' || n, false, 1 from generate_series(1, 667) n;
			insert into scheduler_go.graph_edges (task, depends_on) select task, task - case when task %% (%[1]d / 1000) = 0 then %[1]d / 1000 else 1 end from scheduler_go.graph_tasks where task > %[1]d / 1000;
		end $$`, rows),
	}
}

// rowsOfTables returns the number of origins, tasks and runs in the measured database.
func rowsOfTables(t *testing.T) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("SWH_TEST_DASHBOARD_ROWS"), "200000"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// With 1,000 queues and large tables, each page and its usual filters read a number of blocks that doesn't grow with the
// tables. Each page is smaller than 200 kB. SWH_TEST_DASHBOARD_DATABASE names another database with largeArchive;
// docs/devel/evidence/scale.md has the times.
func TestNoPageScans(t *testing.T) {
	t.Parallel()
	rows := rowsOfTables(t)
	withBroker := func(o *Options) { o.Broker = broker{} }
	shares := map[string]model.Shares{"load-git": {By: model.ShareByListerInstance, Default: 1, HalfLife: time.Hour}}
	var s *site
	measured := 1 // times that a page is read again
	if dsn := os.Getenv("SWH_TEST_DASHBOARD_DATABASE"); dsn != "" {
		s, measured = siteOf(t, dsn, withBroker), 5
	} else {
		s = newSite(t, withBroker, largeArchive(rows)...)
		testenv.Migrate(t, s.dsn, migrate.Options{Rebuild: true, Shares: shares})
		s.exec("vacuum analyze")
	}
	s.config.Shares = shares
	s.config.Hosters = model.Hosters{LostAfter: time.Hour, Backoff: &model.DefaultHosterBackoff}
	s.exec(`insert into scheduler_go.refusing_hosters
			select 'forge' || n || '.example.org', 3, 'epoch', 10, 'epoch', now() + interval '1 hour', 0, 0, 'epoch', 'epoch', 0, now(), 'too_many', repeat('m', 200), 0, 'epoch', false from generate_series(1, 1000) n on conflict do nothing`,
		`insert into scheduler_go.work (state, queue, task_id, task_name, args, kwargs, hosters)
			select 'sent', 'q', gen_random_uuid(), 't', '[]', '{}', array['lister-' || n % 300 || '/instance-' || n % 300, 'host' || n % 2000 || '.example.org'] from generate_series(1, 20000) n`,
		"vacuum analyze scheduler_go.work, scheduler_go.refusing_hosters")
	read := func() (blocks int) { // by sessions that have ended
		t.Helper()
		testenv.Becomes(t, "other sessions", 0, func() int {
			s.store.Pool().Reset()
			return testenv.Value[int](t, s.store.Pool(), "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'")
		})
		return testenv.Value[int](t, s.store.Pool(), `select sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0) + coalesce(toast_blks_read + toast_blks_hit + tidx_blks_read + tidx_blks_hit, 0))
			from (select pg_stat_force_next_flush()) f, pg_statio_user_tables`)
	}
	scans := func() int { // statistics of sessions that have ended
		return testenv.Value[int](t, s.store.Pool(), `select sum(seq_tup_read) from pg_stat_user_tables
			where relname in ('task', 'task_run', 'listed_origins', 'origin_visit_stats', 'candidates', 'graph_tasks', 'graph_edges')`)
	}
	// This origin is due, but almost all others are visited before it.
	last := "/origin?url=" + url.QueryEscape(testenv.Value[string](t, s.store.Pool(), `select url from listed_origins o join origin_visit_stats v using (url, visit_type)
		where o.enabled and v.last_scheduled < now() - interval '30 days' order by o.last_update desc limit 1`))
	s.has(last, "more than 200 origins are before it in the policy")
	task, graph := rows/1000*7, rows/50
	paths := []string{
		fmt.Sprintf("/tasks/%d", task), fmt.Sprintf("/graphs/%d", graph), "/audit/1", "/queue?name=swh.git", "/queue?name=swh.unread.some.long.name.of.a.task.7", "/queues?q=git",
		"/tasks?type=load-git", "/tasks?type=load-git&status=disabled", "/tasks?type=type-7&status=next_run_not_scheduled", "/tasks?priority=high", "/tasks?status=disabled&policy=oneshot",
		"/tasks?after=2020-01-01&before=2020-01-02", "/tasks?after=2020-01-01", "/tasks?argument=url%3Dhttps://example.org/7", "/tasks?argument=url%3Dhttps://example.org/7&containing=1",
		"/tasks?below=" + strconv.Itoa(rows/2), fmt.Sprintf("/tasks?id=%d,7,70", task),
		"/origins?url=forge7.example.org", "/origins?url=nowhere", last, "/listers?q=lister-7", "/graphs?name=graph-7", "/graphs?name=nothing", "/graphs?after=2020-01-01", "/graphs?state=open", "/graphs?state=cancelled", fmt.Sprintf("/tasks?graph=%d", graph), fmt.Sprintf("/tasks?graph=%d&status=disabled", graph), "/graphs?state=failed&name=graph-7", "/audit?below=7",
		"/types/load-git", "/types/load-git?range=30d", "/types/load-git?range=2y", "/errors?range=30d", "/errors?range=2y", "/errors?type=load-git&exception=Error1", "/tasks?type=load-git&exception=Error1", "/running?type=load-git", "/freshness?workers=50&by=2099-01-01", "/freshness?range=2y", "/queue?name=swh.unread.some.long.name.of.a.task.7&range=30d", "/queue?name=swh.unread.some.long.name.of.a.task.7&range=2y", "/search?find=forge7.example.org", "/search?find=nowhere", "/search?find=user7/repository", fmt.Sprintf("/search?find=%d", task), "/search?find=b8e7f2c0-0000-4000-8000-000000000001",
	}
	for _, p := range pages {
		if !strings.Contains(p.Path, "{") && p.Path != queuePage.Path {
			paths = append(paths, p.Path)
		}
	}
	s.exec("insert into scheduler_go.actions (who, action, filter, state, below, place) select 'ann', 'respawn', '{\"tasks\": {}}', 'done', 1, 0 from generate_series(1, 10000)", "vacuum analyze scheduler_go.actions")
	s.now.counts.every = time.Hour // all pages have the strip, so it counts for none of them
	s.get("/runbooks")
	testenv.Becomes(t, "problems are counted", true, func() bool { return !s.now.counts.readAt().IsZero() })
	var table strings.Builder
	before, scanned := read(), scans()
	for _, path := range paths {
		began := time.Now()
		body := s.get(path)
		took := time.Since(began)
		after := read()
		later := make([]time.Duration, measured)
		for i := range later {
			s.data.forget()
			began = time.Now()
			s.get(path) // with the data of the background
			later[i] = time.Since(began)
		}
		slices.Sort(later)
		again := later[len(later)/2]
		fmt.Fprintf(&table, "| `%s` | %d | %d | %d | %.0f |\n", path, took.Milliseconds(), again.Milliseconds(), after-before, float64(len(body))/1000)
		if len(body) > 200_000 {
			t.Errorf("%s has %d bytes", path, len(body))
		}
		most := maxBlocks
		if path == last {
			most = maxOriginBlocks
		}
		if n := after - before; n > most {
			t.Errorf("%s reads %d blocks", path, n)
		}
		if n := scans() - scanned; n > 0 {
			t.Errorf("%s reads %d rows of large tables without an index", path, n)
		}
		s.forget()
		before, scanned = read(), scans()
	}
	t.Logf("of %d rows: page, ms, median of %d later ones, blocks, kB\n%s", rows, measured, &table)
}

// maxBlocks limits the blocks of 8 kB that a page and its background parts read. It is more than 50 graphs of 50 tasks
// all over the tables, the groups of 300 listers, or a search of 20,000 tasks.
const maxBlocks = 20_000

// maxOriginBlocks limits the blocks of an origin's page while no change is pending: one look-up for each of
// explainDeepest candidates, and the groups of 300 listers. More look-ups for each need 6,000 blocks, another page of
// origins 400.
const maxOriginBlocks = 1500
