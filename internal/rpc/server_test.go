package rpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/origins"
)

func gzipped(t testing.TB, plain []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A malformed HTTP request gets the status and the exception of the Python scheduler's server, or of HTTP.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	url := serve(t, testenv.Database(t), func(o *Options) { o.MaxBody = 1 << 16 })
	for _, c := range []struct {
		name, path, contentType string
		body                    []byte
		header                  []string
		status                  int
		class                   string
	}{
		{"an unknown path", "/task/nonsense", mimeMsgpack, nil, nil, 404, "NotFound"},
		{"a body of another type", "/task_type/get_all", "text/plain", []byte("x"), nil, 500, "ValueError"},
		{"a list of arguments", "/task_type/get_all", mimeMsgpack, []byte("\x90"), nil, 500, "TypeError"},
		{"too large", "/task_type/get_all", mimeMsgpack, make([]byte, 1<<16+1), nil, 413, "RequestEntityTooLarge"},
		{"a decompression bomb", "/task_type/get_all", mimeMsgpack, gzipped(t, make([]byte, 100<<20)), []string{"Content-Encoding", "gzip"}, 413, "RequestEntityTooLarge"},
		{"no gzip", "/task_type/get_all", mimeMsgpack, []byte("x"), []string{"Content-Encoding", "gzip"}, 400, "BadRequest"},
		{"an unknown compression", "/task_type/get_all", mimeMsgpack, []byte("x"), []string{"Content-Encoding", "br"}, 415, "UnsupportedMediaType"},
		{"too deep", "/task_type/get_all", mimeMsgpack, bytes.Repeat([]byte{0x91}, 1000), nil, 413, "ValueError"},
	} {
		response, body := post(t, url+c.path, c.contentType, c.body, c.header...)
		value, err := readMsgpack(body, defaultLimits)
		if err != nil {
			t.Errorf("%s: %q: %v", c.name, body, err)
			continue
		}
		class, _ := value.(dict).get("type")
		if response.StatusCode != c.status || class != c.class {
			t.Errorf("%s: %d %v, want %d %s", c.name, response.StatusCode, class, c.status, c.class)
		}
	}
	response, err := http.Get(url + "/task/get")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET of a call: %s", response.Status)
	}
}

// The response has the format that the client prefers, chosen as by the Python scheduler.
func TestNegotiate(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]string{
		"": mimeJSON, "*/*": mimeJSON, "text/html": mimeJSON, "application/*": mimeJSON,
		mimeMsgpack: mimeMsgpack, "APPLICATION/X-MSGPACK": mimeMsgpack, mimeJSON: mimeJSON,
		"*/*, " + mimeMsgpack:                    mimeMsgpack,
		mimeMsgpack + ", " + mimeJSON:            mimeJSON,
		mimeMsgpack + ", " + mimeJSON + ";q=0.5": mimeMsgpack,
		mimeMsgpack + ";q=0":                     mimeJSON,
		mimeMsgpack + ";q=0.1, */*;q=0.9":        mimeJSON,
	} {
		if got := negotiate(accept); got != want {
			t.Errorf("Accept %q: %s, want %s", accept, got, want)
		}
	}
}

// A large response has a Content-Length and is uncompressed, also for clients that accept gzip.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := openStore(t, dsn)
	for i := range 400 {
		err := store.CreateTaskType(t.Context(), model.TaskType{Type: fmt.Sprint("type-", i), Description: strings.Repeat("d", 50), BackendName: "b"})
		if err != nil {
			t.Fatal(err)
		}
	}
	url := serve(t, dsn)
	var plain []byte
	for _, accept := range []string{"identity", "gzip"} {
		response, body := post(t, url+"/task_type/get_all", mimeMsgpack, nil, "Accept-Encoding", accept)
		if response.ContentLength != int64(len(body)) || len(body) < 400*50 {
			t.Errorf("%s: the length of %d bytes is told as %d", accept, len(body), response.ContentLength)
		}
		if encoding := response.Header.Get("Content-Encoding"); encoding != "" {
			t.Errorf("%s: the answer is encoded by %q", accept, encoding)
		}
		if accept == "identity" {
			plain = body
		} else if !bytes.Equal(body, plain) {
			t.Errorf("%s: the answer is another", accept)
		}
	}
}

// Without the right credentials only the health checks are answered.
func TestCredentials(t *testing.T) {
	t.Parallel()
	var log testenv.Buffer
	metrics := prometheus.NewRegistry()
	url := serve(t, testenv.Database(t), func(o *Options) {
		o.Credentials = Credentials{Token: "t0ken", Username: "swh", Password: "s3cret"}
		o.Log, o.Registry = slog.New(slog.NewTextHandler(&log, nil)), metrics
		o.Proxies = Proxies{netip.MustParsePrefix("127.0.0.0/8")}
	})
	refused := 0
	basic := func(user, password string) string {
		r, _ := http.NewRequest(http.MethodGet, "/", nil)
		r.SetBasicAuth(user, password)
		return r.Header.Get("Authorization")
	}
	for n, path := range []string{"/", "/site-map", "/metrics", "/task_type/get_all", "/nonsense", "/healthz", "/readyz"} {
		open := strings.HasSuffix(path, "z") || path == "/"
		for authorization, right := range map[string]bool{
			"": false, "Bearer t0ken": true, "bearer t0ken": true, "Bearer t0ke": false, "Bearer ": false, "t0ken": false,
			basic("swh", "s3cret"): true, basic("swh", ""): false, basic("", ""): false, basic("swh", "s3cret2"): false,
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if authorization != "" {
				request.Header.Set("Authorization", authorization)
			}
			request.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", n)) // or they would be too many
			response, body := do(t, request)
			is401 := response.StatusCode == http.StatusUnauthorized
			if is401 == (right || open) {
				t.Errorf("%s with %q: %s", path, authorization, response.Status)
			}
			if is401 {
				refused++
			}
			if bytes.Contains(body, []byte("s3cret")) {
				t.Errorf("%s shows the password", path)
			}
		}
	}
	// Refused logins are counted, and one is logged, with where it came from.
	want := fmt.Sprintf("# HELP swh_scheduler_rpc_refused_logins_total Requests refused as they had no credentials, or wrong ones.\n# TYPE swh_scheduler_rpc_refused_logins_total counter\nswh_scheduler_rpc_refused_logins_total %d\n", refused)
	if err := testutil.GatherAndCompare(metrics, strings.NewReader(want), "swh_scheduler_rpc_refused_logins_total"); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "login refused"); n != 1 || !strings.Contains(log.String(), "address=203.0.113.") {
		t.Errorf("%d refused logins are logged:\n%s", n, &log)
	}
	for _, secret := range []string{"t0ke", "s3cret", basic("swh", "s3cret")} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log shows %q:\n%s", secret, &log)
		}
	}
}

// If only a token is configured, neither a name with a password nor an empty pair is accepted.
func TestTokenAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []Credentials{{Token: "t0ken"}, {Username: "swh", Password: "s3cret"}} {
		for authorization, right := range map[string]bool{
			"Bearer t0ken": c.Token != "", "Bearer ": false, "Basic " + base64.StdEncoding.EncodeToString([]byte(":")): false,
			"Basic " + base64.StdEncoding.EncodeToString([]byte("swh:s3cret")): c.Username != "",
		} {
			if got := c.accept(&http.Request{Header: http.Header{"Authorization": {authorization}}}); got != right {
				t.Errorf("%q with %+v: accepted: %t", authorization, c, got)
			}
		}
	}
}

// issue makes a certificate for 127.0.0.1 and its key, in the files of these names.
func issue(t *testing.T, certificateFile, keyFile string) testenv.Pair {
	t.Helper()
	pair := testenv.Authority(t).Issue(t, "127.0.0.1")
	for file, text := range map[string]string{certificateFile: pair.PEM, keyFile: pair.KeyPEM} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pair
}

// With a certificate the server uses TLS. It uses a new certificate once both files are there; an unusable one
// changes nothing.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificateFile, keyFile := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	certificate := issue(t, certificateFile, keyFile)
	config, err := TLS(certificateFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, testenv.Database(t), func(o *Options) { o.TLS = config })
	shows := func(certificate testenv.Pair) error {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: certificate.Pool()}}
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport}).Get(url + "/readyz")
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	if err := shows(certificate); err != nil {
		t.Error(err)
	}
	next := issue(t, certificateFile, filepath.Join(dir, "next.pem")) // the key is still the old one
	if err := shows(certificate); err != nil {
		t.Errorf("without the new key: %v", err)
	}
	if err := os.Rename(filepath.Join(dir, "next.pem"), keyFile); err != nil {
		t.Fatal(err)
	}
	if err := shows(next); err != nil {
		t.Errorf("with the new key: %v", err)
	}
	if err := os.Remove(certificateFile); err != nil {
		t.Fatal(err)
	}
	if err := shows(next); err != nil {
		t.Errorf("without the file: %v", err)
	}
	if _, err := TLS(certificateFile, keyFile, slog.New(slog.DiscardHandler)); err == nil || !strings.HasPrefix(err.Error(), "tls_certificate "+certificateFile+" with tls_key "+keyFile+": ") {
		t.Error("a server starts without a certificate")
	}
}

// While the database is unreachable, calls get 503, which clients retry, and the server is not ready. The error
// contains neither password nor address. Calls succeed once it is back.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	_, rest, _ := strings.Cut(dsn, "@")
	server, _, _ := strings.Cut(rest, "/")
	proxy := testenv.Proxy(t, server)
	var log testenv.Buffer
	url := serve(t, strings.Replace(strings.Replace(dsn, server, proxy.Addr, 1), "@", ":s3cret@", 1), func(o *Options) {
		o.Credentials = Credentials{Token: "t0ken", Username: "swh", Password: "passw0rd"}
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	authorization := "Basic " + base64.StdEncoding.EncodeToString([]byte("swh:passw0rd"))
	status := func(path string) int {
		response, body := post(t, url+path, mimeMsgpack, nil, "Authorization", authorization)
		for _, word := range []string{"s3cret", proxy.Addr, "select"} {
			if bytes.Contains(body, []byte(word)) {
				t.Errorf("%s shows %q: %s", path, word, body)
			}
		}
		return response.StatusCode
	}
	ready := func() int {
		response, err := http.Get(url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	if got := status("/task_type/get_all"); got != http.StatusOK {
		t.Fatalf("before: %d", got)
	}
	proxy.Cut()
	if got := status("/task_type/get_all"); got != http.StatusServiceUnavailable {
		t.Errorf("while it is away: %d", got)
	}
	// Who has called is logged, and nothing that is secret.
	if text := log.String(); !strings.Contains(text, "call failed") || !strings.Contains(text, "caller.address=127.0.0.1:") || !strings.Contains(text, "caller.user=swh") || strings.Contains(text, "passw0rd") || strings.Contains(text, authorization) {
		t.Errorf("logged:\n%s", text)
	}
	if got := ready(); got != http.StatusServiceUnavailable {
		t.Errorf("ready while it is away: %d", got)
	}
	proxy.Restore()
	testenv.Becomes(t, "it is back", [2]int{http.StatusOK, http.StatusOK}, func() [2]int { return [2]int{status("/task_type/get_all"), ready()} })
}

// While the database is missing, or an empty one has its name, calls fail and the server is not ready.
func TestDatabaseReplaced(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	server := testenv.Open(t, testenv.Postgres(t))
	name := pgx.Identifier{dsn[strings.LastIndexByte(dsn, '/')+1:]}.Sanitize()
	url := serve(t, dsn)
	answers := func() string {
		response, err := http.Get(url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		ready, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		call, _ := post(t, url+"/task_type/get_all", mimeMsgpack, nil)
		return fmt.Sprintf("%d; %d %s", call.StatusCode, response.StatusCode, ready)
	}
	for _, step := range []struct{ statement, want string }{
		{"select 1", "200; 200 ok\n"},
		{"drop database " + name + " with (force)", "503; 503 the database cannot be reached\n"},
		{"create database " + name, "500; 503 the database is not the scheduler's, or not migrated\n"},
	} {
		testenv.Exec(t, server.Pool(), step.statement)
		testenv.Becomes(t, step.statement, step.want, answers)
	}
}

// While the database takes no writes, as before a standby's promotion, changes get 503, by which clients try again.
func TestDatabaseWithoutWrites(t *testing.T) {
	t.Parallel()
	url := serve(t, testenv.Database(t)+"?options=-cdefault_transaction_read_only%3Don")
	response, answer := post(t, url+"/task/set_status", mimeJSON, []byte(`{"task_ids": [1], "status": "disabled"}`))
	if response.StatusCode != http.StatusServiceUnavailable || !bytes.Contains(answer, []byte("ReadOnlySqlTransaction")) {
		t.Errorf("a change: %s %s", response.Status, answer)
	}
	if response, answer := post(t, url+"/task_type/get_all", mimeJSON, nil); response.StatusCode != http.StatusOK {
		t.Errorf("a reading: %s %s", response.Status, answer)
	}
}

// Metrics count calls and errors by endpoint. Wrong arguments and values count as the client's errors, also if the
// status is the Python server's 500.
func TestMetrics(t *testing.T) {
	t.Parallel()
	url := serve(t, testenv.Database(t))
	post(t, url+"/task_type/get_all", mimeMsgpack, nil)
	for _, call := range [][2]string{
		{"task_type/get", ""}, {"task_type/create", `{"task_type": {"type": "a", "backend_name": null}}`}, {"task_type/get_all", "["},
	} {
		if response, answer := post(t, url+"/"+call[0], mimeJSON, []byte(call[1])); response.StatusCode != http.StatusInternalServerError {
			t.Errorf("%s %s: %s %s", call[0], call[1], response.Status, answer)
		}
	}
	response, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`swh_scheduler_rpc_call_seconds_count{endpoint="task_type/get_all"} 2`,
		`swh_scheduler_rpc_errors_total{endpoint="task_type/get_all",status="4xx"} 1`,
		`swh_scheduler_rpc_errors_total{endpoint="task_type/get_all",status="5xx"} 0`,
		`swh_scheduler_rpc_errors_total{endpoint="task_type/get",status="4xx"} 1`,
		`swh_scheduler_rpc_errors_total{endpoint="task_type/get",status="5xx"} 0`,
		`swh_scheduler_rpc_errors_total{endpoint="task_type/create",status="4xx"} 1`,
		`swh_scheduler_rpc_errors_total{endpoint="task_type/create",status="5xx"} 0`,
		`swh_scheduler_rpc_errors_total{endpoint="visit_stats/get",status="4xx"} 0`,
	} {
		if !strings.Contains(text.String(), line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// A server that listens on all addresses logs that, and its consequence without credentials.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"127.0.0.1:0": "level=INFO msg=listening ", "0.0.0.0:0": "whoever reaches this port"} {
		var text bytes.Buffer
		server, err := Listen(t.Context(), Options{Address: address, Store: &db.Store{}, Log: slog.New(slog.NewTextHandler(&text, nil)), Registry: prometheus.NewRegistry()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := server.Run(ctx); err != nil {
			t.Error(err)
		}
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s: %s", address, text.String())
		}
	}
}

// Of concurrent updates of a lister one succeeds; the others get an error.
func TestUpdateListerAtOnce(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := openStore(t, dsn)
	lister, err := store.GetOrCreateLister(t.Context(), "gitlab", "i", nil)
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, dsn)
	const clients = 16
	statuses := make([]int, clients)
	var wait sync.WaitGroup
	for i := range clients {
		wait.Go(func() {
			l := lister
			l.CurrentState = []byte(fmt.Sprintf(`{"winner": %d}`, i))
			e := newEncoder(mimeMsgpack, nil)
			e.openDict()
			updateLister.visit(&fields{out: e}, &l)
			e.closeDict()
			body, _ := e.finish()
			response, _, err := tryPost(t.Context(), url+"/lister/update", mimeMsgpack, body)
			if err != nil {
				t.Error(err)
				return
			}
			statuses[i] = response.StatusCode
		})
	}
	wait.Wait()
	winner := -1
	for i, status := range statuses {
		switch {
		case status == http.StatusOK && winner < 0:
			winner = i
		case status != http.StatusBadRequest:
			t.Errorf("client %d: %d, after client %d", i, status, winner)
		}
	}
	after, err := store.ListerByID(t.Context(), lister.ID)
	if err != nil || string(after.CurrentState) != `{"winner": `+strconv.Itoa(winner)+`}` {
		t.Errorf("client %d won, and the state is %s (%v)", winner, after.CurrentState, err)
	}
}

// Listers that concurrently record the same origins, each in its own order, neither deadlock nor lose any.
func TestRecordOriginsAtOnce(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := openStore(t, dsn)
	lister, err := store.GetOrCreateLister(t.Context(), "gitlab", "i", nil)
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, dsn)
	const clients, urls = 8, 300
	var wait sync.WaitGroup
	for i := range clients {
		wait.Go(func() {
			for range 3 {
				response, answer, err := tryPost(t.Context(), url+"/origins/record", mimeMsgpack, recordCall(lister, urls, i*urls/clients))
				if err != nil || response.StatusCode != http.StatusOK {
					t.Errorf("client %d: %v %v %s", i, response, err, answer)
				}
			}
		})
	}
	wait.Wait()
	found, _, err := store.ListedOrigins(t.Context(), origins.ListedOriginFilter{})
	if err != nil || len(found) != urls {
		t.Errorf("%d origins (%v), want %d", len(found), err, urls)
	}
}

// recordCall is a call that records n origins, the one of number first first.
func recordCall(lister model.Lister, n, first int) []byte {
	listed := make([]model.ListedOrigin, n)
	for i := range listed {
		listed[i] = model.ListedOrigin{
			ListerID: lister.ID, URL: fmt.Sprintf("https://forge.example/project-%d/repository.git", (first+i)%n), VisitType: "git",
			ExtraLoaderArguments: []byte("{}"), Enabled: true, LastUpdate: &lister.Created, FirstSeen: lister.Created, LastSeen: lister.Created,
		}
	}
	e := newEncoder(mimeMsgpack, nil)
	e.openDict()
	e.key("listed_origins")
	manyListedOrigins.write(&fields{out: e}, &listed)
	e.closeDict()
	body, _ := e.finish()
	return body
}
