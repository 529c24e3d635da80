package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/status"
	"swh-scheduler/sql/db"
)

// Each page counts the problems by tone, also in its title, and links to them.
func TestStrip(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.Broker = broker{} })
	s.now.counts.wait = time.Minute
	s.now.queues.read = func(context.Context) ([]status.Queue, error) {
		return []status.Queue{{Queue: "unread", Ready: 2}, {Queue: "empty"}, {Queue: "lane", Lane: "s l", Backlog: 1}}, nil
	}
	for name, ago := range map[string]time.Duration{"start-runner": time.Hour, "journal-client": 0, "start-listener": 0} {
		if err := s.store.RecordDaemon(t.Context(), db.Daemon{ID: uuid.New(), Name: name, Host: "h", Started: time.Now().Add(-ago), State: db.DaemonState{Last: map[string]time.Time{"journal": time.Now().Add(-7 * time.Minute)}}}); err != nil {
			t.Fatal(err)
		}
		s.exec(fmt.Sprintf("update scheduler_go.daemons set seen = seen - interval '%d seconds' where name = '%s'", int(ago.Seconds()), name))
	}
	// Critical: no start-runner. Warnings: two queues. Idle: the empty one, start-runner, and schedule-recurrent.
	for _, path := range []string{"/runbooks", "/", "/tasks", "/freshness"} {
		s.has(path, `<a href="/#problems">1 critical, 2 warnings, 3 idle</a>`, "<title>(3) ", `<li class="database">database <span>now</span>`, `<li class="broker">broker <span>now</span>`, `<li class="journal old">journal <span>7 min ago</span>`)
	}
	s.has("/", "No worker reads empty, which is empty.", `class="idle"`)
	if body := s.get("/login"); strings.Contains(body, "strip") {
		t.Error("the page to log in has the strip")
	}
	if body := s.get("/tasks", "X-Fragment", "strip"); !strings.HasPrefix(body, `<p class="critical" data-problems="3">`) {
		t.Error(body)
	}
	if answer, body := s.ask(http.MethodGet, "/nowhere", nil); answer.StatusCode != 404 || strings.Contains(body, "strip") {
		t.Errorf("%s\n%s", answer.Status, body)
	}
}

// A reader who must log in first receives no strip, and none is read.
func TestStripIsForReaders(t *testing.T) {
	t.Parallel()
	s := acting(t, true)
	for _, path := range []string{"/login", "/", "/nowhere"} {
		if _, body := s.ask(http.MethodGet, path, nil, "X-Fragment", "strip"); strings.Contains(body, "problems") {
			t.Errorf("%s:\n%s", path, body)
		}
	}
	if !s.now.counts.readAt().IsZero() {
		t.Error("problems were counted for a stranger")
	}
}

// If the broker or the database doesn't answer, the strip shows the age of its data, even if no page can be read.
func TestStripMarksOldFigures(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.Broker = broker{} })
	s.now.counts.wait = time.Minute
	s.get("/queues")
	s.get("/")
	frozen := errors.New("no answer")
	s.now.queues.read = func(context.Context) ([]status.Queue, error) { return nil, frozen }
	s.now.figures.read = func(context.Context) (db.Figures, error) { return db.Figures{}, frozen }
	s.now.queues.mu.Lock()
	s.now.queues.at = time.Now().Add(-25 * time.Second)
	s.now.queues.mu.Unlock()
	s.now.figures.mu.Lock()
	s.now.figures.at = time.Now().Add(-time.Hour)
	s.now.figures.mu.Unlock()
	s.has("/runbooks", `<li class="database old">database <span>1 h 0 min ago</span>`, `<li class="broker old">broker <span>25 s ago</span>`)
	s.data.forget()
	if answer, _ := s.ask(http.MethodGet, "/listers", nil); answer.StatusCode != 503 && answer.StatusCode != 500 {
		t.Errorf("the page can be read: %s", answer.Status)
	}
	if body := s.get("/listers", "X-Fragment", "strip"); !strings.Contains(body, `<li class="database old">`) {
		t.Error(body)
	}
}

// One field searches everything. A single exact match redirects to its page, several matches are listed, and without a
// match the page lists the searched kinds.
func TestSearch(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil,
		"insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.loader.git'), ('list-git', '', 'swh.lister.git'), ('load-hg', '', 'swh.loader.hg')",
		"insert into task (type, arguments, next_run, status, policy, current_interval) select 'list-git', '{}', now(), 'next_run_scheduled', 'oneshot', '1 day' from generate_series(1, 3)",
		"insert into task_run (task, backend_id, scheduled, status) values (2, 'b8e7f2c0-0000-4000-8000-000000000001', now(), 'scheduled')",
		"insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'gitea', 'forge.example', '{}', now())",
		"insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen) select '00000000-0000-0000-0000-000000000001', 'https://forge.example/a' || n, 'git', '{}', true, now() from generate_series(1, 30) n",
		"insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen) values ('00000000-0000-0000-0000-000000000001', 'git://other.example/x', 'git', '{}', true, now())",
		"insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen) select '00000000-0000-0000-0000-000000000001', 'https://forge.example/zoe/code' || n, 'git', '{}', true, now() from generate_series(1, 2) n",
		"insert into scheduler_go.failures (at, type, exception, message, worker, visit_type, url) values (now(), 'load-git', 'E', 'm', 'w', 'git', 'https://elsewhere.example/deep/broken.git')",
		"insert into scheduler_go.graphs (name, submitted) values ('import', now()), ('import two', now()), ('3', now())",
		"insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, url, visit_type, share_group, cost) values ('b8e7f2c0-0000-4000-8000-000000000002', 'sent', 'q', 'q', 't', '[]', '{}', 'https://forge.example/a7', 'git', 'g', 1)",
	)
	for find, page := range map[string]string{
		"b8e7f2c0-0000-4000-8000-000000000001": "/tasks/2", "B8E7F2C0-0000-4000-8000-000000000001": "/tasks/2",
		"b8e7f2c0-0000-4000-8000-000000000002": "/origin?url=https%3A%2F%2Fforge.example%2Fa7",
		"https://forge.example/a7":             "/origin?url=https%3A%2F%2Fforge.example%2Fa7",
		"forge.example/a1":                     "/origin?url=https%3A%2F%2Fforge.example%2Fa1",
		"other.example/":                       "/origin?url=git%3A%2F%2Fother.example%2Fx",
		"zoe/code2":                            "/origin?url=https%3A%2F%2Fforge.example%2Fzoe%2Fcode2",
		"/zoe/code1":                           "/origin?url=https%3A%2F%2Fforge.example%2Fzoe%2Fcode1",
		"broken":                               "/origin?url=https%3A%2F%2Felsewhere.example%2Fdeep%2Fbroken.git",
		"swh.loader.git":                       "/queue?name=swh.loader.git",
		"load-git":                             "/types/load-git", "git": "/types/load-git", "hg": "/types/load-hg", "import": "/graphs/1", "import t": "/graphs/2", " gitea ": "/listers?q=forge.example",
	} {
		answer, body := s.ask(http.MethodGet, address("/search", "find", find), nil)
		if got := answer.Header.Get("Location"); answer.StatusCode != http.StatusSeeOther || got != page {
			t.Errorf("%s: %s %s, not %s\n%s", find, answer.Status, got, page, body)
		}
	}
	for _, kind := range []string{"task 3, list-git", "graph 3 3"} { // objects with this number
		s.has("/search?find=3", kind)
	}
	several := read[searchData](s, "/search?find=forge.example/a")
	if len(several.Found) != maxMatches || !several.More {
		t.Errorf("%+v", several)
	}
	s.has("/search?find=load", "load-git", "load-hg", "swh.loader.git", "6 matches")
	s.has("/search?find=%3Cb%3Enothing", "Nothing matches <code>&lt;b&gt;nothing</code>", "a queue, a task type", "https://&lt;b&gt;nothing, http://")
	s.has("/search?find=zoe/code", "2 matches")
	s.has("/search?find=7", "the number of a task, and that of a graph")
	s.has("/search", "The field at the top finds")
	s.has("/tasks", `action="/search"`)
	if answer, _ := s.ask(http.MethodGet, "/search?find="+strings.Repeat("x", maxFind+1), nil); answer.StatusCode != http.StatusBadRequest {
		t.Error(answer.Status)
	}
	if one := read[searchData](s, "/search?find=load-git"); len(one.Found) == 0 || one.Found[0].Page != "/types/load-git" {
		t.Errorf("%+v", one)
	}
}
