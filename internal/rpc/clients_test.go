package rpc

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/testenv"
)

// hashed returns a hash of a password by bcrypt.
func hashed(t testing.TB, password string) config.Secret {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), 10)
	if err != nil {
		t.Fatal(err)
	}
	return config.Secret(hash)
}

// argoned returns one by argon2id that takes 64 MiB, as much as one may.
func argoned(password string) config.Secret {
	salt := []byte("saltsalt")
	return config.Secret(fmt.Sprintf("$argon2id$v=19$m=65536,t=1,p=1$%s$%s", base64.RawStdEncoding.EncodeToString(salt),
		base64.RawStdEncoding.EncodeToString(argon2.IDKey([]byte(password), salt, 1, 65536, 1, 32))))
}

func basicOf(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// A client is accepted with any of its credentials, two at most, and with nothing else. The metric counts which
// one it used, and the log contains none.
func TestClientCredentials(t *testing.T) {
	t.Parallel()
	var log testenv.Buffer
	metrics := prometheus.NewRegistry()
	server := serve(t, testenv.Database(t), func(o *Options) {
		o.Log, o.Registry = log.Logger(), metrics
		o.Credentials = Credentials{Token: "single", Username: "root", Password: "p4ss"}
		o.Proxies = Proxies{netip.MustParsePrefix("127.0.0.0/8")}
		o.Clients = []config.Client{
			{Name: "tokens", TokenSHA256: []config.Secret{sumOf("0ld"), sumOf("n3w")}, Roles: []string{config.RoleReader}},
			{Name: "web", User: "webapp", PasswordHash: []config.Secret{hashed(t, "0ldpass"), argoned("n3wpass")}, Roles: []string{config.RoleWeb}},
			{Name: "plain", PasswordHash: []config.Secret{hashed(t, "pl4in")}, Roles: []string{config.RoleLister}, Listers: []string{"*/*"}},
		}
	})
	ask := func(authorization, from, path string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if authorization != "" {
			request.Header.Set("Authorization", authorization)
		}
		request.Header.Set("X-Forwarded-For", from)
		response, _ := do(t, request)
		return response.StatusCode
	}
	n := 0
	for authorization, want := range map[string]int{
		"Bearer single": 200, basicOf("root", "p4ss"): 200, "Bearer 0ld": 200, "Bearer n3w": 200, "bearer n3w": 200, basicOf("tokens", "n3w"): 200,
		basicOf("webapp", "0ldpass"): 200, basicOf("webapp", "n3wpass"): 200, basicOf("plain", "pl4in"): 403,
		"": 401, "Bearer ": 401, "Bearer tokens": 401, "Bearer " + string(sumOf("n3w")): 401, "Bearer p4ss": 401, "Bearer pl4in": 401,
		basicOf("web", "n3wpass"): 401, basicOf("webapp", ""): 401, basicOf("webapp", "n3w"): 401, basicOf("plain", "n3wpass"): 401, basicOf("web", "n3w"): 401,
		basicOf("root", "single"): 401, basicOf("nobody", "n3wpass"): 401, basicOf("", ""): 401, basicOf("webapp", "n3wpass\x00"): 401, "Digest x": 401, "Basic !": 401,
	} {
		n++
		for range 2 {
			if got := ask(authorization, fmt.Sprintf("203.0.113.%d", n), "/task_type/get_all"); got != want {
				t.Errorf("%q: %d, want %d", authorization, got, want)
			}
		}
	}
	want := `# HELP swh_scheduler_rpc_client_requests_total Requests of the clients that the configuration names, by the credential that they had.
# TYPE swh_scheduler_rpc_client_requests_total counter
swh_scheduler_rpc_client_requests_total{client="plain",credential="password_hash[0]"} 2
swh_scheduler_rpc_client_requests_total{client="tokens",credential="token_sha256[0]"} 2
swh_scheduler_rpc_client_requests_total{client="tokens",credential="token_sha256[1]"} 6
swh_scheduler_rpc_client_requests_total{client="web",credential="password_hash[0]"} 2
swh_scheduler_rpc_client_requests_total{client="web",credential="password_hash[1]"} 2
# HELP swh_scheduler_rpc_denied_total Calls of the clients that the configuration names which their roles don't allow.
# TYPE swh_scheduler_rpc_denied_total counter
swh_scheduler_rpc_denied_total{client="plain",endpoint="task_type/get_all"} 2
`
	if err := testutil.GatherAndCompare(metrics, strings.NewReader(want), "swh_scheduler_rpc_client_requests_total", "swh_scheduler_rpc_denied_total"); err != nil {
		t.Error(err)
	}
	for _, secret := range []string{"0ld", "n3w", "pl4in", "p4ss", "single", "$2a$", "argon2id"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log shows %q:\n%s", secret, &log)
		}
	}
	if _, err := newAccess(Credentials{}, []config.Client{{Name: "a", TokenSHA256: []config.Secret{"[redacted]"}}}); err == nil || !strings.Contains(err.Error(), "rpc_serve.clients (a).token_sha256 can't be used") {
		t.Error(err)
	}
}

// Wrong passwords are slowed like other credentials, and one is checked at a time. A client that was accepted
// before doesn't wait, and the stored state is bounded.
func TestPasswordChecksAreBounded(t *testing.T) {
	t.Parallel()
	server := serve(t, testenv.Database(t), func(o *Options) {
		o.Proxies = Proxies{netip.MustParsePrefix("127.0.0.0/8")}
		o.Clients = []config.Client{{Name: "a", PasswordHash: []config.Secret{argoned("s3cret"), argoned("other")}, Roles: []string{config.RoleReader}}}
	})
	ask := func(password, from string) int {
		response, _, err := tryPost(context.Background(), server+"/task_type/get_all", mimeJSON, nil, "Authorization", basicOf("a", password), "X-Forwarded-For", from)
		if err != nil {
			t.Error(err)
			return 0
		}
		return response.StatusCode
	}
	if got := ask("s3cret", "198.51.100.1"); got != 200 {
		t.Fatal(got)
	}
	var all sync.WaitGroup
	var checked, slowed, busy atomic.Int32
	for n := range 200 { // four addresses
		all.Go(func() {
			switch got := ask(fmt.Sprint("wrong ", n), fmt.Sprintf("203.0.113.%d", n%4)); got {
			case 401:
				checked.Add(1)
			case 429:
				slowed.Add(1)
			case 503:
				busy.Add(1)
			default:
				t.Errorf("%d", got)
			}
		})
	}
	for range 20 {
		began := time.Now()
		if got := ask("s3cret", "198.51.100.1"); got != 200 || time.Since(began) > 3*time.Second {
			t.Errorf("who was in: %d after %s", got, time.Since(began))
		}
	}
	all.Wait()
	last := time.Now()
	for n := 0; n < GuessBurst && ask(fmt.Sprint("more ", n), "203.0.113.1") != 429; n++ {
	}
	began := time.Now()
	argon2.IDKey([]byte("x"), []byte("saltsalt"), 1, 65536, 1, 32)
	one := time.Since(began)
	began = time.Now()
	var checks int
	for n := range 20 {
		switch got := ask(fmt.Sprint("further ", n), "203.0.113.1"); got {
		case 429:
		case 401: // one each GuessInterval
			checks++
		default:
			t.Errorf("a further guess: %d", got)
		}
	}
	if took := time.Since(began); took > time.Duration(15+4*checks)*one { // with checks of two hashes each it would be 40
		t.Errorf("20 guesses that are slowed took %s, where one check takes %s", took, one)
	}
	if most := int(time.Since(last)/GuessInterval) + 1; checks > most {
		t.Errorf("%d further guesses were checked, want %d at most", checks, most)
	}
	if checked.Load() > 4*GuessBurst || checked.Load() == 0 || checked.Load()+slowed.Load()+busy.Load() != 200 {
		t.Errorf("%d were checked, %d slowed, %d busy", checked.Load(), slowed.Load(), busy.Load())
	}
	a, err := newAccess(Credentials{}, []config.Client{{Name: "a", PasswordHash: []config.Secret{hashed(t, "s3cret")}}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 * maxRight {
		a.right[a.sum("a", fmt.Sprint(n))] = anyone
		if n == maxRight {
			break
		}
	}
	if a.slow("a", "s3cret") == nil || len(a.right) > maxRight || a.slow("a", "") != nil || a.slow("b", "s3cret") != nil {
		t.Errorf("%d are remembered", len(a.right))
	}
}

// Concurrent logins with the same password share one check, and all are accepted.
func TestOnePasswordAtOnce(t *testing.T) {
	t.Parallel()
	server := serve(t, testenv.Database(t), func(o *Options) {
		o.Clients = []config.Client{{Name: "a", PasswordHash: []config.Secret{argoned("s3cret")}, Roles: []string{config.RoleReader}}}
	})
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			response, answer, err := tryPost(context.Background(), server+"/task_type/get_all", mimeJSON, nil, "Authorization", basicOf("a", "s3cret"))
			if err != nil || response.StatusCode != 200 {
				t.Errorf("%v %s", err, answer)
			}
		})
	}
	all.Wait()
}

// For a denied call the Python scheduler's client raises its own exception, with the missing role, also after a
// large body.
func TestPythonClientIsDenied(t *testing.T) {
	t.Parallel()
	server := serve(t, testenv.Database(t), func(o *Options) { o.Clients = oneOfEach() })
	cmd := exec.CommandContext(t.Context(), testenv.Python(t), "-c", `
import sys
from swh.core.api import RemoteException, APIError
from swh.scheduler import get_scheduler
from swh.scheduler.model import ListedOrigin
def client(headers=None, auth=None):
    session = {k: v for k, v in (("headers", headers), ("auth", auth)) if v}
    return get_scheduler("remote", url=sys.argv[1], session_kwargs=session)
def denied(f, *args, **kwargs):
    try:
        f(*args, **kwargs)
    except RemoteException as e:
        print(e, e.response.status_code, e.args[0]["message"])
    else:
        print("it was not denied")
reader = client({"Authorization": "Bearer the token of reader"})
print(reader.get_listers())
denied(reader.disable_tasks, [1])
denied(reader.set_status_tasks, list(range(2_000_000)))
lister = client(auth=["lister", "the token of lister"])
print(lister.get_or_create_lister("gitlab", "a").name)
other = client({"Authorization": "Bearer the token of operator"}).get_or_create_lister("github", "b")
denied(lister.record_listed_origins, [ListedOrigin(lister_id=other.id, url="https://x", visit_type="git")])
denied(client({"Authorization": "Bearer x"}).get_listers)
denied(client().get_listers)
`, server)
	out, err := cmd.CombinedOutput()
	want := `[]
<RemoteException 403 Forbidden: ['The client reader may not call task/disable: it needs the role operator.']> 403 The client reader may not call task/disable: it needs the role operator.
<RemoteException 403 Forbidden: ['The client reader may not call task/set_status: it needs one of the roles operator or daemon.']> 403 The client reader may not call task/set_status: it needs one of the roles operator or daemon.
gitlab
<RemoteException 403 Forbidden: ['The role lister of the client lister is not for the lister github/b: none of its listers matches.']> 403 The role lister of the client lister is not for the lister github/b: none of its listers matches.
<RemoteException 401 Unauthorized: ['The server could not verify that you are authorized to access the URL requested.']> 401 The server could not verify that you are authorized to access the URL requested.
<RemoteException 401 Unauthorized: ['The server could not verify that you are authorized to access the URL requested.']> 401 The server could not verify that you are authorized to access the URL requested.
`
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
}

// A client with a certificate of the authority makes calls under its name. Changed files are read anew: after a
// change of the authority, connections with certificates of the old one get 401.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), new(testenv.Buffer)
	file := func(name string) string { return filepath.Join(dir, name) }
	served := issue(t, file("c.pem"), file("k.pem"))
	config_, err := TLS(file("c.pem"), file("k.pem"), log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(file(name+".new"), []byte(text), 0o600), os.Rename(file(name+".new"), file(name))); err != nil {
			t.Fatal(err)
		}
	}
	old, next, strange := testenv.Authority(t), testenv.Authority(t), testenv.Authority(t)
	if _, err := NewAuthority(file("ca.pem"), log.Logger()); err == nil || !strings.Contains(err.Error(), "client_ca") {
		t.Error(err)
	}
	write("ca.pem", "no certificate")
	if _, err := NewAuthority(file("ca.pem"), log.Logger()); err == nil || !strings.Contains(err.Error(), "there is no certificate in it") {
		t.Error(err)
	}
	write("ca.pem", old.PEM)
	authority, err := NewAuthority(file("ca.pem"), log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	dsn := testenv.Database(t)
	server := serve(t, dsn, func(o *Options) {
		o.TLS, o.ClientCA, o.Log = config_, authority, log.Logger()
		o.Clients = []config.Client{
			{Name: "runner", Certificate: []string{"DNS:runner.example", "CN:runner-2"}, Roles: []string{config.RoleReader}},
			withToken("token", config.RoleReader),
		}
	})
	clientWith := func(certificates ...testenv.Pair) *http.Client {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: served.Pool()}}
		if len(certificates) > 0 {
			transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificates[0].Certificate, nil }
		}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	ask := func(c *http.Client, authorization string) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+"/task_type/get_all", nil)
		if err != nil {
			t.Fatal(err)
		}
		if authorization != "" {
			request.Header.Set("Authorization", authorization)
		}
		response, err := c.Do(request)
		if err != nil {
			return err.Error()
		}
		answer := make([]byte, 2000)
		n, _ := response.Body.Read(answer)
		for err = nil; err == nil; {
			_, err = response.Body.Read(make([]byte, 2000))
		}
		_ = response.Body.Close()
		return fmt.Sprint(response.StatusCode, " ", string(answer[:n]))
	}
	expect := func(what, got, want string) {
		t.Helper()
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	runner := clientWith(old.Issue(t, "runner.example"))
	expect("a certificate", ask(runner, ""), "200 ")
	expect("one by its common name", ask(clientWith(old.Issue(t, "runner-2")), ""), "200 ")
	expect("a certificate and a wrong token", ask(runner, "Bearer x"), "401 ")
	expect("one of nobody", ask(clientWith(old.Issue(t, "other.example")), ""), "There is no client with the certificate of DNS:other.example, CN:other.example")
	expect("a stranger's", ask(clientWith(strange.Issue(t, "runner.example")), ""), "The certificate is not accepted: x509: certificate signed by unknown authority")
	expect("a stranger's, and a token", ask(clientWith(strange.Issue(t, "runner.example")), "Bearer "+tokenOf("token")), "200 ")
	expect("the authority's own", ask(clientWith(old), ""), "401 ")
	expect("none", ask(clientWith(), ""), "401 ")
	expect("a token", ask(clientWith(), "Bearer "+tokenOf("token")), "200 ")

	write("ca.pem", old.PEM+next.PEM)
	renewed := clientWith(next.Issue(t, "runner.example"))
	expect("the next authority's", ask(renewed, ""), "200 ")
	expect("the old one's beside", ask(runner, ""), "200 ")
	write("ca.pem", "no certificate")
	expect("while the file is wrong", ask(runner, ""), "200 ")
	write("ca.pem", next.PEM)
	expect("the old one's on its connection", ask(runner, ""), "401 ")
	expect("the next one's", ask(renewed, ""), "200 ")
	expect("the log", log.String(), "the authority of clients' certificates has changed and can't be used; the one before stays")
	if n := strings.Count(log.String(), "and can't be used"); n != 1 {
		t.Errorf("%d errors are logged", n)
	}
}

// authorityOf returns a new authority and the Authority of its file.
func authorityOf(t *testing.T) (testenv.Pair, *Authority) {
	t.Helper()
	ca := testenv.Authority(t)
	a, err := NewAuthority(testenv.File(t, "ca.pem", ca.PEM), new(testenv.Buffer).Logger())
	if err != nil {
		t.Fatal(err)
	}
	return ca, a
}

// A certificate is accepted only within its validity, even if it was verified before.
func TestCertificatesExpire(t *testing.T) {
	t.Parallel()
	ca, a := authorityOf(t)
	leaf := ca.Issue(t, "a").Leaf
	for _, c := range []struct {
		after time.Duration
		right bool
	}{{0, true}, {50 * time.Minute, true}, {2 * time.Hour, false}, {-2 * time.Hour, false}, {0, true}} {
		if err := a.verify([]*x509.Certificate{leaf}, time.Now().Add(c.after)); (err == nil) != c.right {
			t.Errorf("after %s: %v", c.after, err)
		}
	}
	mail, err := url.Parse("spiffe://swh/runner")
	if err != nil {
		t.Fatal(err)
	}
	names := certificateNames(&x509.Certificate{URIs: []*url.URL{mail}, DNSNames: []string{"a.example"}, EmailAddresses: []string{"a@example"}, Subject: pkix.Name{CommonName: "a"}})
	if want := []string{"URI:spiffe://swh/runner", "DNS:a.example", "email:a@example", "CN:a"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

// The authority's certificate of a server is no client's, whatever its name.
func TestCertificatesOfServers(t *testing.T) {
	t.Parallel()
	ca, a := authorityOf(t)
	certificate := ca.Issue(t, "runner.example").Leaf
	for usage, right := range map[x509.ExtKeyUsage]bool{x509.ExtKeyUsageServerAuth: false, x509.ExtKeyUsageClientAuth: true} {
		certificate.ExtKeyUsage = []x509.ExtKeyUsage{usage}
		der, err := x509.CreateCertificate(rand.Reader, certificate, ca.Leaf, certificate.PublicKey, ca.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.verify([]*x509.Certificate{leaf}, time.Now()); (err == nil) != right {
			t.Errorf("usage %d: %v", usage, err)
		}
	}
}

// A certificate is accepted only while its authority is valid, too, even if it was verified before.
func TestCertificatesOutliveTheirAuthority(t *testing.T) {
	t.Parallel()
	ca, a := authorityOf(t) // valid for an hour, before and after
	certificate := ca.Issue(t, "runner.example").Leaf
	certificate.NotBefore, certificate.NotAfter = time.Now().Add(-3*time.Hour), time.Now().Add(3*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, certificate, ca.Leaf, certificate.PublicKey, ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []time.Duration{0, 2 * time.Hour, -2 * time.Hour} {
		if err := a.verify([]*x509.Certificate{leaf}, time.Now().Add(after)); (err == nil) != (after == 0) {
			t.Errorf("after %s: %v", after, err)
		}
	}
}

// Clients may change while the server runs. A client whose credentials are replaced makes calls without a failure.
// A revoked client is refused at once, also at the door.
func TestClientsChange(t *testing.T) {
	t.Parallel()
	dsn, log := testenv.Database(t), new(testenv.Buffer)
	openDoor(t, dsn)
	metrics := prometheus.NewRegistry()
	var mu sync.Mutex
	var next []config.Client
	var broken error
	set := func(err error, clients ...config.Client) {
		mu.Lock()
		defer mu.Unlock()
		next, broken = clients, err
	}
	honest := func(tokens ...string) config.Client {
		c := config.Client{Name: "honest", Roles: []string{config.RoleReader, config.RoleDaemon}}
		for _, token := range tokens {
			c.TokenSHA256 = append(c.TokenSHA256, sumOf(token))
		}
		return c
	}
	other := withToken("other", config.RoleOperator, config.RoleDaemon)
	server := serve(t, dsn, func(o *Options) {
		o.Log, o.Registry, o.Clients = log.Logger(), metrics, []config.Client{honest("first"), other}
		o.followTime, o.doorTimes.Denied = 20*time.Millisecond, time.Second
		o.Reread = func() (Credentials, []config.Client, bool, error) {
			mu.Lock()
			defer mu.Unlock()
			clients, err := next, broken
			next, broken = nil, nil
			return Credentials{}, clients, clients != nil, err
		}
	})
	status := func(token string) int {
		response, _, err := tryPost(context.Background(), server+"/task_type/get_all", mimeJSON, nil, "Authorization", "Bearer "+token)
		if err != nil {
			t.Error(err)
			return 0
		}
		return response.StatusCode
	}
	var token atomic.Value
	token.Store("first")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var calls atomic.Int64
	var loop sync.WaitGroup
	var using [4]atomic.Value // by loop
	for n := range using {
		loop.Go(func() {
			for ctx.Err() == nil {
				with := token.Load().(string)
				using[n].Store(with)
				if got := status(with); got != 200 {
					t.Errorf("the honest client with %s: %d", with, got)
					return
				}
				calls.Add(1)
			}
		})
	}
	through := func(token string) *pgx.Conn {
		t.Helper()
		conn, err := pgx.ConnectConfig(t.Context(), throughDoor(t, server, "", "Authorization", "Bearer "+token))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	doorOfHonest, doorOfOther, busy := through("first"), through(tokenOf("other")), through(tokenOf("other"))
	if _, err := busy.Exec(t.Context(), "begin"); err != nil {
		t.Fatal(err)
	}

	if got := status("second"); got != 401 {
		t.Errorf("the second credential before it is there: %d", got)
	}
	began := time.Now()
	set(nil, honest("first", "second"), other)
	testenv.Becomes(t, "the second credential counts", 200, func() int { return status("second") })
	if took := time.Since(began); took > GuessInterval/2 {
		t.Errorf("it counts after %s, as it was wrong before", took)
	}
	token.Store("second")
	doorOfHonest2 := through("second")
	testenv.Becomes(t, "no call under way has the first", true, func() bool {
		for n := range using {
			if using[n].Load() != "second" {
				return false
			}
		}
		return true
	})
	set(nil, honest("second"), other)
	testenv.Becomes(t, "the first credential is gone", 401, func() int { return status("first") })
	testenv.Becomes(t, "so is its connection to the database", true, func() bool { return doorOfHonest.Ping(t.Context()) != nil })
	if err := doorOfHonest2.Ping(t.Context()); err != nil {
		t.Errorf("the connection with the second credential: %v", err)
	}

	set(errors.New("F:3: is not YAML"))
	set(nil) // nothing
	set(errors.New("F:3: is not YAML"), other)
	testenv.Becomes(t, "a broken file is logged", true, func() bool { return strings.Contains(log.String(), "is not YAML") })
	if got := status(tokenOf("other")); got != 200 {
		t.Errorf("after a broken file: %d", got)
	}
	set(nil, []config.Client{}...)
	mu.Lock()
	next = []config.Client{}
	mu.Unlock()
	testenv.Becomes(t, "a file without clients is refused", true, func() bool { return strings.Contains(log.String(), "no clients and no credentials any more") })
	if got := status("nobody's"); got != 401 {
		t.Errorf("without clients: %d", got)
	}

	set(nil, honest("second"))
	testenv.Becomes(t, "the other client is revoked", 401, func() int { return status(tokenOf("other")) })
	testenv.Becomes(t, "its connections to the database end", true, func() bool { return doorOfOther.Ping(t.Context()) != nil })
	began = time.Now()
	for busy.Ping(t.Context()) == nil { // that in a transaction, too
		if time.Since(began) > 30*time.Second {
			t.Fatal("a transaction of a revoked client goes on")
		}
		time.Sleep(50 * time.Millisecond)
	}
	if _, err := knock(t.Context(), server, "Authorization", "Bearer "+tokenOf("other")); err == nil || !strings.Contains(err.Error(), "401") {
		t.Error(err)
	}
	reduced := honest("second")
	reduced.Roles = []string{config.RoleReader}
	set(nil, reduced)
	testenv.Becomes(t, "without the role, the door is closed", true, func() bool { return doorOfHonest2.Ping(t.Context()) != nil })
	if _, err := knock(t.Context(), server, "Authorization", "Bearer second"); err == nil || !strings.Contains(err.Error(), "The client honest may not call "+doorName+": it needs the role daemon.") {
		t.Error(err)
	}
	stop()
	loop.Wait()
	if calls.Load() < 100 {
		t.Errorf("the honest client made only %d calls", calls.Load())
	}
	if testutil.CollectAndCount(metrics, "swh_scheduler_rpc_client_requests_total") == 0 {
		t.Error("nothing is counted")
	}
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if strings.Contains(family.String(), `value:"other"`) && strings.Contains(family.GetName(), "rpc_client") {
			t.Errorf("there are metrics of a client that is gone: %s", family)
		}
	}
}

// An open server requires credentials once its file names clients.
func TestOpenServerBeginsToRequireCredentials(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	openDoor(t, dsn)
	next := make(chan []config.Client, 1)
	server := serve(t, dsn, func(o *Options) {
		o.followTime = 10 * time.Millisecond
		o.Reread = func() (Credentials, []config.Client, bool, error) {
			select {
			case clients := <-next:
				return Credentials{}, clients, true, nil
			default:
				return Credentials{}, nil, false, nil
			}
		}
	})
	status := func(header ...string) int {
		response, _ := post(t, server+"/task_type/get_all", mimeJSON, nil, header...)
		return response.StatusCode
	}
	conn, err := pgx.ConnectConfig(t.Context(), throughDoor(t, server, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	next <- nil // the file has changed, elsewhere
	testenv.Becomes(t, "it was read", 0, func() int { return len(next) })
	if got := status(); got != 200 {
		t.Errorf("an open server: %d", got)
	}
	next <- oneOfEach()
	testenv.Becomes(t, "it asks", 401, func() int { return status() })
	if got := status("Authorization", "Bearer "+tokenOf("reader")); got != 200 {
		t.Errorf("a client: %d", got)
	}
	testenv.Becomes(t, "the connection to the database of nobody ends", true, func() bool { return conn.Ping(t.Context()) != nil })
}
