package dashboard

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
	"swh-scheduler/sql/sessions"
)

// replica returns another process's dashboard of the same database, with its own users.
func (s *site) replica(users ...config.DashboardUser) *site {
	s.t.Helper()
	other := *s
	o := s.Options
	o.Access = Access{Hosts: s.Access.Hosts, RequireLogin: s.Access.RequireLogin, Users: users, Proxy: s.Access.Proxy}
	var err error
	if other.Dashboard, err = New(o); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(other.Stop)
	other.Patient()
	return &other
}

// is checks on all sites whether a cookie has a valid session.
func is(t *testing.T, what, cookie string, want bool, sites ...*site) {
	t.Helper()
	status := map[bool]int{true: http.StatusOK, false: http.StatusUnauthorized}[want]
	for i, s := range sites {
		if answer, _ := s.ask(http.MethodGet, "/tasks", nil, "Cookie", cookie, "Accept", "application/json"); answer.StatusCode != status {
			t.Errorf("%s, on dashboard %d: %s, want %d", what, i, answer.Status, status)
		}
	}
}

// All processes share a session until its user logs out at one of them, or an operator ends it. Then a stolen cookie is
// useless, and open pages receive no updates.
func TestStolenSessions(t *testing.T) {
	t.Parallel()
	s := acting(t, true)
	s.userTime = 0
	other := s.replica(Ann())
	cookie := s.logIn("ann", "s3cret")
	forms := s.formsOf("Cookie", cookie)
	is(t, "a session", cookie, true, s, other)
	server := httptest.NewServer(s)
	defer server.Close()
	defer s.Stop()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Cookie", cookie)
	stream, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if stream.StatusCode != http.StatusOK {
		t.Fatal(stream.Status)
	}
	if answer, _ := other.ask(http.MethodPost, "/logout", url.Values{}, "Cookie", cookie); answer.StatusCode != http.StatusSeeOther || !strings.Contains(answer.Header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("logout: %s, %v", answer.Status, answer.Header)
	}
	is(t, "after logout", cookie, false, s, other)
	for lines := bufio.NewScanner(stream.Body); lines.Scan(); { // until the server ends the stream
	}
	form := url.Values{"csrf": {forms}, "action": {"disable"}, "id": {"1"}}
	if answer, _ := s.ask(http.MethodPost, "/tasks", form, "Cookie", cookie); answer.StatusCode != http.StatusForbidden {
		t.Errorf("an action after logout: %s", answer.Status)
	}
	if answer, _ := other.ask(http.MethodPost, "/logout", url.Values{}, "Cookie", cookie); answer.StatusCode != http.StatusSeeOther {
		t.Errorf("a second logout: %s", answer.Status)
	}

	store := sessions.New(s.store.DB)
	cookie, again, bobs := s.logIn("ann", "s3cret"), s.logIn("ann", "s3cret"), s.logIn("bob", "s3cret-of-bob")
	if n, err := store.EndSome(t.Context(), nil, []string{"ann"}); n != 2 || err != nil {
		t.Error(n, err)
	}
	is(t, "ended by an operator", cookie, false, s, other)
	is(t, "ended by an operator, too", again, false, s, other)
	is(t, "another's", bobs, true, s)
	cookie = s.logIn("ann", "s3cret")
	s.exec("update scheduler_go.sessions set ends = now() where who = 'ann'")
	is(t, "after its time", cookie, false, s, other)
}

// If a user is removed or the password changes, the user's sessions end in all processes. The user's rights are those of
// the current configuration.
func TestSessionsEndWithTheirPassword(t *testing.T) {
	t.Parallel()
	s := acting(t, true)
	ann := Ann()
	cookie := s.logIn("ann", "s3cret")
	less := ann
	less.Roles = []config.DashboardRole{config.RoleView}
	looking := s.replica(less)
	is(t, "with other roles", cookie, true, looking)
	if page := looking.get("/graphs", "Cookie", cookie); !strings.Contains(page, "ann (may look)") || !strings.Contains(page, `name="csrf" value=""`) {
		t.Error("who may look has a form")
	}
	is(t, "with another password", cookie, false, s.replica(AUser("ann", "s3cret", "", ann.Roles...)), s) // another hash of the same password
	cookie = s.logIn("ann", "s3cret")
	is(t, "without the user", cookie, false, s.replica(AUser("bob", "x", "")), s)
	cookie = s.logIn("ann", "s3cret")
	token := ann
	token.PasswordHash = ""
	is(t, "without the password", cookie, false, s.replica(token, AUser("bob", "x", "")), s)
}

// A cookie that this dashboard hasn't signed is no session, and needs no query.
func TestForgedSessions(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	proxied, sent := testenv.Statements(t, dsn)
	store := testenv.OpenLocal(t, proxied, postgres.Options{Command: "dashboard"})
	d, err := New(Options{
		Reads: store, Acts: store, Config: config.Default(), Version: "test", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Access: Access{RequireLogin: true, Hosts: []string{"dashboard.example"}, Users: []config.DashboardUser{Ann()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	s := &site{Dashboard: d, t: t, dsn: dsn, store: store}
	cookie := s.logIn("ann", "s3cret")
	is(t, "a session", cookie, true, s)
	if !slices.ContainsFunc(sent(), func(statement string) bool { return strings.Contains(statement, "name: Session ") }) {
		t.Error("the test doesn't see that a session is looked for")
	}
	name, value, _ := strings.Cut(cookie, "=")
	raw, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil || len(raw) != 64 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	forged := []string{"", "x", value[:43], value + "A", value + "==", strings.Repeat("A", len(value)), strings.Repeat("A", 100_000), "0x", "%00", base64.RawURLEncoding.EncodeToString(raw[:32]), base64.RawURLEncoding.EncodeToString(raw[:33])}
	for at := range raw {
		raw[at] ^= 1
		forged = append(forged, base64.RawURLEncoding.EncodeToString(raw))
		raw[at] ^= 1
	}
	for _, f := range forged {
		is(t, f[:min(len(f), 90)], name+"="+f, false, s)
	}
	for _, statement := range sent() {
		if strings.Contains(statement, "name: Session ") {
			t.Fatal("a forged session is looked for in the database")
		}
	}
	is(t, "two", cookie+"; "+cookie, false, s)
	is(t, "the session itself, still", cookie, true, s)
}

// A login begins a new session and ends the request's one. So an attacker who sets a victim's cookie doesn't share the
// victim's session. Over TLS, another host of the domain can't set the cookie.
func TestFixedSessions(t *testing.T) {
	t.Parallel()
	s := acting(t, true)
	attackers := s.logIn("bob", "s3cret-of-bob")
	logIn := func(headers ...string) *http.Cookie {
		t.Helper()
		answer, body := s.ask(http.MethodPost, "/login", url.Values{"name": {"ann"}, "secret": {"s3cret"}}, headers...)
		if answer.StatusCode != http.StatusSeeOther || len(answer.Cookies()) != 1 {
			t.Fatalf("%s\n%s", answer.Status, body)
		}
		return answer.Cookies()[0]
	}
	mine := logIn("Cookie", attackers)
	if mine.Name+"="+mine.Value == attackers {
		t.Error("the login took up a session")
	}
	is(t, "the attacker's", attackers, false, s)
	is(t, "mine", mine.Name+"="+mine.Value, true, s)
	if c := logIn("Cookie", sessionName+"=chosen"); c.Value == "chosen" {
		t.Error("the login took up a made-up session")
	}
	if answer, _ := s.ask(http.MethodPost, "/login", url.Values{"name": {"bob"}, "secret": {"s3cret-of-bob"}}, "Origin", "https://evil.example"); answer.StatusCode != http.StatusForbidden {
		t.Errorf("another site logs its visitor in as somebody else: %s", answer.Status)
	}

	secure := logIn("X-Forwarded-Proto", "https")
	if secure.Name != "__Host-"+sessionName || !secure.Secure || secure.Path != "/" || secure.Domain != "" || !secure.HttpOnly || secure.SameSite != http.SameSiteStrictMode {
		t.Errorf("over TLS: %+v", secure)
	}
	for _, c := range []struct {
		cookie string
		status int
	}{{secure.Name + "=" + secure.Value, 200}, {sessionName + "=" + secure.Value, 401}, {sessionName + "=" + mine.Value, 401}} {
		if answer, _ := s.ask(http.MethodGet, "/tasks", nil, "Cookie", c.cookie, "X-Forwarded-Proto", "https", "Accept", "application/json"); answer.StatusCode != c.status {
			t.Errorf("over TLS, %s: %s, want %d", c.cookie[:30], answer.Status, c.status)
		}
	}
}

// Two passwords are checked in parallel. Other logins wait, and after five seconds they are refused. The check takes the
// same time for unknown users.
func TestPasswordChecksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ann := Ann()
		p := newPasswordChecks([]config.DashboardUser{{Name: "script"}, ann})
		for password, want := range map[string]bool{"s3cret": true, "s3creT": false, "": false, strings.Repeat("s3cret", 100): false} {
			if right, err := p.isOf(t.Context(), ann, password); right != want || err != nil {
				t.Errorf("%q: %v, %v", password, right, err)
			}
		}
		unknown := config.DashboardUser{}
		for _, password := range []string{"s3cret", "", "nobody's"} {
			if right, err := p.isOf(t.Context(), unknown, password); right || err != nil {
				t.Errorf("%q of nobody: %v, %v", password, right, err)
			}
		}
		if !p.decoy.Matches("s3cret") {
			t.Error("a password of nobody is not checked as long as one of somebody")
		}
		for range maxChecks {
			p.running <- struct{}{}
		}
		began := time.Now()
		if _, err := p.isOf(t.Context(), ann, "s3cret"); !errors.Is(err, errBusy) || time.Since(began) != checkWait {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, err := p.isOf(ctx, ann, "s3cret"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// For each role: all operations, on the page and by a form, and confirming and cancelling actions.
func TestRightsByRole(t *testing.T) {
	t.Parallel()
	roles := map[string][]config.DashboardRole{
		"view": {config.RoleView}, "tasks": {config.RoleTasks}, "graphs": {config.RoleGraphs}, "tasks and terminate": {config.RoleTasks, config.RoleTerminate},
		"graphs and terminate": {config.RoleGraphs, config.RoleTerminate}, "all": {config.RoleTasks, config.RoleGraphs, config.RoleTerminate},
	}
	var users []config.DashboardUser
	for name, of := range roles {
		users = append(users, AUser(name, "", "token of "+name, of...))
	}
	s := work(t, func(o *Options) { o.Access.Users = users })
	may := func(name string, needs ...config.DashboardRole) bool {
		return !slices.ContainsFunc(needs, func(role config.DashboardRole) bool { return !slices.Contains(roles[name], role) })
	}
	needed := map[string][]config.DashboardRole{"retry graph": {config.RoleGraphs}, "cancel graph": {config.RoleGraphs}, "cancel graph terminate": {config.RoleGraphs, config.RoleTerminate}, "revoke terminate": {config.RoleTasks, config.RoleTerminate}}
	for path, operations := range map[string][]operation{"/tasks": taskOperations, "/graphs": graphOperations} {
		for _, o := range operations {
			needs := needed[o.Word]
			if needs == nil {
				needs = []config.DashboardRole{config.RoleTasks}
			}
			for name := range roles {
				want := map[bool]int{true: http.StatusSeeOther, false: http.StatusForbidden}[may(name, needs...)]
				form := url.Values{"action": {o.Word}, "id": {"9999"}}
				if answer, body := s.ask(http.MethodPost, path, form, "Authorization", "Bearer token of "+name); answer.StatusCode != want {
					t.Errorf("%s, %s: %s, want %d\n%s", name, o.Word, answer.Status, want, body)
				}
				if shown := strings.Contains(s.get(path, "Authorization", "Bearer token of "+name), `<option value="`+o.Word+`"`); shown != may(name, needs...) {
					t.Errorf("%s, %s: the page offers it: %v", name, o.Word, shown)
				}
			}
		}
	}
	answer, _ := s.ask(http.MethodPost, "/tasks", url.Values{"action": {"revoke terminate"}, "id": {"6"}}, "Authorization", "Bearer token of all")
	path := answer.Header.Get("Location")
	s.change(path, db.ActionCounted)
	for _, c := range []struct {
		name   string
		status int
	}{{"view", 403}, {"graphs and terminate", 403}, {"tasks", 403}, {"tasks and terminate", 303}} {
		for _, do := range []string{"/confirm", "/cancel"} {
			if offered := strings.Contains(s.get(path, "Authorization", "Bearer token of "+c.name), path+do); offered != (c.status == 303) {
				t.Errorf("%s: the page offers %s: %v", c.name, do, offered)
			}
			if do == "/confirm" && c.status == 303 {
				continue
			}
			if answer, _ := s.ask(http.MethodPost, path+do, url.Values{}, "Authorization", "Bearer token of "+c.name); answer.StatusCode != c.status {
				t.Errorf("%s, %s: %s, want %d", c.name, do, answer.Status, c.status)
			}
		}
	}
	s.has(path, "Cancelled by tasks and terminate, 192.0.2.1")
}

// The audit has each action's user, address, effect, number of objects and confirmation. Behind a trusted proxy, the
// address comes from its header.
func TestAudit(t *testing.T) {
	t.Parallel()
	s := work(t, func(o *Options) {
		o.Access.Users = append(o.Access.Users, AUser("bob", "", "bob's", config.RoleTasks))
		o.Access.Proxy = config.DashboardProxy{Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	})
	ask := func(path string, form url.Values, token, from string) string {
		t.Helper()
		answer, body := s.ask(http.MethodPost, path, form, "Authorization", "Bearer "+token, "X-Forwarded-For", "203.0.113.66, "+from)
		if answer.StatusCode != http.StatusSeeOther {
			t.Fatalf("%s\n%s", answer.Status, body)
		}
		return answer.Header.Get("Location")
	}
	path := ask("/tasks", url.Values{"action": {"disable"}, "scope": {"all"}, "filter": {"type=load-git&status=disabled"}}, "t0ken", "198.51.100.7")
	s.change(path, db.ActionCounted)
	ask(path+"/confirm", url.Values{}, "bob's", "2001:db8::7")
	a := s.change(path, db.ActionDone)
	if a.Who != "ann" || a.Address != "198.51.100.7" || a.Action != "disable" || a.Matched != 120 || a.Changed != 120 || a.ConfirmedBy != "bob, 2001:db8::7" || a.CancelledBy != "" {
		t.Errorf("%+v", a)
	}
	s.has(path, "by ann from 198.51.100.7", "Confirmed by bob, 2001:db8::7")
	s.has("/audit", "<td>ann</td><td>198.51.100.7</td>")
}

// A user has at most ten sessions, however many logins there are.
func TestFloodOfSessions(t *testing.T) {
	t.Parallel()
	s := acting(t, true)
	first := s.logIn("ann", "s3cret")
	bobs := s.logIn("bob", "s3cret-of-bob")
	var last string
	for range 3 * sessions.MaxPerUser {
		last = s.logIn("ann", "s3cret")
	}
	if n := s.count("scheduler_go.sessions"); n != sessions.MaxPerUser+1 {
		t.Errorf("%d rows", n)
	}
	is(t, "the oldest", first, false, s)
	is(t, "the newest", last, true, s)
	is(t, "another's", bobs, true, s)
	if n := s.count(fmt.Sprintf("scheduler_go.sessions where ends > now() + interval '%d seconds'", int(sessionTime.Seconds()))); n != 0 {
		t.Errorf("%d sessions last longer than %s", n, sessionTime)
	}
}

// If the database is away, a page says so. Valid sessions don't count as invalid.
func TestSessionsWithoutDatabase(t *testing.T) {
	t.Parallel()
	s := acting(t, true)
	cookie := s.logIn("ann", "s3cret")
	away := testenv.OpenLocal(t, "postgresql://u:s3cret@127.0.0.1:1/x")
	s.Access.sessions = sessions.New(away.DB)
	for i := range 2 {
		answer, body := s.ask(http.MethodGet, "/tasks", nil, "Cookie", cookie)
		if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Set-Cookie") != "" || strings.Contains(body, "127.0.0.1") {
			t.Errorf("%d: %s\n%s", i, answer.Status, body)
		}
		if answer, _ := s.ask(http.MethodPost, "/login", url.Values{"name": {"ann"}, "secret": {"s3cret"}}); answer.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a login: %s", answer.Status)
		}
	}
}
