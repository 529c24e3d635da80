package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"swh-scheduler/internal/testenv"
)

// On cls: remote, commands and daemons send the certificate of their configuration to an rpc-serve with client_ca. Its
// path is relative to the configuration. With a listener's certificate, the listener works.
func TestRemoteWithACertificate(t *testing.T) {
	t.Parallel()
	dsn, mq, dir := testenv.Database(t), testenv.RabbitMQ(t), t.TempDir()
	ca := testenv.Authority(t)
	served, listener, operator := ca.Issue(t, "127.0.0.1"), ca.Issue(t, "listener.example"), ca.Issue(t, "ann.example")
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, text := range map[string]string{
		"ca.pem": ca.PEM, "served.crt": served.PEM, "served.key": served.KeyPEM,
		"listener.crt": listener.PEM, "listener.key": listener.KeyPEM, "ann.pem": operator.PEM + operator.KeyPEM,
	} {
		write(name, text)
	}
	execute(t, dsn, someTaskTypes)
	openDoor(t, dsn)
	server := write("server.yml", fmt.Sprintf(`
scheduler: {cls: postgresql, db: %q}
rpc_serve:
  tls_certificate: served.crt
  tls_key: served.key
  client_ca: ca.pem
  clients:
  - {name: ann, certificate: "DNS:ann.example", roles: [operator]}
  - {name: listener, certificate: "DNS:listener.example", roles: [daemon], daemons: [start-listener]}
`, dsn))
	p := startWith(t, []string{ownFile}, "-C", server, "rpc-serve", "--host", "127.0.0.1", "--port", "0")
	url := strings.Replace(p.serverURL(t), "http://", "https://", 1)
	if r := ours(t, "-C", server, "config", "check", "--for", "rpc-serve"); !strings.Contains(r.stdout, "ok    door: open since ") {
		t.Errorf("%+v", r)
	}
	remote := func(name, shows string) string {
		return write(name, fmt.Sprintf("scheduler: {cls: remote, url: %q, session_kwargs: {%s}}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n", url, shows, mq.URL, mq.ManagementURL))
	}
	ann := remote("ann.yml", "cert: ann.pem, verify: ca.pem")
	if r := ours(t, "-C", ann, "task-type", "list"); r.code != 0 || !strings.Contains(r.stdout, "bare") {
		t.Errorf("%+v", r)
	}
	if r := ours(t, "-C", ann, "config", "show"); r.code != 0 || !strings.Contains(r.stdout, "ann.pem") || !strings.Contains(r.stdout, "verify: ca.pem") {
		t.Errorf("%+v", r)
	}
	if r := ours(t, "-C", remote("none.yml", "verify: ca.pem"), "task-type", "list"); r.code == 0 || !strings.Contains(r.stderr, "Unauthorized") {
		t.Errorf("%+v", r)
	}
	if r := ours(t, "-C", remote("wrong.yml", "cert: [ann.pem, listener.key], verify: ca.pem"), "task-type", "list"); r.code == 0 || !strings.Contains(r.stderr, "scheduler.session_kwargs") || !strings.Contains(r.stderr, "listener.key") {
		t.Errorf("%+v", r)
	}
	own := remote("listener.yml", "cert: [listener.crt, listener.key], verify: ca.pem")
	l := startWith(t, []string{ownFile}, "-C", own, "start-listener")
	l.logs(t, "msg=started")
	conn := testenv.Connect(t, dsn)
	testenv.Becomes(t, "the listener works in its role", true, func() bool {
		return testenv.Value[bool](t, conn, "select exists (select from pg_stat_activity where usename = 'scheduler_go_by_door_start-listener_' || current_database())")
	})
	testenv.Becomes(t, "its jobs are done", true, func() bool {
		return testenv.Value[bool](t, conn, "select count(*) = 2 from scheduler_go.keeper where job in ('graphs', 'count of runs') and seconds > 0 and not failed")
	})
	l.stop(t, syscall.SIGTERM)
	if log := l.log(); strings.Contains(log, "permission denied") {
		t.Error("it lacks rights")
	}
}
