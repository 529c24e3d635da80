package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// work returns a dashboard that runs actions, with tasks and a graph, in which ann may act.
func work(t *testing.T, change func(*Options)) *site {
	t.Helper()
	s := newSite(t, func(o *Options) {
		o.Access = Access{Users: []config.DashboardUser{Ann()}}
		if change != nil {
			change(o)
		}
	}, append(odd,
		`insert into task (type, arguments, next_run, status, policy, retries_left)
			select 'load-git', jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('url', 'https://example.org/' || n)), now() + interval '1 day', 'disabled', 'oneshot', 3
			from generate_series(1, 120) n`,
		`insert into scheduler_go.graphs (name, submitted) values ('import', now())`,
		`insert into scheduler_go.graph_tasks (graph, task, name, any_result, dependencies) values (1, 6, 'a', false, 0), (1, 7, 'b', false, 1)`,
		`insert into scheduler_go.graph_edges (task, depends_on) values (7, 6)`,
		`insert into task_run (task, backend_id, scheduled, started, status) values (6, 'celery-6', now() - interval '1 hour', now() - interval '50 minutes', 'started')`,
	)...)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Work(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return s
}

// post sends a form as ann, and returns the path of the next page.
func (s *site) post(path string, form url.Values, status int) string {
	s.t.Helper()
	answer, body := s.ask(http.MethodPost, path, form, "Authorization", "Bearer t0ken")
	if answer.StatusCode != status {
		s.t.Fatalf("%s %v: %s, want %d\n%s", path, form, answer.Status, status, body)
	}
	return answer.Header.Get("Location")
}

// change waits until an action has a state.
func (s *site) change(path string, state db.ActionState) (a db.Action) {
	s.t.Helper()
	testenv.Becomes(s.t, path, state, func() db.ActionState {
		if err := json.Unmarshal([]byte(s.get(path, "Accept", "application/json")), &a); err != nil {
			s.t.Fatal(err)
		}
		return a.State
	})
	return a
}

func (s *site) count(statement string) int {
	s.t.Helper()
	return testenv.Value[int](s.t, s.store.Pool(), "select count(*) from "+statement)
}

// An action on a selection runs at once. An action on all matches of a filter counts them first, and waits for a
// confirmation. The audit has the user and the action.
func TestChanges(t *testing.T) {
	t.Parallel()
	var m sync.Mutex
	var revoked []string
	away := true
	s := work(t, func(o *Options) {
		o.Revoke = func(_ context.Context, ids []string, terminate bool) error {
			m.Lock()
			defer m.Unlock()
			if away {
				away = false
				return errors.New("no worker replied")
			}
			for _, id := range ids {
				if terminate {
					id = "kill " + id
				}
				revoked = append(revoked, id)
			}
			return nil
		}
	})
	path := s.post("/tasks", url.Values{"action": {"respawn"}, "scope": {"selected"}, "id": {"6", "8"}}, 303)
	if a := s.change(path, db.ActionDone); a.Changed != 2 || a.Who != "ann" || s.count("task where status = 'next_run_not_scheduled' and id in (6, 8) and next_run <= now()") != 2 {
		t.Errorf("%+v", a)
	}
	path = s.post("/tasks", url.Values{"action": {"priority high"}, "scope": {"all"}, "filter": {"type=load-git&status=disabled"}}, 303)
	if a := s.change(path, db.ActionCounted); a.Matched != 118 || s.count("task where priority = 'high'") != 0 {
		t.Errorf("%+v", a)
	}
	s.has(path, "118 match")
	s.post(path+"/confirm", url.Values{}, 303)
	if a := s.change(path, db.ActionDone); a.Changed != 118 || s.count("task where priority = 'high' and status = 'disabled'") != 118 {
		t.Errorf("%+v", a)
	}
	s.post(path+"/confirm", url.Values{}, 409)
	path = s.post("/tasks", url.Values{"action": {"disable"}, "scope": {"all"}, "filter": {"type=load-git"}}, 303)
	s.change(path, db.ActionCounted)
	s.post(path+"/cancel", url.Values{}, 303)
	if a := s.change(path, db.ActionCancelled); a.Changed != 0 {
		t.Errorf("%+v", a)
	}
	path = s.post("/tasks", url.Values{"action": {"revoke"}, "id": {"6", "9"}}, 303)
	for a := s.change(path, db.ActionRunning); a.Result == ""; a = s.change(path, db.ActionRunning) {
		time.Sleep(20 * time.Millisecond)
	}
	s.has(path, "no worker replied")
	s.exec("update scheduler_go.actions set again = now()")
	if a := s.change(path, db.ActionDone); a.Changed != 1 {
		t.Errorf("%+v", a)
	}
	m.Lock()
	if !slices.Equal(revoked, []string{"celery-6"}) {
		t.Errorf("revoked %v", revoked)
	}
	m.Unlock()
	// An action with a side effect needs a confirmation, even for one task.
	path = s.post("/tasks", url.Values{"action": {"revoke terminate"}, "id": {"6"}}, 303)
	s.change(path, db.ActionCounted)
	s.has(path, "1 match", "It kills the processes")
	s.post(path+"/confirm", url.Values{}, 303)
	if a := s.change(path, db.ActionDone); a.Changed != 1 {
		t.Errorf("%+v", a)
	}
	m.Lock()
	if !slices.Equal(revoked, []string{"celery-6", "kill celery-6"}) {
		t.Errorf("revoked %v", revoked)
	}
	m.Unlock()
	path = s.post("/graphs", url.Values{"action": {"cancel graph"}, "id": {"1"}}, 303)
	if a := s.change(path, db.ActionDone); a.Changed != 1 || s.count("scheduler_go.graphs where cancelled is not null") != 1 {
		t.Errorf("%+v", a)
	}
	// With terminate, cancelling a graph also revokes its running tasks, after a confirmation.
	path = s.post("/graphs", url.Values{"action": {"cancel graph terminate"}, "id": {"1"}}, 303)
	s.change(path, db.ActionCounted)
	s.has(path, "1 match", "It kills the processes")
	s.exec("update task set status = 'next_run_scheduled' where id = 6")
	s.post(path+"/confirm", url.Values{}, 303)
	if a := s.change(path, db.ActionDone); a.Changed != 1 {
		t.Errorf("%+v", a)
	}
	m.Lock()
	if !slices.Equal(revoked, []string{"celery-6", "kill celery-6", "kill celery-6"}) {
		t.Errorf("revoked %v", revoked)
	}
	m.Unlock()
	if body := s.has("/tasks?graph=1", "<td>load-git"); strings.Contains(body, ">9<") || !strings.Contains(body, `href="/tasks/6"`) || !strings.Contains(body, `href="/tasks/7"`) {
		t.Error(body)
	}
	s.has("/graphs/1", `<a href="/tasks?graph=1&amp;status=next_run_scheduled">1 running</a>`)
	path = s.post("/tasks", url.Values{"action": {"release"}, "id": {"9"}}, 303)
	if a := s.change(path, db.ActionFailed); !strings.Contains(a.Result, "task 9 is in no graph") {
		t.Errorf("%+v", a)
	}
	s.exec(`insert into task (type, arguments, next_run, status, policy) select 'load-git', '{}', scheduler_go.never(), 'next_run_not_scheduled', 'oneshot' from generate_series(1, 2)`,
		`insert into scheduler_go.graphs (name, submitted) values ('by hand', now())`,
		`insert into scheduler_go.graph_tasks (graph, task, name, any_result, dependencies) select 2, id, 't' || id, false, 0 from task where id > 125`)
	path = s.post("/tasks", url.Values{"action": {"release"}, "id": {"9", "126", "127"}}, 303)
	if a := s.change(path, db.ActionDone); a.Changed != 2 {
		t.Errorf("%+v", a)
	}
	s.exec("insert into task (type, arguments, next_run, status, policy) select 'load-git', '{}', scheduler_go.never(), 'next_run_not_scheduled', 'oneshot'",
		"insert into scheduler_go.graph_tasks (graph, task, name, any_result, dependencies) values (2, 128, 'late', false, 1)", "insert into scheduler_go.graph_edges (task, depends_on) values (128, 126)")
	path = s.post("/tasks", url.Values{"action": {"release"}, "id": {"128"}}, 303)
	if a := s.change(path, db.ActionFailed); !strings.Contains(a.Result, "still waits for") {
		t.Errorf("%+v", a)
	}
	path = s.post("/tasks", url.Values{"action": {"release force"}, "id": {"128"}}, 303)
	s.change(path, db.ActionCounted)
	s.post(path+"/confirm", url.Values{}, 303)
	if a := s.change(path, db.ActionDone); a.Changed != 1 || s.count("task where id = 128 and next_run <= now()") != 1 {
		t.Errorf("%+v", a)
	}
	// All graphs that match a filter are cancelled, except ended ones.
	s.exec("insert into scheduler_go.graphs (name, submitted) select 'batch ' || n, now() - n * interval '1 hour' from generate_series(1, 5) n", "insert into scheduler_go.graphs (name, submitted) values ('other', now())",
		"insert into task (type, arguments, next_run, status, policy) select 'load-git', '{}', scheduler_go.never(), (case n when 5 then 'completed' else 'next_run_not_scheduled' end)::task_status, 'oneshot' from generate_series(1, 5) n",
		"insert into scheduler_go.graph_tasks (graph, task, name, any_result, dependencies) select g.id, t.id, 'only', false, 0 from scheduler_go.graphs g join task t on t.id = 128 + right(g.name, 1)::int where g.name like 'batch _'")
	path = s.post("/graphs", url.Values{"action": {"cancel graph"}, "scope": {"all"}, "filter": {"name=batch"}}, 303)
	if a := s.change(path, db.ActionCounted); a.Matched != 5 {
		t.Errorf("%+v", a)
	}
	s.exec("insert into scheduler_go.graphs (name, submitted) values ('batch that came later', now())")
	s.has(path, "5 match", "batch")
	s.post(path+"/confirm", url.Values{}, 303)
	if a := s.change(path, db.ActionDone); a.Changed != 4 || s.count("scheduler_go.graphs where cancelled is not null and name like 'batch _'") != 4 || s.count("scheduler_go.graphs where cancelled is not null") != 5 {
		t.Errorf("%+v", a)
	}
	path = s.post("/graphs", url.Values{"action": {"retry graph"}, "scope": {"all"}, "filter": {"name=batch"}}, 303)
	s.change(path, db.ActionCounted)
	s.has(path, "graphs that were cancelled")
	s.exec("delete from scheduler_go.graphs where name = 'other'") // as the archiving job does
	path = s.post("/graphs", url.Values{"action": {"cancel graph"}, "id": {"2", "8"}}, 303)
	if a := s.change(path, db.ActionDone); a.Changed != 1 {
		t.Errorf("%+v", a)
	}
	path = s.post("/graphs", url.Values{"action": {"cancel graph"}, "id": {"8"}}, 303)
	s.change(path, db.ActionFailed)
	s.post("/graphs", url.Values{"action": {"retry graph"}, "scope": {"all"}, "filter": {"after=x"}}, 400)
	s.post("/tasks", url.Values{"action": {"disable"}, "scope": {"all"}, "filter": {"stauts=disabled"}}, 400) // otherwise all tasks would match
	s.has("/audit", "priority high", "ann", "load-git", `<a href="/graphs/1">1</a>`)

	for _, wrong := range []url.Values{
		{"action": {"drop"}, "id": {"6"}}, {"action": {"disable"}}, {"action": {"disable"}, "id": {"x"}},
		{"action": {"disable"}, "id": {""}}, {"action": {"disable"}, "id": {",", " "}, "scope": {"selected"}}, // an empty list doesn't match all tasks
		{"action": {"disable"}, "scope": {"all"}, "filter": {"status=nope"}}, {"action": {"disable"}, "scope": {"all"}, "filter": {"%"}}, {"action": {"disable"}, "scope": {"all"}, "filter": {"type=%00"}},
	} {
		s.post("/tasks", wrong, 400)
	}
	s.post("/graphs", url.Values{"action": {"retry graph"}, "id": {"0"}}, 400)
	s.post("/graphs", url.Values{"action": {"respawn"}, "id": {"1"}}, 400)
	s.post("/audit/99/confirm", url.Values{}, 409)
	if answer, _ := s.ask(http.MethodPost, "/tasks", url.Values{"action": {"respawn"}, "id": {"6"}}); answer.StatusCode != 403 && answer.StatusCode != 401 {
		t.Errorf("nobody may act, and got %s", answer.Status)
	}
}

// Pages of a task, an origin, a graph and an action, and searches, show the data, escaped. If there is none, they say
// so. The address contains the filter.
func TestDetails(t *testing.T) {
	t.Parallel()
	s := work(t, nil)
	quoted := strings.ReplaceAll(hostile, "'", "''")
	s.exec(
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen) select id, 'https://x.example/`+quoted+`', 'git', '{}', true, now() from listers`,
		`insert into scheduler_go.set_aside_tasks (task, arguments, reason) values (1, '', '`+quoted+`')`,
		`insert into scheduler_go.set_aside_origins (lister_id, url, visit_type, content, reason) select id, '`+quoted+`', 'git', '', 'odd' from listers`,
		`insert into scheduler_go.rejected_events (received, backend_id, event, sqlstate, reason) values (now(), 'celery-6', '`+quoted+`', '22008', 'out of range')`,
		`insert into scheduler_go.rejected_records (topic, partition, record_offset, kind, detail) values ('t', 3, 77, 'odd', '`+quoted+`')`,
		`update scheduler_go.graphs set name = '`+quoted+`'`,
		`update scheduler_go.graph_tasks set name = '`+quoted+`' where task = 7`,
		`update task_run set metadata = jsonb_build_object('x', '`+quoted+`')`,
		`update task set next_run = 'infinity' where id = 10`,
	)
	odd := "https://x.example/" + hostile
	values := regexp.MustCompile(`value="[^"]*"`)
	inline := regexp.MustCompile(`(?i)<script>|<style|\son\w+=|\sstyle=|javascript:`)
	for path, want := range map[string]string{
		"/tasks?type=load-git&status=disabled":        `<a href="/tasks/125">125</a>`,
		"/tasks?argument=url%3Dhttps://example.org/7": `<a href="/tasks/12">12</a>`,
		"/tasks?id=6+7": `<a href="/tasks/7">7</a>`,
		"/tasks?type=" + url.QueryEscape(hostile): `<a href="/tasks/1">1</a>`,
		"/tasks/1":                            "It is rejected",
		"/tasks/6":                            "celery-6",
		"/tasks/10":                           "infinite",
		"/origins?url=x.example/":             "git",
		"/origin?url=" + url.QueryEscape(odd): "Next visit",
		"/graphs/1":                           "2 tasks have ended",
		"/aside":                              "t/3/77",
	} {
		body := s.has(path, want)
		if len(body) > 200_000 || inline.MatchString(body) || strings.Contains(values.ReplaceAllString(body, ""), "\u202e") {
			t.Errorf("%s: %d bytes, inline: %q\n%s", path, len(body), inline.FindString(body), body)
		}
		if asJSON := s.get(path, "Accept", "application/json"); !json.Valid([]byte(asJSON)) {
			t.Errorf("%s: %s", path, asJSON)
		}
	}
	for _, f := range graphPage.Fragments {
		if part := s.get("/graphs/1", "X-Fragment", f); strings.Contains(part, "<form") {
			t.Errorf("the fragment %s has a form:\n%s", f, part)
		}
	}
	for path, wrong := range map[string]string{"/queue?name=x": "does not exist", "/queues": "No queue of these"} { // without a broker it is unknown
		if body := s.has(path, "The configuration names no broker."); strings.Contains(body, wrong) {
			t.Errorf("%s says %q:\n%s", path, wrong, body)
		}
	}
	older := regexp.MustCompile(`<a href="([^"]*below=[^"]*)">Older`).FindStringSubmatch(s.get("/tasks?type=load-git&status=disabled"))
	if len(older) == 0 {
		t.Fatal("there is no next page")
	}
	s.has(strings.ReplaceAll(older[1], "&amp;", "&"), `<a href="/tasks/75">75</a>`)
	for path, status := range map[string]int{
		"/tasks/999": 404, "/tasks/x": 404, "/graphs/9": 404, "/graphs/x": 404, "/audit/9": 404, "/origin?url=https://no.example/": 404,
		"/tasks?stauts=disabled": 400, "/queues?name=x": 400, // parameters that the page doesn't have
		"/tasks?status=disabled%zz": 400, "/tasks?status=disabled;type=load-git": 400, // parameters that can't be decoded
		"/tasks?status=nope": 400, "/tasks?after=nope": 400, "/tasks?id=x": 400, "/tasks?id=,": 400, "/tasks?below=-1": 400, "/tasks?priority=x": 400, "/tasks?policy=x": 400,
		"/tasks?argument=%5B": 400, "/origins?url=x&after=y&lister=z": 400, "/audit?below=x": 400, "/graphs?after=x": 400, "/graphs?below=x": 400,
		"/graphs?name=%00": 400, "/tasks?type=%FF": 400, "/queue?name=%2500": 200, // invalid text, and valid text
	} {
		if answer, body := s.ask(http.MethodGet, path, nil); answer.StatusCode != status {
			t.Errorf("%s: %s, want %d\n%s", path, answer.Status, status, body)
		}
	}
}

// A task's page links to the queue that the runner uses, or to the queues of its lanes. Only a loader's page links to
// its origin, even if no lister lists it.
func TestQueueAndOriginOfATask(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil,
		`insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git'), ('list-gitea', '', 'swh.gitea'), ('load-svn', '', 'swh.svn')`,
		`insert into task (type, arguments, next_run, status, policy, priority) select type, '{"args": [], "kwargs": {"url": "https://example.org/x"}}', now(), 'next_run_not_scheduled', 'oneshot', priority
			from (values ('load-git', null), ('load-git', 'high'::task_priority), ('list-gitea', null), ('load-svn', null), ('load-svn', 'high')) v (type, priority)`,
	)
	s.config.Lanes = map[string][]model.Lane{"load-svn": {{Name: "slow", Queue: "{backend_name}", Slots: 1}}}
	const address = "https://example.org/x"
	for task, want := range map[int]struct{ queue, origin, link string }{
		1: {"swh.git", address, `<a href="/queue?name=swh.git">`},
		2: {"save_code_now:swh.git", address, `<a href="/queue?name=save_code_now%3Aswh.git">`},
		3: {"swh.gitea", "", `<a href="/queue?name=swh.gitea">`},
		4: {"", address, `<a href="/queues?q=load-svn">lanes</a>`},
		5: {"save_code_now:swh.svn", address, `<a href="/queue?name=save_code_now%3Aswh.svn">`},
	} {
		path := fmt.Sprintf("/tasks/%d", task)
		if d := read[taskData](s, path); d.Queue != want.queue || d.Origin != want.origin {
			t.Errorf("%s: queue %q, origin %q", path, d.Queue, d.Origin)
		}
		body := s.has(path, want.link)
		if strings.Contains(body, `<a href="/origins?url=https%3A%2F%2Fexample.org%2Fx">`) != (want.origin != "") {
			t.Errorf("%s: the link to the origin is wrong:\n%s", path, body)
		}
	}
	s.get("/origins?url=" + url.QueryEscape(address))
}

// An action on a graph ends, and unlocks its row, before changes of other graphs are settled.
func TestGraphActionBesideABacklog(t *testing.T) {
	t.Parallel()
	s := work(t, nil)
	s.exec("insert into scheduler_go.graphs (name, submitted) values ('small', now()), ('backlog', now())",
		"insert into task (id, type, arguments, next_run, status, policy) select id, 'load-git', '{}', scheduler_go.never(), 'next_run_not_scheduled', 'oneshot' from generate_series(1001, 41000) id",
		"insert into scheduler_go.graph_tasks (graph, task, name, any_result, dependencies) select case id when 1001 then 2 else 3 end, id, id, false, 0 from task where id > 1000",
		"insert into scheduler_go.graph_checks (task) select id from task where id > 1001")
	path := s.post("/graphs", url.Values{"action": {"cancel graph"}, "id": {"2"}}, 303)
	a := s.change(path, db.ActionDone)
	if left := s.count("scheduler_go.graph_checks"); a.Changed != 1 || left < 20_000 || s.count("task where id = 1001 and status = 'disabled'") != 1 {
		t.Errorf("%+v, with %d checks of the others left", a, left)
	}
}

// Before its confirmation, an action on all matches shows its effect and five samples. A task's page offers only
// operations that would change the task.
func TestActionsSayWhatTheyDo(t *testing.T) {
	t.Parallel()
	s := work(t, nil)
	page := s.post("/tasks", url.Values{"action": {"respawn"}, "scope": {"all"}, "filter": {"type=load-git&status=disabled"}}, http.StatusSeeOther)
	s.change(page, db.ActionCounted)
	var counted struct{ Samples []sample }
	if err := json.Unmarshal([]byte(s.get(page, "Accept", "application/json")), &counted); err != nil || len(counted.Samples) != maxSamples || !strings.Contains(counted.Samples[0].Text, "load-git url=https://example.org/") {
		t.Errorf("%v: %+v", err, counted)
	}
	s.has(page, "Each becomes ready at once", "Among them", counted.Samples[0].Page)
	disabled := s.get(counted.Samples[0].Page, "Authorization", "Bearer t0ken")
	for text, want := range map[string]bool{">Run again now<": true, ">Disable<": false, ">Revoke what was sent<": false, ">Give high priority<": true, ">Take priority away<": false, ">Release from its graph<": false} {
		if strings.Contains(disabled, text) != want {
			t.Errorf("a disabled task: %s is offered: %v", text, !want)
		}
	}
}
