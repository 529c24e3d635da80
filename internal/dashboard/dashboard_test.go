package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/testenv"
)

// hostile contains a script unless it is escaped, and characters that reorder text.
const hostile = `<script>alert("x")</script>'"&amp;` + "\u202egnp.exe"

// odd inserts unusual values, as from listers and tasks.
var odd = []string{
	`insert into task_type (type, description, backend_name, max_queue_length) values ('` + strings.ReplaceAll(hostile, "'", "''") + `', '', 'swh.odd', 10), ('load-git', '', 'swh.git', 100)`,
	`insert into task (type, arguments, next_run, status, policy) select '` + strings.ReplaceAll(hostile, "'", "''") + `', '{}', now() - interval '1 hour', 'next_run_not_scheduled', 'oneshot' from generate_series(1, 5)`,
	`insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', '` + strings.ReplaceAll(hostile, "'", "''") + `', 'x', '{}', now())`,
	`insert into scheduler_metrics (lister_id, visit_type, last_update, origins_known, origins_enabled, origins_never_visited, origins_with_pending_changes)
		select id, 'git', now(), 1234567, 9, 8, 7 from listers`,
}

// Each page without a number in its path works as HTML, JSON and fragments. HTML is below 200 kB, and its scripts and
// styles are not inline. Names are escaped.
func TestPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.Base = "/dashboard" }, odd...)
	values := regexp.MustCompile(`value="[^"]*"`) // attribute values, which aren't shown as they are
	inline := regexp.MustCompile(`(?i)<script>|<style|\son\w+=|\sstyle=|javascript:`)
	for _, p := range pages {
		if strings.Contains(p.Path, "{") || p.Path == queuePage.Path {
			continue
		}
		answer, body := s.ask(http.MethodGet, "/dashboard"+p.Path, nil)
		if answer.StatusCode != http.StatusOK || len(body) > 200_000 || inline.MatchString(body) || strings.Contains(values.ReplaceAllString(body, ""), "\u202e") {
			t.Errorf("%s: %s, %d bytes, inline: %q\n%s", p.Path, answer.Status, len(body), inline.FindString(body), body)
		}
		if policy := answer.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", p.Path, policy)
		}
		for _, address := range regexp.MustCompile(`(?:href|src|action)="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			if a := address[1]; !strings.HasPrefix(a, "/dashboard/") && !strings.HasPrefix(a, "#") {
				t.Errorf("%s leads to %s", p.Path, a)
			}
		}
		if asJSON := s.get("/dashboard"+p.Path, "Accept", "application/json"); !json.Valid([]byte(asJSON)) {
			t.Errorf("%s: %s", p.Path, asJSON)
		}
		for _, fragment := range p.Fragments {
			if part := s.get("/dashboard"+p.Path, "X-Fragment", fragment); strings.Contains(part, "<html") || !strings.Contains(body, `data-fragment="`+fragment+`"`) {
				t.Errorf("%s: fragment %s\n%s", p.Path, fragment, part)
			}
		}
	}
	for path, status := range map[string]int{
		"/dashboard/static/style.css": 200, "/dashboard/static/live.js": 200, "/dashboard/static/nope": 404, "/dashboard/nope": 404, "/dashboard": 307,
	} {
		if answer, body := s.ask(http.MethodGet, path, nil); answer.StatusCode != status {
			t.Errorf("%s: %s\n%s", path, answer.Status, body)
		}
	}
	if answer, body := s.ask(http.MethodGet, "/dashboard/nope", nil, "Accept", "application/json"); answer.StatusCode != 404 || body != "{\n \"status\": 404,\n \"error\": \"There is no page /dashboard/nope.\"\n}\n" {
		t.Error(body)
	}
	if answer, _ := s.ask(http.MethodGet, "/dashboard/", nil, "X-Fragment", "layout"); answer.StatusCode != 404 {
		t.Error("what is no fragment is shown as one")
	}
}

// If the database doesn't answer, a page is an error that says so, without the database's address.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) {
		away := testenv.OpenLocal(t, "postgresql://u:s3cret@127.0.0.1:1/x")
		o.Reads = away
	})
	answer, body := s.ask(http.MethodGet, "/", nil)
	if answer.StatusCode != 503 || !strings.Contains(body, "The database does not answer") || strings.Contains(body, "s3cret") || strings.Contains(body, "127.0.0.1") {
		t.Errorf("%s\n%s", answer.Status, body)
	}
}

// acting returns a dashboard with all kinds of login.
func acting(t *testing.T, requireLogin bool) *site {
	t.Helper()
	return newSite(t, func(o *Options) {
		o.Access = Access{
			RequireLogin: requireLogin, Users: []config.DashboardUser{Ann(), AUser("bob", "s3cret-of-bob", "", config.RoleView)},
			Proxy: config.DashboardProxy{
				Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, UserHeader: "X-User", RoleHeader: "X-Roles",
				Roles: map[string][]config.DashboardRole{"ops": {config.RoleTasks}},
			},
		}
	})
}

// logIn logs a user in, and returns the session's cookie for a request header.
func (s *site) logIn(name, password string) (cookie string) {
	s.t.Helper()
	answer, body := s.ask(http.MethodPost, "/login", url.Values{"name": {name}, "secret": {password}})
	if answer.StatusCode != http.StatusSeeOther {
		s.t.Fatalf("login of %s: %s\n%s", name, answer.Status, body)
	}
	cookie, _, _ = strings.Cut(answer.Header.Get("Set-Cookie"), ";")
	return cookie
}

// formsOf returns the form token for a session or other headers.
func (s *site) formsOf(headers ...string) string {
	s.t.Helper()
	token := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(s.get("/graphs", headers...))
	if token == nil {
		s.t.Fatalf("no form for %q", headers)
	}
	return token[1]
}

// csrfOf returns the form token of a user.
func (s *site) csrfOf(user User) string {
	s.t.Helper()
	token, err := s.Access.csrf(s.t.Context(), user, s.Reads.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

// Only users with the rights may act, and forms of other sites are refused.
func TestAccess(t *testing.T) {
	t.Parallel()
	s := acting(t, false)
	allowed := func(form url.Values, headers ...string) int {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "http://dashboard.example/x", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.RemoteAddr = "192.0.2.7:1"
		for i := 0; i < len(headers); i += 2 {
			if headers[i] == "from" {
				r.RemoteAddr = headers[i+1]
				continue
			}
			r.Header.Add(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		s.act(Action{Path: "/x", Do: func(context.Context, *Request) (string, error) { return "/", nil }}, w, r)
		return w.Code
	}
	csrf := func(name string) url.Values { return url.Values{"csrf": {s.csrfOf(User{Name: name})}} }
	session, other, looks := s.logIn("ann", "s3cret"), s.logIn("ann", "s3cret"), s.logIn("bob", "s3cret-of-bob")
	ours, others := url.Values{"csrf": {s.formsOf("Cookie", session)}}, url.Values{"csrf": {s.formsOf("Cookie", other)}}
	key, err := s.Access.sessions.FormKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	number := testenv.Value[int64](t, s.store.Pool(), "select min(id) from scheduler_go.sessions where who = 'ann'")
	old := url.Values{"csrf": {sign(key, "form", User{Name: "ann", session: number}.subject(), s.Reads.Now().Add(-time.Minute))}}
	for what, c := range map[string]struct {
		form    url.Values
		headers []string
		status  int
	}{
		"nobody":                      {csrf(""), nil, 401},
		"token":                       {nil, []string{"Authorization", "Bearer t0ken"}, 303},
		"wrong token":                 {nil, []string{"Authorization", "Bearer t0kem"}, 401},
		"the hash of the token":       {nil, []string{"Authorization", "Bearer " + string(Ann().TokenSHA256)}, 401},
		"a password as a token":       {nil, []string{"Authorization", "Bearer s3cret"}, 401},
		"basic":                       {csrf("ann"), []string{"Authorization", "Basic YW5uOnMzY3JldA=="}, 401}, // ann:s3cret
		"session":                     {ours, []string{"Cookie", session}, 303},
		"session without a form":      {nil, []string{"Cookie", session}, 403},
		"the form of another session": {others, []string{"Cookie", session}, 403},
		"a form of no session":        {csrf("ann"), []string{"Cookie", session}, 403},
		"an old form":                 {old, []string{"Cookie", session}, 403},
		"another's form":              {csrf("bob"), []string{"Cookie", session}, 403},
		"session, from another site":  {ours, []string{"Cookie", session, "Sec-Fetch-Site", "cross-site"}, 403},
		"session, of another origin":  {ours, []string{"Cookie", session, "Origin", "http://evil.example"}, 403},
		"who may look":                {csrf("bob"), []string{"Cookie", looks}, 403},
		"forged session":              {csrf("ann"), []string{"Cookie", session + "x"}, 403},
		"form as a session":           {csrf("ann"), []string{"Cookie", sessionName + "=" + s.csrfOf(User{Name: "ann"})}, 403},
		"two sessions":                {ours, []string{"Cookie", session + "; " + looks}, 403},
		"two tokens, right first":     {nil, []string{"Authorization", "Bearer t0ken", "Authorization", "Bearer t0kem"}, 401},
		"two tokens, right last":      {nil, []string{"Authorization", "Bearer t0kem", "Authorization", "Bearer t0ken"}, 401},
		"proxy, and what it was sent": {csrf("eve"), []string{"X-User", "eve", "X-Roles", "ops", "X-User", "bob"}, 401},
		"proxy, operator":             {csrf("bob"), []string{"X-User", "bob", "X-Roles", "users, ops"}, 303},
		"proxy, no operator":          {csrf("bob"), []string{"X-User", "bob", "X-Roles", "users,opsx"}, 403},
		"a stranger as if by a proxy": {csrf("bob"), []string{"X-User", "bob", "X-Roles", "ops", "from", "198.51.100.1:1"}, 403},
	} {
		if status := allowed(c.form, c.headers...); status != c.status {
			t.Errorf("%s: %d, want %d", what, status, c.status)
		}
	}
	s.has("/graphs", `name="csrf" value=""`)
}

// Only the right password begins a session. A login redirects to the page where it began, never to another site.
func TestLogin(t *testing.T) {
	t.Parallel()
	s := acting(t, true)
	if answer, _ := s.ask(http.MethodGet, "/?a=b", nil); answer.StatusCode != 303 || answer.Header.Get("Location") != "/login?next=%2F%3Fa%3Db" {
		t.Errorf("%s %s", answer.Status, answer.Header.Get("Location"))
	}
	if answer, _ := s.ask(http.MethodGet, "/", nil, "Accept", "application/json"); answer.StatusCode != 401 || answer.Header.Get("WWW-Authenticate") == "" {
		t.Error(answer.Status)
	}
	for _, form := range []url.Values{
		{"secret": {"s3cret"}}, {"name": {"ann"}, "secret": {"t0ken"}}, {"name": {"ann"}, "secret": {""}}, {}, {"name": {"token"}, "secret": {"t0ken"}},
		{"name": {"ann"}, "secret": {string(Ann().PasswordHash)}}, {"name": {"ann"}, "secret": {"s3cret" + strings.Repeat("x", 80)}}, {"name": {"ANN"}, "secret": {"s3cret"}},
	} {
		if answer, body := s.ask(http.MethodPost, "/login", form); answer.StatusCode != 401 || answer.Header.Get("Set-Cookie") != "" || strings.Contains(body, "s3cret") {
			t.Errorf("%v: %s", form, answer.Status)
		}
	}
	for next, want := range map[string]string{"/?a=b": "/?a=b", "//evil.example/": "/", "http://evil.example/": "/", `/\evil.example`: "/", "": "/"} {
		answer, _ := s.ask(http.MethodPost, "/login", url.Values{"name": {"ann"}, "secret": {"s3cret"}, "next": {next}})
		if got := answer.Header.Get("Location"); answer.StatusCode != 303 || got != want {
			t.Errorf("%s: %s to %s, want %s", next, answer.Status, got, want)
		}
		cookie := answer.Header.Get("Set-Cookie")
		if !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") {
			t.Error(cookie)
		}
		session, _, _ := strings.Cut(cookie, ";")
		if body := s.get("/", "Cookie", session); !strings.Contains(body, "<span>ann</span>") {
			t.Error(body)
		}
	}
	if answer, _ := s.ask(http.MethodPost, "/login", url.Values{"secret": {strings.Repeat("x", 20_000)}}); answer.StatusCode != 400 {
		t.Errorf("a large form of a stranger: %s", answer.Status)
	}
	s.ask(http.MethodPost, "/login", url.Values{})
	s.now.figures.mu.Lock()
	if s.now.figures.at.IsZero() {
		t.Error("a stranger has the figures read anew")
	}
	s.now.figures.mu.Unlock()
	answer, _ := s.ask(http.MethodPost, "/login", url.Values{"name": {"ann"}, "secret": {"s3cret"}}, "Sec-Fetch-Site", "cross-site")
	if answer.StatusCode != 403 {
		t.Errorf("a login from another site: %s", answer.Status)
	}
}

// An open page receives the names of its changed fragments, and no others.
func TestLive(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, odd...)
	server := httptest.NewServer(s)
	defer server.Close()
	defer s.Stop()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/", nil)
	r.Header.Set("Accept", "text/event-stream")
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	var asOf []string
	next := func() string {
		for lines.Scan() {
			if at, ok := strings.CutPrefix(lines.Text(), "data: as of "); ok {
				asOf = append(asOf, at)
				continue
			}
			if names, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return names
			}
		}
		t.Fatal("the stream has ended")
		return ""
	}
	if first := next(); !strings.Contains(first, "flow") || !strings.Contains(first, "visits") {
		t.Errorf("first %q", first)
	}
	s.exec("update task set next_run = 'infinity'")
	for {
		changed := strings.Fields(next())
		if slices.Contains(changed, "visits") {
			t.Errorf("%q have changed, but visits have not", changed)
		}
		if slices.Contains(changed, "flow") {
			break
		}
	}
	// Each reading has another time, whether the data changed or not.
	if len(asOf) < 2 || len(slices.Compact(slices.Clone(asOf))) < 2 {
		t.Errorf("the page is as of %q", asOf)
	}
	for _, at := range asOf {
		if _, err := time.Parse(time.RFC3339, at); err != nil {
			t.Error(err)
		}
	}
}
