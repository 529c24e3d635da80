package main

import (
	"fmt"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// migrate --status and config check report whether the door is open, and for which role. They also report missing
// rights, needless rights, and a failed connection.
func TestStatusOfTheDoor(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	config, mq := databaseConfig(t, dsn), testenv.RabbitMQ(t)
	checked := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\nrpc_serve: {open: true}\n", dsn, mq.URL, mq.ManagementURL))
	says := func(status, check string) {
		t.Helper()
		if r := ours(t, "-C", config, "migrate", "--status"); r.code != 0 || !strings.Contains(r.stdout, "  door: "+status) {
			t.Errorf("%+v, want %q", r, status)
		}
		r := ours(t, "-C", checked, "config", "check")
		if has := strings.Contains(r.stdout, "door: "); !strings.Contains(r.stdout, check) || has != (check != "") || (r.code != 0) != strings.HasPrefix(check, "WRONG") {
			t.Errorf("%+v, want %q", r, check)
		}
	}
	says(`closed ("swh-scheduler migrate --door" opens it)`, "")
	openDoor(t, dsn)
	role := "scheduler_go_door_" + testenv.URL(t, dsn).Path[1:]
	open := "open since " + value(t, dsn, `select to_char(opened at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') from scheduler_go.door`) + ", for the role " + role
	says(open+"\n", "ok    door: "+open+"\n")
	for _, c := range []struct{ do, undo, wrong string }{
		{"revoke insert on task_run from %s", "grant insert on task_run to %s", "its user " + role + " lacks rights, which the owner can grant: INSERT on table public.task_run"},
		{"alter role %s createdb", "alter role %s nocreatedb", "the role of the door can't be used: it may make databases (CREATEDB)"},
		{"alter role %s nologin", "alter role %s login", "is not permitted to log in"},
	} {
		execute(t, dsn, fmt.Sprintf(c.do, role))
		says(open+", which can't be used: ", "WRONG door: ")
		if r := ours(t, "-C", config, "migrate", "--status"); !strings.Contains(r.stdout, c.wrong) {
			t.Errorf("%s: %s", c.do, r.stdout)
		}
		execute(t, dsn, fmt.Sprintf(c.undo, role))
	}
	says(open+"\n", "ok    door: "+open+"\n")

	// The door has another user, who owns the schema or lacks rights.
	_, poor := poorRole(t, dsn)
	for user, want := range map[string]string{
		dsn:                    "WRONG rpc_serve.door.db: the role of the door can't be used: it is a superuser",
		poor:                   "WRONG rpc_serve.door.db: PostgreSQL (",
		testenv.AsDoor(t, dsn): "ok    rpc_serve.door.db: PostgreSQL (",
	} {
		r := ours(t, "-C", configFile(t, strings.Replace(string(testenv.Read(t, checked)), "rpc_serve: {open: true}", fmt.Sprintf("rpc_serve: {open: true, door: {db: %q}}", user), 1)), "config", "check")
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%+v, want %q", r, want)
		}
	}
}

// For a remote daemon, config check reports whether the RPC server has a door, whether it is open, and whether it
// accepts the daemon. It also says what to do.
func TestConfigCheckOfARemoteDoor(t *testing.T) {
	t.Parallel()
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	server := ourServer(t, dsn)
	says := func(url, want string) {
		t.Helper()
		r := ours(t, "-C", remoteConfig(t, url, mq, ""), "config", "check")
		if !strings.Contains(r.stdout, want) || strings.Contains(r.stdout+r.stderr, "s3cret") || strings.Contains(r.stdout+r.stderr, "wr0ng") {
			t.Errorf("%+v, want %q", r, want)
		}
	}
	says(server, `has a closed door to its database: its owner opens it by "swh-scheduler migrate --door"`)
	says(pythonServer(t, "scheduler", dsn), "has no door to its database: replace the RPC server first, or give this daemon a database (scheduler.db)")
	openDoor(t, dsn)
	says(doorServer(t, dsn), "ok    scheduler: the database of RPC server ")
	p := start(t, "-C", configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\nrpc_serve: {username: u, password: s3cret}\n", dsn)), "rpc-serve", "--host", "127.0.0.1", "--port", "0")
	host := strings.TrimPrefix(p.serverURL(t), "http://")
	says("http://"+host, "refuses the credentials in scheduler.url (HTTP status 401): there are none; write those that it has for daemons, as http://USER:PASSWORD@HOST:PORT/")
	says("http://u:wr0ng@"+host, "refuses the credentials in scheduler.url (HTTP status 401): write those that it has for daemons")
	says("http://u:s3cret@"+host, "ok    scheduler: the database of RPC server ")
}
