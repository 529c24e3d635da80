package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"swh-scheduler/internal/testenv"
)

// sha256Of returns the token_sha256 of a token.
func sha256Of(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// A running rpc-serve applies changes of its clients in the file. If a credential is replaced, the Python scheduler's
// client never fails. A removed client is refused. An invalid file has no effect.
func TestClientsFollowTheFile(t *testing.T) {
	t.Parallel()
	hash, err := bcrypt.GenerateFromPassword([]byte("s3cret"), 10)
	if err != nil {
		t.Fatal(err)
	}
	dsn := testenv.Database(t)
	file := configFile(t, "")
	write := func(clients string) {
		t.Helper()
		text := fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\nrpc_serve:\n  clients:\n%s", dsn, clients)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil { // written in place, as some editors do
			t.Fatal(err)
		}
	}
	lister := func(tokens ...string) string {
		for i, token := range tokens {
			tokens[i] = sha256Of(token)
		}
		return fmt.Sprintf("  - {name: gitlab, token_sha256: [%s], roles: [lister], listers: ['gitlab/*']}\n", strings.Join(tokens, ", "))
	}
	other := fmt.Sprintf("  - {name: web, user: webapp, password_hash: '%s', roles: [web]}\n", hash)
	write(lister("first") + other)
	p := startWith(t, []string{ownFile}, "-C", file, "rpc-serve", "--host", "127.0.0.1", "--port", "0")
	server := p.serverURL(t)

	stop, token := filepath.Join(t.TempDir(), "stop"), filepath.Join(t.TempDir(), "token")
	use := func(text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(token+".new", []byte(text), 0o600), os.Rename(token+".new", token)); err != nil {
			t.Fatal(err)
		}
	}
	use("first")
	cmd := exec.CommandContext(t.Context(), testenv.Python(t), "-c", `
import os, sys
from swh.scheduler import get_scheduler
from swh.scheduler.model import ListedOrigin
url, token_file, stop = sys.argv[1:]
calls, used, scheduler = 0, None, None
while not os.path.exists(stop):
    token = open(token_file).read()
    if token != used:
        print("uses", token, flush=True)
        scheduler = get_scheduler("remote", url=url, session_kwargs={"headers": {"Authorization": "Bearer " + token}}, enable_requests_retry=False)
        used = token
    lister = scheduler.get_or_create_lister("gitlab", "a")
    scheduler.record_listed_origins([ListedOrigin(lister_id=lister.id, url=f"https://x/{calls % 10}", visit_type="git")])
    calls += 1
print("made calls" if calls > 20 else calls)
`, server, token, stop)
	var out testenv.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	status := func(authorization ...string) string {
		out, _ := exec.CommandContext(t.Context(), "curl", append([]string{"-s", "-o", os.DevNull, "-w", "%{http_code}", "-X", "POST", "-H", "Content-Type: application/json", server + "/task_type/get_all"}, authorization...)...).Output()
		return string(out)
	}
	testenv.Shows(t, "uses first", out.String)
	if got := status("-u", "webapp:s3cret"); got != "200" {
		t.Errorf("the other client: %s", got)
	}

	write(lister("first", "second") + other)
	testenv.Becomes(t, "both credentials count", "403", func() string { return status("-u", "gitlab:second") })
	use("second")
	testenv.Shows(t, "uses second", out.String)
	write(lister("second") + other)
	testenv.Becomes(t, "the first one counts no more", "401", func() string { return status("-u", "gitlab:first") })

	write("  - {name: gitlab, token_sha256: s3cret, roles: [lister]}\n")
	p.logs(t, "the configuration has changed and can't be used; the clients stay as they were")
	if got := status("-u", "webapp:s3cret"); got != "200" {
		t.Errorf("the other client, with a wrong file: %s", got)
	}
	if err := os.WriteFile(file, []byte(fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", dsn)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.logs(t, "no clients and no credentials any more")
	if got := status(); got != "401" {
		t.Errorf("nobody, with a file without clients: %s", got)
	}

	write(lister("second"))
	testenv.Becomes(t, "the other client is refused", "401", func() string { return status("-u", "webapp:s3cret") })
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if want := "uses first\nuses second\nmade calls\n"; err != nil || out.String() != want {
			t.Errorf("%v\n%s", err, &out)
		}
	case <-time.After(testenv.Patience):
		t.Error("the Python client doesn't end")
	}
	for _, secret := range []string{"s3cret", sha256Of("second"), string(hash)} {
		if strings.Contains(p.log(), secret) {
			t.Errorf("the log shows %q:\n%s", secret, p.log())
		}
	}
	if !strings.Contains(p.log(), `msg="the configuration was read again" clients=1 added=[] removed=[web]`) {
		t.Errorf("the log doesn't say who was removed:\n%s", p.log())
	}
}

// config show prints clients without their credentials, as a valid configuration.
func TestConfigShowOfClients(t *testing.T) {
	t.Parallel()
	file := configFile(t, fmt.Sprintf(`
scheduler: {cls: postgresql, db: "host=127.0.0.1 port=1 dbname=x"}
rpc_serve:
  tls_certificate: c.pem
  tls_key: k.pem
  client_ca: ca.pem
  clients:
  - {name: gitlab, token_sha256: [%s, %s], roles: [lister], listers: ["gitlab/*"]}
  - {name: runner, certificate: "DNS:runner.example", roles: [daemon]}
  - {name: web, password_hash: "$2b$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW", roles: [web], task_types: ["load-*"]}
`, sha256Of("a"), sha256Of("b")))
	r := ours(t, "-C", file, "config", "show")
	if r.code != 0 || r.stderr != "" || strings.Contains(r.stdout, sha256Of("a")) || strings.Contains(r.stdout, "$2b$") {
		t.Errorf("%+v", r)
	}
	for _, want := range []string{"gitlab/*", "DNS:runner.example", "load-*", "client_ca: ca.pem", "[redacted]"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if again := ours(t, "-C", configFile(t, r.stdout), "config", "show"); again.code != 0 || again.stdout != r.stdout {
		t.Errorf("shown again, it is\n%s%s\nand not\n%s", again.stdout, again.stderr, r.stdout)
	}
}

// config check fails if rpc-serve would accept everybody, unless the file allows that explicitly. It also reads the
// files that rpc-serve's clients need.
func TestConfigCheckOfClients(t *testing.T) {
	t.Parallel()
	base := services(t)
	client := fmt.Sprintf("clients: [{name: a, token_sha256: %s, roles: reader}]", sha256Of("a"))
	for section, want := range map[string]string{
		"":                            "WRONG rpc_serve: everybody who reaches the port of rpc-serve can read and write the scheduler: give it clients, or write rpc_serve: {open: true}",
		"rpc_serve: {open: false}":    "WRONG rpc_serve: everybody who reaches",
		"rpc_serve: {open: true}":     "ok    rpc_serve: open: everybody who reaches its port may make all calls",
		"rpc_serve: {token: s3cret}":  "ok    rpc_serve: a credential that may make all calls, without TLS",
		"rpc_serve: {" + client + "}": "ok    rpc_serve: 1 client, without TLS",
		"rpc_serve: {token: s3cret, " + client + "}":                            "ok    rpc_serve: 1 client, a credential that may make all calls, without TLS",
		"rpc_serve: {tls_certificate: no.pem, tls_key: no.pem, " + client + "}": "WRONG rpc_serve: tls_certificate ",
	} {
		r := ours(t, "-C", configFile(t, base+section+"\n"), "config", "check")
		if !strings.Contains(r.stdout, want) || (r.code == 0) != strings.HasPrefix(want, "ok") || strings.Contains(r.stdout+r.stderr, "s3cret") {
			t.Errorf("%s: %+v, want %s", section, r, want)
		}
	}
	if r := ours(t, "-u", "http://127.0.0.1:1/", "config", "check"); strings.Contains(r.stdout, "rpc_serve") {
		t.Errorf("of a file with which rpc-serve can't run: %+v", r)
	}
}

// If rpc-serve accepts everybody beyond loopback, it warns at its start, and the dashboard shows a problem. An explicit
// setting or a list of clients ends both.
func TestOpenServerIsAProblem(t *testing.T) {
	t.Parallel()
	open := func(dsn string) string {
		var where string
		testenv.Becomes(t, "it is in the list of daemons", nil, func() error {
			return testenv.Connect(t, dsn).QueryRow(t.Context(), "select coalesce(state->>'open', '') from scheduler_go.daemons where name = 'rpc-serve' order by seen desc limit 1").Scan(&where)
		})
		return where
	}
	for section, want := range map[string]string{"": "0.0.0.0:", "rpc_serve: {open: true}": "", "rpc_serve: {token: s3cret}": ""} {
		dsn := testenv.Database(t)
		p := start(t, "-C", configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n%s\n", dsn, section)), "rpc-serve", "--port", "0")
		p.logs(t, "listening on all network interfaces")
		if got := open(dsn); !strings.HasPrefix(strings.ReplaceAll(got, "[::]", "0.0.0.0"), want) || (got == "") != (want == "") {
			t.Errorf("%q: open at %q, want %q", section, got, want)
		}
		if asks := strings.Contains(section, "token"); strings.Contains(p.log(), "whoever reaches this port can read and write the scheduler") == asks {
			t.Errorf("%q: %s", section, p.log())
		}
	}
}
