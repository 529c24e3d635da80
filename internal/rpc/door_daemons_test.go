package rpc

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/testenv"
)

// daemonClient is a client with the role daemon, for some daemons.
func daemonClient(name string, daemons ...string) config.Client {
	c := withToken(name, config.RoleDaemon)
	c.Daemons = daemons
	return c
}

// Through the door a client has the rights of its daemon, whatever name it sends. A client of two daemons has
// those of the one in application_name; a client without daemons has those of all. If its daemons change, its
// connections end and begin anew.
func TestDoorOfADaemon(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	openDoor(t, dsn)
	var next atomic.Pointer[[]config.Client]
	all := func(of ...string) []config.Client {
		return []config.Client{daemonClient("listener", of...), daemonClient("runner", "start-runner-first-visits"), daemonClient("two", "start-listener", "journal-client"), daemonClient("all")}
	}
	server := serve(t, dsn, func(o *Options) {
		o.Clients, o.followTime = all("start-listener"), 20*time.Millisecond
		o.Reread = func() (Credentials, []config.Client, bool, error) {
			if clients := next.Swap(nil); clients != nil {
				return Credentials{}, *clients, true, nil
			}
			return Credentials{}, nil, false, nil
		}
	})
	as := func(client, application string) *pgx.Conn {
		t.Helper()
		conn, err := pgx.ConnectConfig(t.Context(), throughDoor(t, server, application, "Authorization", "Bearer "+tokenOf(client)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	const read, write, record = "select from listed_origins", "update listed_origins set enabled = true where false", "update task_run set status = 'started' where false"
	stats := "insert into origin_visit_stats (url, visit_type) select 'x', 'git' where false"
	for _, c := range []struct {
		client, application string
		may, mayNot         []string
	}{
		{"listener", "application_name='swh-scheduler start-listener'", []string{record}, []string{read, write, stats}},
		{"listener", "application_name='swh-scheduler start-runner'", []string{record}, []string{read, write, stats}},
		{"listener", "user=postgres application_name='swh-scheduler rpc-serve' options='-c search_path=public'", []string{record}, []string{read, write, stats}},
		{"listener", "", []string{record}, []string{read, write, stats}},
		{"runner", "", []string{read, stats}, []string{write, record}},
		{"two", "application_name='swh-scheduler journal-client'", []string{read, write, stats}, []string{record}},
		{"two", "application_name='swh-scheduler start-listener'", []string{record}, []string{read, write}},
		{"two", "application_name='swh-scheduler start-runner'", []string{record}, []string{read, write}},
		{"all", "application_name='swh-scheduler start-listener'", []string{read, write, stats, record}, nil},
	} {
		conn := as(c.client, c.application)
		for _, statement := range c.may {
			testenv.Exec(t, conn, statement)
		}
		for _, statement := range c.mayNot {
			for _, before := range []string{"", "reset role; ", "reset session authorization; ", "discard all", "set role none; "} {
				if before == "discard all" {
					testenv.Exec(t, conn, before)
					before = ""
				}
				if _, err := conn.Exec(t.Context(), before+statement); err == nil || !strings.Contains(err.Error(), "permission denied for table") {
					t.Errorf("%s, %s: %s%s: %v", c.client, c.application, before, statement, err)
				}
			}
		}
	}

	listener, other := as("listener", ""), as("all", "")
	clients := all("journal-client")
	next.Store(&clients)
	testenv.Becomes(t, "the connection ends", true, func() bool { return listener.Ping(t.Context()) != nil })
	testenv.Exec(t, as("listener", ""), read)
	clients = all()
	next.Store(&clients)
	testenv.Becomes(t, "it works as all", "", func() string {
		conn, err := pgx.ConnectConfig(t.Context(), throughDoor(t, server, "", "Authorization", "Bearer "+tokenOf("listener")))
		if err == nil {
			defer conn.Close(context.Background())
			_, err = conn.Exec(t.Context(), record)
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
	testenv.Exec(t, other, read) // goes on
	if response, _ := post(t, server+"/origins/get", mimeJSON, []byte(`{}`), "Authorization", "Bearer "+tokenOf("two")); response.StatusCode != http.StatusOK {
		t.Errorf("journal-client's read of origins: %d", response.StatusCode)
	}
}
