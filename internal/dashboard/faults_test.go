package dashboard

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"swh-scheduler/celery"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// panicking is a broker whose methods panic.
type panicking struct{ broker }

func (panicking) LengthSince(context.Context, string, celery.QueueFigures, int) (celery.QueueLength, error) {
	panic("s3cret cause")
}

// A panic in the background or in a step of an action doesn't end the process. The page reports it.
func TestPanicsDontEndTheProcess(t *testing.T) {
	t.Parallel()
	s := work(t, func(o *Options) {
		o.Broker = panicking{}
		o.Revoke = func(context.Context, []string, bool) error { panic("no reply") }
	})
	for _, path := range []string{"/", "/queues"} {
		if body := s.has(path, "The queues can&#39;t be read now"); strings.Contains(body, "s3cret") {
			t.Error(body)
		}
	}
	path := s.post("/tasks", url.Values{"action": {"revoke"}, "id": {"6"}}, 303)
	testenv.Becomes(t, "the action has a result", true, func() bool { return s.change(path, db.ActionRunning).Result != "" })
	s.has(path, "panic: no reply")
}

// A page of another site whose name resolves to this host reads nothing.
func TestHosts(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for host, status := range map[string]int{
		"dashboard.example": 200, "Dashboard.Example.:5009": 200, "localhost:5009": 200, "127.0.0.1:5009": 200, "[::1]:5009": 200, "[::1]": 200,
		"evil.example": 421, "evil.example:5009": 421, "dashboard.example.evil.example": 421, "": 421, "127.0.0.1.evil.example": 421,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/static/style.css", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != status {
			t.Errorf("%q: %d, want %d", host, w.Code, status)
		}
	}
}

// After ten wrong logins, an address must wait, whatever it sends. Other addresses and existing sessions need not.
// Behind a trusted proxy, the address comes from the proxy's header.
func TestGuessesAreSlowed(t *testing.T) {
	t.Parallel()
	s := acting(t, false)
	right := url.Values{"name": {"ann"}, "secret": {"s3cret"}}
	try := func(from string, form url.Values, status int, headers ...string) {
		t.Helper()
		method := http.MethodPost
		if form == nil {
			method = http.MethodGet
		}
		r := httptest.NewRequestWithContext(t.Context(), method, "http://dashboard.example/login", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.RemoteAddr = from
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != status {
			t.Errorf("%s, %v, %v: %d, want %d", from, form, headers, w.Code, status)
		}
	}
	for n := range rpc.GuessBurst - 1 {
		try("198.51.100.1:1", url.Values{"secret": {fmt.Sprint(n)}}, 401)
	}
	try("198.51.100.1:2", url.Values{}, 401, "Authorization", "Bearer t0kem")
	try("198.51.100.1:3", right, 429)
	try("198.51.100.1:3", url.Values{"csrf": {""}}, 429, "Authorization", "Bearer t0ken")
	try("198.51.100.2:3", right, 303)
	session := s.logIn("ann", "s3cret") // from another address
	try("198.51.100.1:3", nil, 200, "Cookie", session)
	for n := range rpc.GuessBurst {
		try(fmt.Sprintf("[2001:db8::%d]:1", n), url.Values{"secret": {fmt.Sprint(n)}}, 401) // a host has many addresses
	}
	try("[2001:db8::ffff]:1", right, 429)
	for n := range rpc.GuessBurst {
		try("192.0.2.7:1", url.Values{"secret": {fmt.Sprint(n)}}, 401, "X-Forwarded-For", "203.0.113.9, 203.0.113.1")
	}
	try("192.0.2.7:1", right, 429, "X-Forwarded-For", "203.0.113.1")
	try("192.0.2.7:1", right, 303, "X-Forwarded-For", "203.0.113.1, 203.0.113.2")
}

// counting counts the readings of the page of set-aside rows.
type counting struct{ made *atomic.Int32 }

func (c counting) Tasks() []db.AsideTask {
	c.made.Add(1)
	return nil
}
func (counting) Origins() []db.AsideOrigin { return nil }
func (counting) Events() []db.AsideEvent   { return nil }
func (counting) Records() []db.AsideRecord { return nil }

// An address is read once for all its open pages, not once for each.
func TestOpenPagesShareTheirFragments(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	var made, read atomic.Int32
	p := asidePage
	p.Data = func(context.Context, *Request) (any, error) {
		read.Add(1)
		return counting{&made}, nil
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.show(p, w, r) }))
	defer server.Close()
	defer s.Stop()
	const open = 8
	var readers sync.WaitGroup
	for range open {
		readers.Go(func() {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/aside", nil)
			r.Header.Set("Accept", "text/event-stream")
			answer, err := server.Client().Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer answer.Body.Close()
			for lines, n := bufio.NewScanner(answer.Body), 0; n < 2; {
				if !lines.Scan() {
					t.Error("the stream has ended")
					return
				}
				if strings.HasPrefix(lines.Text(), "data: ") || strings.HasPrefix(lines.Text(), ": nothing") {
					n++
				}
			}
		})
	}
	readers.Wait()
	if n := made.Load(); n == 0 || n > read.Load() {
		t.Errorf("%d pages are open: what was read %d times was made %d times", open, read.Load(), n)
	}
}

// The number of parallel readings is limited, and others wait. Beyond a number of waiting readings, further ones are
// refused.
func TestReadingsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	var running, most atomic.Int32
	release := make(chan struct{})
	p := asidePage
	p.Query = []string{"n"}
	p.Data = func(context.Context, *Request) (any, error) {
		most.Store(max(most.Load(), running.Add(1))) // none ends meanwhile
		<-release
		return db.Aside{}, nil
	}
	get := func(n int) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://dashboard.example/aside?n=%d", n), nil)
		w := httptest.NewRecorder()
		s.show(p, w, r)
		return w.Code
	}
	var all sync.WaitGroup
	for n := range maxAsked {
		all.Go(func() {
			if status := get(n); status != 200 {
				t.Errorf("a page that waits gets %d", status)
			}
		})
	}
	testenv.Becomes(t, "those that are read or wait, and of these are read", [2]int{maxAsked, maxReadings}, func() [2]int {
		return [2]int{len(s.asked), int(running.Load())}
	})
	if status := get(maxAsked); status != 503 {
		t.Errorf("one too many gets %d", status)
	}
	if answer, _ := s.ask(http.MethodGet, "/login", nil); answer.StatusCode != 200 {
		t.Errorf("who wants to log in meanwhile gets %s", answer.Status)
	}
	if n := most.Load(); n > maxReadings {
		t.Errorf("%d pages are read at a time", n)
	}
	close(release)
	all.Wait()
}

// A page doesn't read a large graph, and the list counts only some of its tasks.
func TestLargeGraphs(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil,
		"insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git')",
		"insert into task (type, arguments, next_run, status, policy) select 'load-git', '{}', scheduler_go.never(), 'next_run_not_scheduled', 'oneshot' from generate_series(1, 5005) n",
		"insert into scheduler_go.graphs (name, submitted) values ('large', now()), ('dense', now()), ('small', now())",
		"insert into scheduler_go.graph_tasks (graph, task, name, any_result, dependencies) select case when n <= 5001 then 1 when n <= 5003 then 2 else 3 end, n, 'n' || n, false, case when n in (5002, 5003) then 10001 else 0 end from generate_series(1, 5005) n",
		"insert into scheduler_go.graph_edges (task, depends_on) select 5002 + n % 2, 1000000 + n from generate_series(1, 20001) n",
	)
	for _, path := range []string{"/graphs/1", "/graphs/2"} {
		if body := s.has(path, "too many tasks", "swh-scheduler task graph status"); strings.Contains(body, "<svg") || len(body) > 20_000 {
			t.Errorf("%s has %d bytes", path, len(body))
		}
	}
	s.has("/graphs/3", "<svg", "0 of 2 tasks have ended")
	s.has("/graphs", "the last 200", ">small<")
	if body := s.has("/graphs?name=arg", ">large<"); strings.Contains(body, ">small<") {
		t.Error(body)
	}
	s.exec("delete from scheduler_go.graph_tasks where graph = 1 and task > 200")
	if body := s.has("/graphs?name=large", `<td class="n">200</td>`); strings.Contains(body, "the last 200<") {
		t.Error("all 200 tasks of a graph are said to be the last ones")
	}
	// Of a long critical path, the page shows the beginning.
	s.exec("insert into scheduler_go.graph_edges (task, depends_on) select n, n - 1 from generate_series(2, 200) n",
		"insert into scheduler_go.run_durations (run, type, runtime, recorded) select n, 'load-git', 60, now() from generate_series(1, 20) n")
	body := s.has("/graphs/1", "Without 150 other tasks.", "It takes 3 h 20 min from now on.")
	if n := strings.Count(body, "<title>expected"); n != 50 {
		t.Errorf("%d tasks of the critical path are shown", n)
	}
}

// If only seconds have passed, an open page of a graph receives no update, not even its picture.
func TestUnchangedGraphsSendNoUpdates(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil,
		"insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git')",
		"insert into task (type, arguments, next_run, status, policy) select 'load-git', '{}', scheduler_go.never(), 'next_run_not_scheduled', 'oneshot' from generate_series(1, 3)",
		"insert into scheduler_go.graphs (name, submitted) values ('slow', now() - interval '84 hours')",
		"insert into scheduler_go.graph_tasks (graph, task, name, any_result, dependencies) select 1, n, 'n' || n, false, 0 from generate_series(1, 3) n",
		"insert into scheduler_go.graph_edges (task, depends_on) values (2, 1), (3, 2)",
		"insert into scheduler_go.run_durations (run, type, runtime, recorded) select n, 'load-git', 100000, now() from generate_series(1, 20) n",
	)
	begin := s.Reads.Now().Truncate(time.Minute)
	last := map[string]string{}
	for _, after := range []time.Duration{0, 2 * time.Second, 59 * time.Second} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/graphs/1", nil)
		r.SetPathValue("id", "1")
		data, err := graph(t.Context(), &Request{Request: r, Dashboard: s.Dashboard, Now: begin.Add(after)})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range graphPage.Fragments {
			html, err := s.fragment(graphPage, &reading{data: data}, fragment{name: name})
			if err != nil {
				t.Fatal(err)
			}
			if after > 0 && string(html) != last[name] {
				t.Errorf("%s has changed after %s:\n%s\n%s", name, after, last[name], html)
			}
			last[name] = string(html)
		}
	}
	if !strings.Contains(last["steps"], "<svg") || strings.Count(last["path"], "<title>expected") != 3 || strings.Contains(last["steps"], `class="expected"`) {
		t.Errorf("%q", last)
	}
}

// A search for graphs by state uses the last tasks of each graph.
func TestGraphsByState(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil,
		"insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git')",
		`insert into task (type, arguments, next_run, status, policy)
			select 'load-git', '{}', now(), (array['completed', 'completed', 'disabled', 'completed', 'next_run_scheduled', 'disabled'])[n]::task_status, 'oneshot' from generate_series(1, 6) n`,
		"insert into scheduler_go.graphs (name, submitted, cancelled) values ('ended', now(), null), ('broken', now(), null), ('under way', now(), null), ('dropped', now(), now())",
		"insert into scheduler_go.graph_tasks (graph, task, name, any_result, dependencies) select (array[1, 1, 2, 3, 3, 4])[n], n, 'n' || n, false, 0 from generate_series(1, 6) n",
	)
	names := []string{"ended", "broken", "under way", "dropped"}
	for state, want := range map[string]string{"completed": "ended", "failed": "broken", "open": "under way", "cancelled": "dropped"} {
		body := s.has("/graphs?state="+state, ">"+want, "<option selected>"+state+"</option>")
		for _, name := range names {
			if name != want && strings.Contains(body, "<td>"+name) {
				t.Errorf("%s is among those that are %s", name, state)
			}
		}
	}
	if answer, _ := s.ask(http.MethodGet, "/graphs?state=odd", nil); answer.StatusCode != 400 {
		t.Error(answer.Status)
	}
}

// One address can't use all event streams. If its page was refused because others waited, its next request succeeds.
func TestOneAddressDoesNotUseAllStreams(t *testing.T) {
	t.Parallel()
	var s streams
	one := netip.MustParsePrefix("192.0.2.1/32")
	for range maxFromOne {
		if !s.open(one) {
			t.Fatal("a stream is refused")
		}
	}
	if s.open(one) {
		t.Error("one address has too many streams")
	}
	for n := range maxStreams - maxFromOne {
		if !s.open(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), 32)) {
			t.Fatal("others have no room")
		}
	}
	other := netip.MustParsePrefix("192.0.2.2/32")
	if s.open(other) {
		t.Error("there are too many streams")
	}
	s.close(one)
	if !s.open(other) {
		t.Error("a stream that was closed holds its place")
	}
}

// Only a waiting reader receives the error for too many readings; later readers don't.
func TestRefusedReadingsAreNotShared(t *testing.T) {
	t.Parallel()
	var s shared
	busy := true
	read := func(context.Context) (any, error) {
		if busy {
			return nil, errBusy
		}
		return 7, nil
	}
	if _, err := s.of(t.Context(), "/", read); err != errBusy {
		t.Error(err)
	}
	busy = false
	if r, err := s.of(t.Context(), "/", read); err != nil || r.data != 7 {
		t.Error(err)
	}
}

// Metrics count responses, failures and steps of actions.
func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	s := work(t, func(o *Options) { o.Metrics = registry })
	s.get("/tasks/6")
	s.get("/tasks/7")
	s.ask(http.MethodGet, "/tasks/999", nil)
	s.ask(http.MethodPost, "/login", url.Values{})
	s.ask(http.MethodGet, "/no-page", nil, "Authorization", "Bearer guess")
	s.change(s.post("/tasks", url.Values{"action": {"respawn"}, "id": {"6"}}, 303), db.ActionDone)
	testenv.Becomes(t, "lines that are missing", "", func() (missing string) {
		w := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		for _, line := range []string{
			`swh_scheduler_dashboard_page_seconds_count{page="/tasks/{id}"} 3`, `swh_scheduler_dashboard_errors_total{status="4xx"} 3`,
			`swh_scheduler_dashboard_errors_total{status="5xx"} 0`, "swh_scheduler_dashboard_refused_logins_total 2", "swh_scheduler_dashboard_actions 0",
			`swh_scheduler_dashboard_steps_total{result="done"} 1`, `swh_scheduler_dashboard_steps_total{result="failed"} 0`,
		} {
			if !strings.Contains(w.Body.String(), line+"\n") {
				missing += line + "\n"
			}
		}
		if missing != "" {
			missing += "are not in\n" + w.Body.String()
		}
		return missing
	})
}
