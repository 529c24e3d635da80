package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/crypto/argon2"

	"swh-scheduler/internal/rpc/door"
	"swh-scheduler/internal/testenv"
)

// argonOf returns an argon2id hash with low costs.
func argonOf(password string) string {
	salt := []byte("saltsalt")
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=19$m=8192,t=1,p=1$%s$%s", b64(salt), b64(argon2.IDKey([]byte(password), salt, 1, 8192, 1, 32)))
}

// caller is an honest client that calls without pauses.
type caller struct {
	name  string
	call  func(ctx context.Context) error
	calls atomic.Int64 // successful calls
	ends  atomic.Bool  // set for a revoked client: its first failure ends it
	last  atomic.Int64 // start of the last successful call, in Unix nanoseconds
	ended chan struct{}
}

// rotation is a running rpc-serve with TLS and a dashboard. An operator replaces its credentials while clients call.
type rotation struct {
	t      *testing.T
	dir    string
	file   string
	server string // URL
	p      *process
	log    int // length of the log that has been searched

	client atomic.Pointer[map[string]string] // credentials that the clients send now, by client
	roots  atomic.Pointer[x509.CertPool]     // the authorities that they trust
	cert   atomic.Pointer[tls.Certificate]   // the certificate of the client that has one
}

// replace replaces a file by renaming a new one, as certbot does.
func (r *rotation) replace(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		r.t.Fatal(err)
	}
}

// says waits until the server's log since the last call contains text.
func (r *rotation) says(text string) {
	r.t.Helper()
	testenv.Shows(r.t, text, func() string { return r.p.log()[r.log:] })
	r.log = len(r.p.log())
}

// shows returns the credential that a client sends now.
func (r *rotation) shows(name string) string { return (*r.client.Load())[name] }

// use sets the credential of a client's next calls.
func (r *rotation) use(name, credential string) {
	now := map[string]string{}
	for name, credential := range *r.client.Load() {
		now[name] = credential
	}
	now[name] = credential
	r.client.Store(&now)
}

// https returns a client with the clients' current authorities and a connection of its own.
func (r *rotation) https() *http.Client {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: r.roots.Load()}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return r.cert.Load(), nil }
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: config},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask sends one request.
func ask(ctx context.Context, client *http.Client, method, address string, header http.Header, form url.Values) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header = header
	response, err := client.Do(request)
	if err == nil {
		err = response.Body.Close()
	}
	return response, err
}

// calls returns a function that makes a call with a client's credential. It keeps each connection for ten calls.
func (r *rotation) calls(authorization func() string) func(ctx context.Context) error {
	n, client := 0, r.https()
	return func(ctx context.Context) error {
		if n++; n%10 == 0 {
			client.CloseIdleConnections()
			client = r.https()
		}
		header := http.Header{"Content-Type": {"application/json"}}
		if authorization != nil {
			header.Set("Authorization", authorization())
		}
		response, err := ask(ctx, client, http.MethodPost, r.server+"/task_type/get_all", header, nil)
		if err == nil && response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		return err
	}
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// throughDoor returns a function that queries the database through the door. For another token it connects again, as a
// restarted daemon does.
func (r *rotation) throughDoor() func(ctx context.Context) error {
	var conn *pgx.Conn
	used := ""
	return func(ctx context.Context) error {
		if token := r.shows("door"); token != used {
			if conn != nil {
				_ = conn.Close(ctx)
			}
			u := testenv.URL(r.t, r.server)
			u.User = url.UserPassword("door", token)
			address, err := door.Parse(u.String())
			if err == nil {
				address, err = address.With(door.Credentials{Authorities: filepath.Join(r.dir, "trusted.pem")})
			}
			if err != nil {
				return err
			}
			config, err := pgx.ParseConfig("postgresql://door@" + u.Host + "/door?sslmode=disable")
			if err != nil {
				return err
			}
			config.DialFunc = address.Dial(config.DialFunc)
			if conn, err = pgx.ConnectConfig(ctx, config); err != nil {
				return err
			}
			used = token
		}
		_, err := conn.Exec(ctx, "select 1")
		return err
	}
}

// An operator replaces each credential of a running rpc-serve while clients call: tokens, passwords, names in
// certificates, authorities and the server's certificate. No call fails, and a dashboard session goes on. Then each
// credential is revoked: its calls fail, and the others' don't.
func TestCredentialsAreReplacedUnderCalls(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	execute(t, dsn, someTaskTypes)
	openDoor(t, dsn)
	r := &rotation{t: t, dir: t.TempDir()}
	servers, nextServers, clients, nextClients := testenv.Authority(t), testenv.Authority(t), testenv.Authority(t), testenv.Authority(t)
	trust := func(authorities ...testenv.Pair) {
		pool, text := x509.NewCertPool(), ""
		for _, a := range authorities {
			pool.AddCert(a.Leaf)
			text += a.PEM
		}
		r.replace("trusted.pem", text)
		r.roots.Store(pool)
	}
	serveWith := func(by testenv.Pair) {
		pair := by.Issue(t, "127.0.0.1")
		r.replace("server.key", pair.KeyPEM) // for a moment, key and certificate don't match
		r.replace("server.crt", pair.PEM)
	}
	certificate := func(by testenv.Pair, host string) {
		pair := by.Issue(t, host)
		r.cert.Store(&pair.Certificate)
	}
	r.file = filepath.Join(r.dir, "scheduler.yml")
	lines := map[string]string{}
	write := func(client, credentials, rights string) {
		if lines[client] = fmt.Sprintf("  - {name: %s, %s, %s}\n", client, credentials, rights); credentials == "" {
			delete(lines, client)
		}
		text := fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ndashboard: {in_rpc_serve: true, users: [{name: ann, password_hash: %q, roles: [tasks]}]}\n"+
			"rpc_serve:\n  tls_certificate: server.crt\n  tls_key: server.key\n  client_ca: clients.pem\n  clients:\n", dsn, argonOf("correct horse"))
		for _, line := range lines {
			text += line
		}
		r.replace("scheduler.yml", text)
	}
	tokens := func(tokens ...string) string {
		for i, token := range tokens {
			tokens[i] = sha256Of(token)
		}
		return "token_sha256: [" + strings.Join(tokens, ", ") + "]"
	}
	passwords := func(passwords ...string) string {
		for i, password := range passwords {
			passwords[i] = fmt.Sprintf("%q", argonOf(password))
		}
		return "password_hash: [" + strings.Join(passwords, ", ") + "]"
	}
	const reads, comesIn = "roles: [reader]", "roles: [daemon], daemons: [start-listener]"
	trust(servers)
	serveWith(servers)
	certificate(clients, "first.example")
	r.replace("clients.pem", clients.PEM)
	write("token", tokens("first"), reads)
	write("password", passwords("first password"), reads)
	write("certificate", `certificate: ["DNS:first.example"]`, reads)
	write("door", tokens("first at the door"), comesIn)
	r.client.Store(&map[string]string{"token": "first", "password": "first password", "door": "first at the door"})
	r.p = startWith(t, []string{ownFile}, "-C", r.file, "rpc-serve", "--host", "127.0.0.1", "--port", "0")
	r.server = strings.Replace(r.p.serverURL(t), "http://", "https://", 1)

	answer, err := ask(t.Context(), r.https(), http.MethodPost, r.server+"/dashboard/login", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
		url.Values{"name": {"ann"}, "secret": {"correct horse"}})
	if err != nil || answer.StatusCode != http.StatusSeeOther {
		t.Fatal(answer, err)
	}
	cookie, _, _ := strings.Cut(answer.Header.Get("Set-Cookie"), ";")
	callers := map[string]*caller{
		"token":       {call: r.calls(func() string { return "Bearer " + r.shows("token") })},
		"password":    {call: r.calls(func() string { return basic("password", r.shows("password")) })},
		"certificate": {call: r.calls(nil)},
		"door":        {call: r.throughDoor()},
		"session": {call: func(ctx context.Context) error {
			client := r.https()
			defer client.CloseIdleConnections()
			answer, err := ask(ctx, client, http.MethodGet, r.server+"/dashboard/audit", http.Header{"Cookie": {cookie}}, nil)
			if err == nil && answer.StatusCode != http.StatusOK {
				err = errors.New(answer.Status)
			}
			return err
		}},
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for name, c := range callers {
		c.name, c.ended = name, make(chan struct{})
		all.Go(func() {
			defer close(c.ended)
			for ctx.Err() == nil {
				began := time.Now()
				err := c.call(ctx)
				switch {
				case err == nil:
					c.last.Store(began.UnixNano())
					c.calls.Add(1)
				case ctx.Err() != nil:
				case !c.ends.Load():
					t.Errorf("a call of the honest client %s failed: %v", name, err)
					return
				default:
					return
				}
			}
		})
	}
	// Each client has made calls with its current credential, and all earlier calls have ended.
	goesOn := func() {
		t.Helper()
		for _, c := range callers {
			if c.ends.Load() {
				continue
			}
			before := c.calls.Load()
			testenv.Becomes(t, "calls of "+c.name+" go on", true, func() bool { return c.calls.Load() >= before+3 || t.Failed() })
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	const reread = "the configuration was read again"
	goesOn()
	for _, next := range []struct {
		client, rights, old, new string
		credentials              func(...string) string
	}{
		{"token", reads, "first", "second", tokens},
		{"password", reads, "first password", "second password", passwords},
		{"door", comesIn, "first at the door", "second at the door", tokens},
	} {
		write(next.client, next.credentials(next.old, next.new), next.rights)
		r.says(reread)
		r.use(next.client, next.new)
		goesOn()
		write(next.client, next.credentials(next.new), next.rights)
		r.says(reread)
		goesOn()
	}
	write("certificate", `certificate: ["DNS:first.example", "DNS:second.example"]`, reads)
	r.says(reread)
	certificate(clients, "second.example")
	goesOn()
	goesOn() // each connection is kept for ten calls, so the former ones have ended
	goesOn()
	goesOn()
	write("certificate", `certificate: ["DNS:second.example"]`, reads)
	r.says(reread)
	goesOn()
	r.replace("clients.pem", clients.PEM+nextClients.PEM)
	r.says("the authority of clients' certificates has changed")
	certificate(nextClients, "second.example")
	for range 4 {
		goesOn()
	}
	r.replace("clients.pem", nextClients.PEM)
	r.says("the authority of clients' certificates has changed")
	goesOn()
	serveWith(servers)
	r.says(`msg="the certificate has changed" `)
	goesOn()
	trust(servers, nextServers)
	for range 4 {
		goesOn()
	}
	serveWith(nextServers)
	r.says(`msg="the certificate has changed" `)
	goesOn()
	trust(nextServers)
	for range 4 {
		goesOn()
	}

	// The credentials are revoked one after another. Once the server has logged that it has read the file, no new call
	// succeeds.
	revoked := func(name, said string, do func()) {
		t.Helper()
		c := callers[name]
		c.ends.Store(true)
		began := time.Now()
		do()
		if said != "" {
			r.says(said)
		}
		told := time.Now()
		select {
		case <-c.ended:
		case <-time.After(time.Minute):
			t.Fatalf("%s still calls", name)
		}
		last := time.Unix(0, c.last.Load())
		if name == "door" { // it ends between two statements, at the latest after this time
			told = told.Add(10 * time.Second)
		}
		if last.After(told) {
			t.Errorf("a call of %s was answered that began %s after it was revoked", name, last.Sub(told))
		}
		t.Logf("%s: the last call that was answered began %s after the file was written", name, last.Sub(began).Round(time.Millisecond))
		goesOn()
	}
	revoked("token", reread, func() { write("token", "", "") })
	revoked("password", reread, func() { write("password", "", "") })
	revoked("certificate", "the authority of clients' certificates has changed", func() { r.replace("clients.pem", clients.PEM) })
	revoked("door", reread, func() { write("door", tokens("another"), comesIn) })
	revoked("session", "", func() {
		if ended := ours(t, "-C", r.file, "session", "end", "--user", "ann"); ended.code != 0 || ended.stdout != "1 session has ended.\n" {
			t.Errorf("%+v", ended)
		}
	})
	stop()
	all.Wait()
	for _, secret := range []string{"first password", "second password", "second at the door", "correct horse", "$argon2id"} {
		if strings.Contains(r.p.log(), secret) {
			t.Errorf("the log shows %q", secret)
		}
	}
}
