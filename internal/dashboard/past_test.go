package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/sql/db"
)

// The overview draws ended and failed work of the last three hours, of all types and of each. Tables and sentences have
// the same numbers, without scripts.
func TestOverviewOverTime(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.Broker = broker{} },
		"insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git'), ('list-git', '', 'swh.list')",
		endedRows+`(7, 'worker', 'load-git', 'eventful', '', 3), (7, 'worker', 'load-git', 'failed', 'OSError', 41), (90, 'worker', 'list-git', 'uneventful', '', 5),
			(30, 'journal', 'git', 'failed', '', 2), (8, 'wait', 'load-git', '', '', 9), (250, 'worker', 'load-git', 'eventful', '', 9)) v (ago, source, type, status, exception, n)`)
	o := read[overviewData](s, "/")
	if ended, failed := sum(o.Past.Ended), sum(o.Past.Failed); ended != 49 || failed != 41 || len(o.Past.Ended) != 37 {
		t.Errorf("%d ended, %d failed", ended, failed)
	}
	if ended, failed := sum(o.Visited.Ended), sum(o.Visited.Failed); ended != 2 || failed != 2 {
		t.Errorf("%d visits ended, %d failed", ended, failed)
	}
	for _, row := range o.Tasks {
		if want := map[string]int64{"load-git": 41, "list-git": 0}[row.Type]; sum(row.Past.Failed) != want {
			t.Errorf("%s: %v", row.Type, row.Past)
		}
	}
	s.has("/", "49 ended, at most 44 in 5 min. 41 of them failed, at most 41, from ", `<svg class="spark"`, `role="img"`, "Tasks, and visits of groups and lanes, in numbers", `<th scope="row">`)
}

// Failures are shown by type and exception, the most frequent first, with a sample, the first and last time, and the
// latest ones. An operator can retry or disable them as a group: the tasks whose last run failed so.
func TestErrorsAreShownAndActedOn(t *testing.T) {
	t.Parallel()
	s := work(t, nil)
	s.exec(endedRows+`(7, 'worker', 'load-git', 'failed', 'OSError', 41), (9, 'worker', 'load-git', 'failed', '', 3), (9, 'worker', 'load-git', 'eventful', '', 9),
			(20, 'worker', 'list-git', 'lost', 'KeyError', 50), (30, 'journal', 'git', 'failed', '', 2), (30, 'journal', 'git', 'not_found', '', 7)) v (ago, source, type, status, exception, n)`,
		"insert into scheduler_go.errors values ('load-git', 'OSError', now() - interval '40 days', now() - interval '30 days')",
		// Tasks 10 to 14 failed by it. 13 has succeeded since, and 14 has failed otherwise.
		`insert into task_run (task, backend_id, scheduled, started, ended, status) select n, 'failed-' || n, now(), now(), now(), 'failed' from generate_series(10, 14) n`,
		`insert into task_run (task, backend_id, scheduled, started, ended, status) values (13, 'ok', now(), now(), now(), 'eventful')`,
		`insert into scheduler_go.failures (at, type, exception, message, worker, task, visit_type, url) select now() - interval '5 minutes', 'load-git', case n when 14 then '' else 'OSError' end, 'OSError: no route ' || n, 'loader@host3', n, 'git', 'https://example.org/' || n
			from unnest(array[10, 11, 12, 13, 14, 10]) n`,
		`insert into scheduler_go.failures (at, type, exception, message, worker, visit_type, url) values (now(), 'load-git', 'OSError', 'OSError: the last', 'loader@host4', 'git', 'https://example.org/visit')`)
	e := read[errorsData](s, "/errors")
	var got []string
	for _, g := range e.Errors {
		sample := ""
		if g.Sample != nil {
			sample = g.Sample.Message
		}
		got = append(got, fmt.Sprintf("%s %s %d %d %d days: %s", g.Type, g.Exception, g.Count, sum(g.Past.Failed), int(time.Since(g.First).Hours()/24), sample))
	}
	if diff := cmp.Diff([]string{"list-git KeyError 50 50 0 days: ", "load-git OSError 41 41 40 days: OSError: the last", "load-git  3 3 0 days: OSError: no route 14"}, got); diff != "" {
		t.Error(diff)
	}
	if len(e.Visits) != 1 || e.Visits[0].Type != "git" || e.Visits[0].Count != 2 {
		t.Errorf("%+v", e.Visits)
	}
	s.has("/errors", "no exception", "loader@host4", `href="/errors?exception=%28none%29&amp;type=load-git"`, `href="/origin?url=https%3A%2F%2Fexample.org%2Fvisit"`, "41 failed, at most 41 in 5 min.")
	s.has("/errors?type=load-git&exception=OSError", "OSError: no route 12", "loader@host3", `href="/tasks/12"`, `href="/tasks?exception=OSError&amp;type=load-git"`)
	s.has("/errors?type=load-git&exception=(none)", "OSError: no route 14", `href="/tasks?exception=%28none%29&amp;type=load-git"`)
	for _, path := range []string{"/errors?range=9d", "/errors?exception=OSError", "/tasks?exception=OSError"} {
		if answer, body := s.ask(http.MethodGet, path, nil); answer.StatusCode != 400 {
			t.Errorf("%s: %s\n%s", path, answer.Status, body)
		}
	}
	group := "type=load-git&exception=OSError"
	found := read[tasksData](s, "/tasks?"+group).Found
	var ids []int64
	for _, task := range found.Tasks {
		ids = append(ids, task.ID)
	}
	if !slices.Equal(ids, []int64{12, 11, 10}) || found.Next != 0 || found.Partial {
		t.Errorf("%+v", found)
	}
	path := s.post("/tasks", url.Values{"action": {"respawn"}, "scope": {"all"}, "filter": {group}}, 303)
	if a := s.change(path, db.ActionCounted); a.Matched != 3 || s.count("task where status = 'next_run_not_scheduled' and id in (10, 11, 12)") != 0 {
		t.Errorf("%+v", a)
	}
	s.post(path+"/confirm", url.Values{}, 303)
	if a := s.change(path, db.ActionDone); a.Changed != 3 || s.count("task where status = 'next_run_not_scheduled' and id in (10, 11, 12)") != 3 {
		t.Errorf("%+v", a)
	}
	s.has(path, "OSError")
}

// In each range, the page of a type shows ended and failed work, durations, waiting times, errors, running work, queues
// and settings.
func TestTypeIsShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.Broker = broker{} },
		"insert into task_type (type, description, backend_name, max_queue_length, num_retries, retry_delay) values ('load-git', 'Loads Git', 'swh.git', 1000, 3, '1 hour'), ('odd/<b>', '', 'swh.odd', null, null, null)",
		endedRows+`(7, 'worker', 'load-git', 'eventful', '', 30), (7, 'worker', 'load-git', 'failed', 'OSError', 10), (8, 'wait', 'load-git', '', '', 40), (9, 'worker', 'other', 'failed', 'OSError', 9),
			(300, 'worker', 'load-git', 'eventful', '', 5), (9, 'journal', 'git', 'eventful', '', 7)) v (ago, source, type, status, exception, n)`,
		"insert into task (type, arguments, next_run, status, policy) select 'load-git', '{\"args\": [], \"kwargs\": {\"url\": \"https://example.org/slow\"}}', now(), 'next_run_scheduled', 'oneshot' from generate_series(1, 3)",
		"insert into task_run (task, backend_id, scheduled, started, status) select id, 'celery-' || id, now(), now() - id * interval '10 minutes', case id when 3 then 'eventful' else 'started' end::task_run_status from task",
		"insert into scheduler_go.running select id, task, 'load-git', started, 'loader@host' || id from task_run where id < 3",
		"insert into scheduler_go.run_durations values (3, 'load-git', 1234, now()), (4, 'load-git', 12, now()), (5, 'other', 5000, now())")
	if _, err := s.store.MoveEnded(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	d := read[typePageData](s, "/types/load-git")
	if sum(d.Past.Ended) != 40 || sum(d.Past.Failed) != 10 || sum(d.Visited.Ended) != 7 || *d.P50 < 8 || *d.P50 > 9 || *d.Average != 1 || *d.WaitP95 < 8 {
		t.Errorf("%+v", d)
	}
	if len(d.Errors) != 1 || d.Errors[0].Count != 10 || len(d.Running) != 2 || d.Running[0].Task != 2 || d.Running[0].P95 == nil || len(d.Slowest) != 2 || d.Slowest[0].Seconds != 1234 || d.Slowest[0].Task != 3 {
		t.Errorf("%+v %+v %+v", d.Errors, d.Running, d.Slowest)
	}
	if len(d.Queues) == 0 || d.Queues[0].Queue != "swh.git" {
		t.Errorf("%+v", d.Queues)
	}
	s.has("/types/load-git", "Loads Git", "40 ended, at most 40 in 5 min. 10 of them failed", "25.0 %", "How long what succeeded took", "How much took how long, in numbers", "long</span>", "loader@host2", "Retried after", "20 min", `aria-current="true"`, "OSError")
	for _, of := range []string{"30d", "2y"} {
		if d := read[typePageData](s, "/types/load-git?range="+of); sum(d.Past.Ended) != 45 {
			t.Errorf("%s: %v", of, d.Past)
		}
	}
	s.has("/types/"+url.PathEscape("odd/<b>"), "odd/&lt;b&gt;")
	if answer, body := s.ask(http.MethodGet, "/types/none", nil); answer.StatusCode != 404 {
		t.Errorf("%s\n%s", answer.Status, body)
	}
	s.has("/running", "long</span>", "loader@host1", "https://example.org/slow", `href="/types/load-git"`)
	if r := read[runningData](s, "/running?type=none"); len(r.Running) != 0 || len(r.Types) != 1 || r.Types[0].Runs != 2 {
		t.Errorf("%+v", r)
	}
}

// An origin's page draws its last visits as stretches with the same outcome, and lists its last failures.
func TestVisitsOfAnOriginAreShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, append(odd,
		"insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-0000000000aa', 'l', 'i', '{}', now())",
		"insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen) values ('00000000-0000-0000-0000-0000000000aa', 'https://a.example', 'git', '{}', true, now())",
		"insert into origin_visit_stats (url, visit_type, last_visit, last_visit_status, successive_visits) values ('https://a.example', 'git', now() - interval '1 day', 'failed', 3)",
		`insert into scheduler_go.visit_turns (origin, at, status, before, visits, last_before) select hashtextextended('git https://a.example', 0), now() - d * interval '1 day', status, before, n, now() - (d + 1) * interval '1 day'
			from (values (40, 'failed', 'successful', 7), (30, 'successful', 'failed', 2), (3, 'failed', 'successful', 14)) v (d, status, before, n)`,
		"insert into scheduler_go.failures (at, type, exception, message, worker, visit_type, url) values (now() - interval '1 day', 'load-git', 'OSError', 'OSError: no route', 'loader@host3', 'git', 'https://a.example')")...)
	s.has("/origin?url=https://a.example", "Its last visits: git", `<rect class="failed"`, `<rect class="ran"`, "OSError: no route", "loader@host3")
	d := read[originData](s, "/origin?url=https://a.example")
	var visits []int32
	for _, stretch := range d.Visits[0].Stretches {
		visits = append(visits, stretch.Visits)
	}
	if !slices.Equal(visits, []int32{3, 14, 2, 7}) || d.Visits[0].Stretches[3].First != nil || d.Visits[0].Stretches[0].Status != "failed" {
		t.Errorf("%+v", d.Visits)
	}
	// A list links to a URL that ends with a blank.
	s.exec("insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen) values ('00000000-0000-0000-0000-0000000000aa', 'https://b.example ', 'git', '{}', true, now())")
	s.has("/origins?url=https://b.", `href="/origin?url=https%3A%2F%2Fb.example&#43;"`)
	s.has("/origin?url=https%3A%2F%2Fb.example+", "listed by l (i)")
	s.has("/origin?url=+https://a.example+", "Its last visits: git")
}
