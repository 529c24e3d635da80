package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"swh-scheduler/internal/rpc/door"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/postgres"
)

// Through the door a client has the door's role on the database, whatever user and database it names.
func TestDoor(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	openDoor(t, dsn)
	conn := enter(t, serve(t, dsn), "application_name=someone")
	var user, database, name string
	if err := conn.QueryRow(t.Context(), "select current_user, current_database(), current_setting('application_name')").Scan(&user, &database, &name); err != nil {
		t.Fatal(err)
	}
	wanted := testenv.URL(t, dsn).Path[1:]
	if user != "scheduler_go_door_"+wanted || database != wanted || name != "someone" {
		t.Errorf("%s on %s, as %s", user, database, name)
	}
}

// COPY in both directions, notices and notifications pass through the door.
func TestDoorPassesAllOfTheProtocol(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	openDoor(t, dsn)
	server := serve(t, dsn)
	config := throughDoor(t, server, "")
	var notices []string
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notices = append(notices, n.Message) }
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	testenv.Exec(t, conn, "create temp table much (n int, text text); do $$ begin raise notice 'noted'; end $$; listen there")
	const rows = 20_000
	if n, err := conn.CopyFrom(t.Context(), pgx.Identifier{"much"}, []string{"n", "text"}, pgx.CopyFromSlice(rows, func(i int) ([]any, error) {
		return []any{i, strings.Repeat("x", 100)}, nil
	})); err != nil || n != rows {
		t.Fatal(n, err)
	}
	var out bytes.Buffer
	if _, err := conn.PgConn().CopyTo(t.Context(), &out, "copy much to stdout"); err != nil || bytes.Count(out.Bytes(), []byte("\n")) != rows {
		t.Errorf("%d bytes came back: %v", out.Len(), err)
	}
	if n := len(testenv.Column[string](t, conn, "select text from much")); n != rows {
		t.Errorf("%d rows", n)
	}
	testenv.Exec(t, enter(t, server, ""), "notify there, 'something'")
	notification, err := conn.WaitForNotification(t.Context())
	if err != nil || notification.Payload != "something" || len(notices) != 1 || notices[0] != "noted" {
		t.Errorf("%v %v %q", notification, err, notices)
	}
}

// The response of a closed door differs from that to other requests. Once the door is opened, a running server
// accepts connections.
func TestClosedDoor(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	server := serve(t, dsn, func(o *Options) { o.Credentials = Credentials{Username: "u", Password: "p"} })
	const login = "Basic dTpw"
	for _, c := range []struct {
		upgrade, login, origin string
		status                 int
		says                   string
	}{
		{"postgresql", "", "", http.StatusUnauthorized, ""},
		{"postgresql", "Basic dTpx", "", http.StatusUnauthorized, ""},
		{"", login, "", http.StatusUpgradeRequired, "Upgrade: postgresql"},
		{"websocket", login, "", http.StatusUpgradeRequired, "Upgrade: postgresql"},
		{"postgresql", login, "https://evil.example", http.StatusForbidden, ""},
		{"postgresql", login, "", http.StatusNotFound, "swh-scheduler migrate --door"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+door.Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Upgrade": c.upgrade, "Authorization": c.login, "Origin": c.origin} {
			if value != "" {
				request.Header.Set(name, value)
			}
		}
		if response, body := do(t, request); response.StatusCode != c.status || !strings.Contains(string(body), c.says) {
			t.Errorf("%+v: %d %s", c, response.StatusCode, body)
		}
	}
	openDoor(t, dsn)
	testenv.Becomes(t, "it lets in", "", func() string {
		conn, err := pgx.ConnectConfig(t.Context(), throughDoor(t, server, "", "Authorization", login))
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(conn.Close(t.Context()))[:0]
	})
	conn, err := pgx.ConnectConfig(t.Context(), throughDoor(t, server, "", "Authorization", login))
	if err != nil {
		t.Fatal(err)
	}
	testenv.Migrate(t, dsn, migrate.Options{Door: migrate.DoorClosed})
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("a session goes on after the door was closed")
	}
	testenv.Becomes(t, "it is closed", true, func() bool {
		_, err := knock(t.Context(), server, "Authorization", login)
		return err != nil && strings.Contains(err.Error(), "404")
	})
}

// refusal returns the error with which PostgreSQL's client is refused.
func refusal(t *testing.T, config *pgx.ConnConfig) *pgconn.PgError {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err == nil {
		_ = conn.Close(t.Context())
		t.Fatal("it was let in")
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		t.Fatal(err)
	}
	return refused
}

// A client that doesn't send a start-up message gets an error that names the fault.
func TestDoorStartup(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	openDoor(t, dsn)
	server := serve(t, dsn, func(o *Options) { o.doorTimes.Start = 300 * time.Millisecond })
	for parameter, value := range map[string]string{"replication": "database", "role": "postgres", "session_authorization": "postgres"} {
		config := throughDoor(t, server, "")
		config.RuntimeParams[parameter] = value
		if refused := refusal(t, config); refused.Code != "42704" || !strings.Contains(refused.Message, parameter) {
			t.Errorf("%s: %v", parameter, refused)
		}
	}
	config := throughDoor(t, server, "")
	config.RuntimeParams["options"] = "-c role=postgres"
	if refused := refusal(t, config); refused.Code != "42501" {
		t.Errorf("a role in options: %v", refused)
	}

	// Asked for encryptions it says no, and goes on; a newer protocol is negotiated.
	conn, err := knock(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, ask := range []pgproto3.FrontendMessage{&pgproto3.SSLRequest{}, &pgproto3.GSSEncRequest{}} {
		answer := make([]byte, 1)
		message, _ := ask.Encode(nil)
		if _, err := conn.Write(message); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, answer); err != nil || answer[0] != 'N' {
			t.Fatalf("%q %v", answer, err)
		}
	}
	frontend := pgproto3.NewFrontend(conn, conn)
	frontend.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion32, Parameters: map[string]string{"user": "x", "_pq_.news": "on"}})
	frontend.SendQuery(&pgproto3.Query{String: "select 1"}) // without waiting for the answer
	if err := frontend.Flush(); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for ready := 0; ready < 2; {
		message, err := frontend.Receive()
		if err != nil {
			t.Fatal(err)
		}
		switch m := message.(type) {
		case *pgproto3.NegotiateProtocolVersion:
			kinds = append(kinds, fmt.Sprint(m.NewestMinorProtocol, m.UnrecognizedOptions))
		case *pgproto3.DataRow:
			kinds = append(kinds, string(m.Values[0]))
		case *pgproto3.ReadyForQuery:
			ready++
		}
	}
	if fmt.Sprint(kinds) != "[0 [_pq_.news] 1]" {
		t.Errorf("%q", kinds)
	}

	// Something else, and nothing at all.
	for _, sent := range []string{"GET / HTTP/1.1\r\n\r\n", "\x00\x00\x00\x08\x00\x09\x00\x00", "\x7f\xff\xff\xff", "\x00\x00\x00\x04", "\x00\x00", ""} {
		conn, err := knock(t.Context(), server)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(sent))
		began := time.Now()
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		answer, err := io.ReadAll(conn)
		if _, reset := errors.AsType[*net.OpError](err); err != nil && !reset || time.Since(began) > 10*time.Second {
			t.Errorf("%q: %v after %s", sent, err, time.Since(began))
		}
		if len(answer) > 0 && !bytes.Contains(answer, []byte("08P01")) {
			t.Errorf("%q: %q", sent, answer)
		}
		_ = conn.Close()
	}
}

// A cancel request ends the statement, whichever RPC server receives it.
func TestDoorCancels(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	openDoor(t, dsn)
	conn, other := enter(t, serve(t, dsn), ""), serve(t, dsn)
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.WithoutCancel(t.Context()), "select pg_sleep(60)")
		ended <- err
	}()
	watch := testenv.Connect(t, dsn)
	testenv.Becomes(t, "running", 1, func() int {
		return testenv.Value[int](t, watch, "select count(*)::int from pg_stat_activity where pid = $1 and state = 'active' and query like '%sleep%'", conn.PgConn().PID())
	})
	way, err := knock(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	request := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 16, 4, 210, 22, 46}, conn.PgConn().PID())
	if _, err := way.Write(append(request, conn.PgConn().SecretKey()...)); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "57014") {
		t.Error(err)
	}
	_ = way.Close()
	if err := conn.Ping(t.Context()); err != nil {
		t.Errorf("the session has ended: %v", err)
	}
}

// Connections are bounded in all, by client and by address, and the error names the limit. A closed connection
// makes room.
func TestDoorLimits(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	openDoor(t, dsn)
	for limit, limits := range map[string]door.Limits{
		"max_connections": {Connections: 2}, "max_per_client": {PerClient: 2}, "max_per_address": {PerAddress: 2},
	} {
		registry := prometheus.NewRegistry()
		server := serve(t, dsn, func(o *Options) { o.DoorLimits, o.Registry = limits, registry })
		first := enter(t, server, "application_name=a")
		enter(t, server, "application_name=a")
		if refused := refusal(t, throughDoor(t, server, "application_name=a")); refused.Code != "53300" || !strings.Contains(refused.Message, "rpc_serve.door."+limit) {
			t.Errorf("%s: %v", limit, refused)
		}
		if limit == "max_per_client" {
			enter(t, server, "application_name=b")
		}
		want := `
			# HELP swh_scheduler_rpc_door_opened_total Connections to the database through the RPC server, by client.
			# TYPE swh_scheduler_rpc_door_opened_total counter
			swh_scheduler_rpc_door_opened_total{client="a"} 2
		`
		if limit != "max_per_client" {
			if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "swh_scheduler_rpc_door_opened_total"); err != nil {
				t.Error(err)
			}
		}
		_ = first.Close(t.Context())
		testenv.Becomes(t, limit+": there is room", "", func() string {
			conn, err := pgx.ConnectConfig(t.Context(), throughDoor(t, server, "application_name=a"))
			if err != nil {
				return err.Error()
			}
			_ = conn.Close(t.Context())
			return ""
		})
	}
}

// The user of rpc_serve.door.db must not own the schema. Behind a pooler the door leads to the server itself,
// if its address is known.
func TestDoorRole(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	as := testenv.AsDoor(t, dsn)
	pooled := testenv.PgBouncer(t, dsn)
	for name, c := range map[string]struct {
		options postgres.Options
		dsn     string
		door    string
		code    string
	}{
		"the owner":     {dsn: dsn, door: dsn, code: "28000"},
		"another user":  {dsn: dsn, door: as},
		"no such user":  {dsn: dsn, door: strings.Replace(as, "scheduler_go_door", "nobody", 1), code: "28000"},
		"direct":        {dsn: pooled, options: postgres.Options{Direct: dsn}},
		"only a pooler": {dsn: pooled, door: testenv.PgBouncer(t, as), code: "28000"},
	} {
		store, err := db.Open(t.Context(), c.dsn, c.options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		way, err := migrate.NewDoor(store.DB, c.door)
		if err != nil {
			t.Fatal(err)
		}
		config := throughDoor(t, serve(t, dsn, func(o *Options) { o.Store, o.Door = store, way }), "")
		if c.code != "" {
			if refused := refusal(t, config); refused.Code != c.code {
				t.Errorf("%s: %v", name, refused)
			}
			continue
		}
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = conn.Close(t.Context())
	}
}

// A running server uses a new password of the door's role at once, and PostgreSQL refuses a wrong one.
func TestDoorPasswordChanges(t *testing.T) {
	t.Parallel()
	dsn := testenv.PostgresServer(t)
	admin := testenv.Connect(t, dsn)
	file := testenv.Value[string](t, admin, "select current_setting('hba_file')")
	if err := os.WriteFile(file, []byte("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	testenv.Exec(t, admin, "select pg_reload_conf()")
	testenv.Migrate(t, dsn, migrate.Options{Door: migrate.DoorOpened})
	server := serve(t, dsn)
	for range 3 {
		testenv.Exec(t, enter(t, server, ""), "select from task")
		testenv.Migrate(t, dsn, migrate.Options{Door: migrate.DoorOpened})
	}
	store := openStore(t, dsn)
	way, err := migrate.NewDoor(store.DB, "")
	if err != nil {
		t.Fatal(err)
	}
	config, err := way.Config(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	config.Password += "x"
	_, err = pgconn.ConnectConfig(t.Context(), config)
	if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "28P01" {
		t.Errorf("with another password: %v", err)
	}
}
