package rpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/testenv"
)

// These tests stand behind the table of attacks in docs/devel/attacks.md.

// dial opens a connection to a server and sends text.
func dial(t *testing.T, url, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Connections with slow headers or bodies are closed. Other calls are answered meanwhile, and a call that takes
// longer than its body may take continues.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	const patience = 2 * time.Second // the call beside them must not look slow on a loaded machine
	url := serve(t, dsn, func(o *Options) { o.headerTime, o.smallTime = patience, patience })
	var slow []net.Conn
	for range 50 {
		slow = append(slow, dial(t, url, "POST /task_type/get_all HTTP/1.1\r\nHost: x\r\n"),
			dial(t, url, "POST /task_type/get_all HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"))
	}
	if response, _ := post(t, url+"/task_type/get_all", mimeMsgpack, nil); response.StatusCode != http.StatusOK {
		t.Errorf("a call beside: %s", response.Status)
	}
	for i, conn := range slow {
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
		if answer, err := io.ReadAll(conn); err != nil || bytes.Contains(answer, []byte("200 OK")) {
			t.Fatalf("slow connection %d: %q, %v; want it closed", i, answer, err)
		}
	}

	store := openStore(t, dsn)
	tx := testenv.Begin(t, store.Pool())
	testenv.Exec(t, tx, "lock table task_type in access exclusive mode")
	released := make(chan error)
	go func() {
		time.Sleep(patience + patience/4)
		released <- tx.Rollback(context.WithoutCancel(t.Context()))
	}()
	if response, body := post(t, url+"/task_type/get_all", mimeMsgpack, []byte("\x80")); response.StatusCode != http.StatusOK {
		t.Errorf("a long call: %s %q", response.Status, body)
	}
	if err := <-released; err != nil {
		t.Error(err)
	}
}

// A new connection replaces the one that has been idle longest, or has not sent a request yet. A connection in the
// middle of a call stays.
func TestIdleConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	const most = 8
	url := serve(t, dsn, func(o *Options) { o.mostOpen = most })
	store := openStore(t, dsn)
	tx := testenv.Begin(t, store.Pool())
	testenv.Exec(t, tx, "lock table task_type in access exclusive mode")
	const call = "POST /task_type/get_all HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
	busy := dial(t, url, call)
	awaitCalls(t, tx, 1)
	answer := func(conn net.Conn) error {
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil && response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		return err
	}
	var idle []net.Conn
	for i := range 6 * most { // many more than are looked at, as one is idle only a moment after its answer
		text := ""
		if i%2 == 0 {
			text = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
		}
		idle = append(idle, dial(t, url, text))
		if text != "" {
			if err := answer(idle[i]); err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
		}
	}
	for i, conn := range idle[:2*most] {
		if i%2 > 0 {
			continue // it sent nothing, for which it is closed anyhow
		}
		_ = conn.SetReadDeadline(time.Now().Add(idleTimeout / 2))
		if _, err := conn.Read(make([]byte, 4096)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d of %d is still open: %v", i, len(idle), err)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := answer(busy); err != nil {
		t.Errorf("the call that took long: %v", err)
	}
}

// Concurrent calls are bounded. Further calls get a response that asks for a retry.
func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRoom(1, 1, time.Millisecond)
	for range maxCalls {
		if err := (&share{room: r}).enter(); err != nil {
			t.Fatal(err)
		}
	}
	if err := (&share{room: r}).enter(); err == nil || err.(*exception).status != http.StatusServiceUnavailable {
		t.Errorf("one more: %v", err)
	}
}

// The decoded values of all bodies share a bound: a byte may become a value of 40 bytes. A body waits for the room
// of its largest possible values, and then keeps the room of its actual ones.
func TestValuesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRoom(1<<20, 1, time.Millisecond)
	// Each list takes as many values as bytes, but for its head.
	hoard := append([]byte{0xdd, 0, 0, 0xff, 0}, bytes.Repeat([]byte{0x90}, 0xff00)...)
	calls := []*share{}
	for {
		c := &share{room: r}
		_, err := c.decode(t.Context(), hoard, readMsgpack)
		if err != nil {
			if err.(*exception).status != http.StatusServiceUnavailable {
				t.Error(err)
			}
			break
		}
		if calls = append(calls, c); len(calls) > maxSmallValues {
			t.Fatal("no bound")
		}
	}
	if most := maxSmallValues / 0xff00; len(calls) != most {
		t.Errorf("%d bodies were read, want %d", len(calls), most)
	}
	// Others of another size go on, and it is given back.
	if _, err := (&share{room: r}).decode(t.Context(), append(bytes.Repeat([]byte{' '}, smallBody), "{}"...), readJSON); err != nil {
		t.Errorf("a large body with few values: %v", err)
	}
	for _, c := range calls {
		c.leave()
	}
	if !r.smallValues.TryAcquire(maxSmallValues) || !r.largeValues.TryAcquire(int64(defaultLimits.values)-1) {
		t.Error("the room was not given back")
	}
}

// A tiny body overtakes those that wait for room for their values.
func TestTinyBodiesPass(t *testing.T) {
	t.Parallel()
	r := newRoom(1, 1, time.Minute)
	if err := r.reserve(t.Context(), r.smallValues, maxSmallValues-tinyBody); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	waits := make(chan error)
	go func() {
		_, err := (&share{room: r}).decode(ctx, bytes.Repeat([]byte{' '}, tinyBody+1), readJSON)
		waits <- err
	}()
	testenv.Becomes(t, "room for one more value", false, func() bool {
		free := r.smallValues.TryAcquire(1) // not while somebody waits
		if free {
			r.smallValues.Release(1)
		}
		return free
	})
	tiny, passing := &share{room: r}, make(chan error, 1)
	go func() {
		_, err := tiny.decode(ctx, append([]byte("{}"), bytes.Repeat([]byte{' '}, tinyBody-2)...), readJSON)
		passing <- err
	}()
	select {
	case err := <-passing:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("a tiny body waits")
	}
	tiny.leave()
	stop()
	if err := <-waits; err == nil {
		t.Error("there was room")
	}
}

// A response with too large rows is refused before all are in memory, as is one without room beside others.
// Nothing is marked as scheduled.
func TestLargeRows(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	url := serve(t, dsn, func(o *Options) { o.MaxAnswer = 1 << 20 })
	store := openStore(t, dsn)
	for _, statement := range []string{
		"insert into task_type (type, description, backend_name) values ('t', '', 't')",
		`insert into task (type, arguments, next_run, current_interval, status) select 't', jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('x', repeat('x', 100000))), '2020-01-01', '1 day', 'next_run_not_scheduled' from generate_series(1, 30)`,
		`insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'l', 'i', '{}', now())`,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
			select '00000000-0000-0000-0000-000000000001', 'https://' || n, 't', jsonb_build_object('x', repeat('x', 100000)), true, now(), now() from generate_series(1, 30) n`,
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	for path, arguments := range map[string]string{
		"task/search": `"task_type": "t"`, "task/peek_ready": `"task_type": "t"`, "task/grab_ready": `"task_type": "t"`, "origins/get": `"limit": 30`,
		"origins/grab_next": `"visit_type": "t", "count": 30, "policy": "never_visited_oldest_update_first"`,
	} {
		response, body := post(t, url+"/"+path, mimeJSON, []byte("{"+arguments+"}"))
		if response.StatusCode != http.StatusRequestEntityTooLarge || !bytes.Contains(body, []byte("ask for fewer")) || len(body) > 10000 {
			t.Errorf("%s: %s %.200q", path, response.Status, body)
		}
	}
	if marked := testenv.Value[int](t, store.Pool(), `select (select count(*) from task where status = 'next_run_scheduled')
		+ (select count(*) from origin_visit_stats where last_scheduled is not null)`); marked > 0 {
		t.Errorf("%d tasks and origins are marked as scheduled", marked)
	}
	if response, body := post(t, url+"/task/search", mimeJSON, []byte(`{"task_type": "t", "limit": 5}`)); response.StatusCode != http.StatusOK {
		t.Errorf("few large rows: %s %.200q", response.Status, body)
	}
	r := newRoom(1, 1<<20, time.Millisecond)
	first, second := &share{room: r, most: 1 << 20}, &share{room: r, most: 1 << 20}
	if err := first.grow(1<<19 + 1); err != nil {
		t.Fatal(err)
	}
	if err := second.grow(1<<19 + 1); err == nil || err.(*exception).status != http.StatusServiceUnavailable {
		t.Errorf("beside another: %v", err)
	}
	second.leave()
	first.leave()
	if !r.answers.TryAcquire(1 << 20) {
		t.Error("the room was not given back")
	}
}

// A call from a page in a browser is refused, whatever host name the page uses for our address. So is a change
// without a content type, which such a page could send without a preflight.
func TestBrowsersAreRefused(t *testing.T) {
	t.Parallel()
	url := serve(t, testenv.Database(t))
	for _, tc := range []struct {
		path, contentType string
		header            []string
		status            int
	}{
		{"/task_type/get_all", mimeJSON, []string{"Origin", "https://evil.example"}, http.StatusForbidden},
		{"/task_type/get_all", mimeJSON, []string{"Origin", url}, http.StatusForbidden},
		{"/task_type/get_all", "", nil, http.StatusOK},
		{"/scheduler_metrics/update", "", nil, http.StatusUnsupportedMediaType},
		{"/scheduler_metrics/update", "text/plain", nil, http.StatusUnsupportedMediaType},
		{"/scheduler_metrics/update", mimeMsgpack, nil, http.StatusOK},
		{"/scheduler_metrics/update", mimeJSON + "; charset=utf-8", nil, http.StatusOK},
	} {
		if response, body := post(t, url+tc.path, tc.contentType, nil, tc.header...); response.StatusCode != tc.status {
			t.Errorf("%+v: %s %q", tc, response.Status, body)
		}
	}
}

// Without credentials, no spelling of a path or a host reaches more than the health checks.
func TestStolenPaths(t *testing.T) {
	t.Parallel()
	url := serve(t, testenv.Database(t), func(o *Options) { o.Credentials = Credentials{Token: "t0ken"} })
	for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "PUT"} {
		for _, path := range []string{
			"//task_type/get_all", "/healthz/../task_type/get_all", "/healthz/%2e%2e/task_type/get_all", "/%74ask_type/get_all", "/readyz%2f..%2ftask_type/get_all",
			"/task_type//get_all", "/./metrics", "/metrics/", "/healthz/metrics", "/healthz;/metrics", "/HEALTHZ", "http://other.example/metrics", "/metrics?x=/healthz", "*",
		} {
			for _, host := range []string{"x", "localhost", "healthz", "[::1]:99999", "evil.example/healthz"} {
				conn := dial(t, url, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", method, path, host))
				_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
				request, _ := http.NewRequest(method, "/", nil)
				response, err := http.ReadResponse(bufio.NewReader(conn), request)
				if err != nil {
					t.Errorf("%s %s, host %s: %v", method, path, host, err)
					continue
				}
				_ = response.Body.Close()
				_ = conn.Close()
				if response.StatusCode == http.StatusOK && (method != "OPTIONS" || path != "*") {
					t.Errorf("%s %s, host %s: %s", method, path, host, response.Status)
				}
			}
		}
	}
}

// A request with several Authorization headers is refused: a proxy may have checked another one than the server
// would.
func TestTwoAuthorizations(t *testing.T) {
	t.Parallel()
	url := serve(t, testenv.Database(t), func(o *Options) {
		o.Clients = []config.Client{withToken("reader", config.RoleReader), withToken("operator", config.RoleOperator)}
	})
	for _, headers := range [][]string{
		{"Bearer " + tokenOf("reader"), "Bearer " + tokenOf("operator")}, {"Bearer " + tokenOf("reader"), "Bearer wrong"},
		{"Bearer wrong", "Bearer " + tokenOf("reader")}, {"", "Bearer " + tokenOf("reader")}, {"Bearer " + tokenOf("reader"), ""},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/task_type/get_all", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header["Authorization"] = headers
		if response, _ := do(t, request); response.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: %s", headers, response.Status)
		}
	}
}

// deadlines notes until when an answer may be written.
type deadlines struct {
	*httptest.ResponseRecorder
	write time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.write = t
	return nil
}

// A client that reads a response slowly holds it for at most a minute.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	respond(w, httptest.NewRequest(http.MethodPost, "/", nil), http.StatusOK, mimeJSON, []byte("{}"))
	if left := time.Until(w.write); left > bodyTimeout || w.write.IsZero() {
		t.Errorf("it may take %s", left)
	}
}

// A foreign page whose host name resolves to the server reads neither metrics nor health, and no response is
// interpreted as another content type. Calls are answered for any host, because a browser sends an origin with
// them.
func TestPagesOfElsewhereReadNothing(t *testing.T) {
	t.Parallel()
	url := serve(t, testenv.Database(t), func(o *Options) { o.Hosts = service.Hosts{"rpc.example"} })
	for _, c := range []struct {
		method, path, host string
		status             int
	}{
		{"GET", "/metrics", "evil.example", 421}, {"GET", "/healthz", "evil.example:5008", 421}, {"GET", "/readyz", "evil.example", 421},
		{"GET", "/metrics", "rpc.example", 200}, {"GET", "/healthz", "10.1.2.3:5008", 200}, {"GET", "/readyz", "localhost", 200}, {"GET", "/", "any.example", 200},
		{"POST", "/task_type/get_all", "any.example", 200}, {"GET", "/nothing", "any.example", 404},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, url+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != c.status || response.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%+v: %s, %v", c, response.Status, response.Header)
		}
	}
}
