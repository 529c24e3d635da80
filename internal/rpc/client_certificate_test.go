package rpc

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/rpc/door"
	"swh-scheduler/internal/testenv"
)

// withCertificates serves a server with an authority of clients and its own certificate, both of one authority, and
// returns what the directory's files are written with. In it are ca.pem, and web.pem with the certificate and key of
// the client web, which is also for the journal client.
func withCertificates(t *testing.T) (server, dir string, ca testenv.Pair) {
	t.Helper()
	log := new(testenv.Buffer)
	dir, ca = t.TempDir(), testenv.Authority(t)
	served, mine := ca.Issue(t, "127.0.0.1"), ca.Issue(t, "webapp.example")
	for name, text := range map[string]string{"ca.pem": ca.PEM, "served.pem": served.PEM, "served.key": served.KeyPEM, "web.pem": mine.PEM + mine.KeyPEM} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	encryption, err := TLS(filepath.Join(dir, "served.pem"), filepath.Join(dir, "served.key"), log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	authority, err := NewAuthority(filepath.Join(dir, "ca.pem"), log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	dsn := testenv.Database(t)
	openDoor(t, dsn)
	server = serve(t, dsn, func(o *Options) {
		o.TLS, o.ClientCA, o.Log = encryption, authority, log.Logger()
		o.Clients = []config.Client{
			{Name: "web", Certificate: []string{"DNS:webapp.example"}, Roles: []string{config.RoleWeb, config.RoleDaemon}, Daemons: []string{"journal-client"}},
			withToken("token", config.RoleReader, config.RoleDaemon),
		}
	})
	return server, dir, ca
}

// Our client and the daemons' door connections send a client certificate, read anew for each connection, or a
// header. The error of a wrong file names it.
func TestClientShowsItsCertificate(t *testing.T) {
	t.Parallel()
	server, dir, ca := withCertificates(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	shows := door.Credentials{Certificate: file("web.pem"), Key: file("web.pem"), Authorities: file("ca.pem")}
	reads := func(shows door.Credentials) error {
		client, err := NewClientWith(server, shows)
		if err != nil {
			return err
		}
		defer client.Close()
		_, err = client.TaskTypes(t.Context())
		return err
	}
	enters := func(shows door.Credentials) error {
		address, err := door.Parse(server)
		if err == nil {
			address, err = address.With(shows)
		}
		if err != nil {
			return err
		}
		through, err := pgx.ParseConfig("host=127.0.0.1 sslmode=disable user=x dbname=y")
		if err != nil {
			t.Fatal(err)
		}
		through.DialFunc = address.Dial(through.DialFunc)
		conn, err := pgx.ConnectConfig(t.Context(), through)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(context.Background()) }()
		return conn.Ping(t.Context())
	}
	renewed, strange := ca.Issue(t, "webapp.example"), testenv.Authority(t).Issue(t, "webapp.example")
	token := door.Credentials{Authorities: file("ca.pem"), Authorization: "Bearer " + tokenOf("token")}
	none := door.Credentials{Authorities: file("ca.pem")}
	const refused = "refused"
	for _, way := range []func(door.Credentials) error{reads, enters} {
		for _, c := range []struct {
			what, in string
			shows    door.Credentials
			says     string // "" if it is let in
		}{
			{"the certificate", "", shows, ""},
			{"a renewed one", renewed.PEM + renewed.KeyPEM, shows, ""},
			{"a stranger's", strange.PEM + strange.KeyPEM, shows, refused},
			{"another key", renewed.PEM + strange.KeyPEM, shows, "web.pem with the key of"},
			{"no certificate", "x", shows, "web.pem with the key of"},
			{"a token", "", token, ""},
			{"nothing", "", none, refused},
			{"an authority that is not there", "", door.Credentials{Authorities: file("none.pem")}, "verify: open "},
			{"no authority", "", door.Credentials{Authorities: file("served.key")}, "there is no certificate in it"},
			{"a server of nobody", "", door.Credentials{Certificate: shows.Certificate, Key: shows.Key}, "certificate signed by unknown authority"},
		} {
			if c.in != "" {
				if err := errors.Join(os.WriteFile(file("new"), []byte(c.in), 0o600), os.Rename(file("new"), file("web.pem"))); err != nil {
					t.Fatal(err)
				}
			}
			if c.what == "a server of nobody" {
				if err := os.WriteFile(file("web.pem"), []byte(renewed.PEM+renewed.KeyPEM), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := way(c.shows); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) &&
				!(c.says == refused && (strings.Contains(err.Error(), "Unauthorized: ") || strings.Contains(err.Error(), "(HTTP status 401)"))) {
				t.Errorf("%s: %v, want %q", c.what, err, c.says)
			}
		}
	}
	// Nobody is sent the header elsewhere.
	var sent string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent = r.Header.Get("Authorization") }))
	defer elsewhere.Close()
	redirecting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1), http.StatusTemporaryRedirect)
	}))
	defer redirecting.Close()
	client, err := NewClientWith(redirecting.URL, door.Credentials{Authorization: token.Authorization})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, _ = client.TaskTypes(t.Context()); sent != "" {
		t.Errorf("it sent %q elsewhere", sent)
	}
}

// The Python scheduler's client sends the certificate of its configuration: session_kwargs, whose cert is one
// file.
func TestPythonClientCertificate(t *testing.T) {
	t.Parallel()
	server, dir, _ := withCertificates(t)
	cmd := exec.CommandContext(t.Context(), testenv.Python(t), "-c", `
import sys
from swh.core.api import RemoteException
from swh.scheduler import get_scheduler
url, d = sys.argv[1:]
scheduler = get_scheduler("remote", url=url, session_kwargs={"cert": d + "/web.pem", "verify": d + "/ca.pem"})
print(scheduler.get_listers())
try:
    scheduler.disable_tasks([1])
except RemoteException as e:
    print(e.args[0]["message"])
try:
    get_scheduler("remote", url=url, session_kwargs={"verify": d + "/ca.pem"}).get_listers()
except RemoteException as e:
    print(e.response.status_code)
`, server, dir)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { // which count for more than verify
		return strings.HasPrefix(variable, "REQUESTS_CA_BUNDLE=") || strings.HasPrefix(variable, "CURL_CA_BUNDLE=")
	})
	out, err := cmd.CombinedOutput()
	if want := "[]\nThe client web may not call task/disable: it needs the role operator.\n401\n"; err != nil || string(out) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
}
