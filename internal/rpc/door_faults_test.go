package rpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/rpc/door"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/postgres"
)

// stoppable starts a server with an open door, and returns its address and what stops it. The cleanup of a
// test stops it, too.
func stoppable(t *testing.T, dsn string, grace time.Duration) (server string, stop context.CancelFunc, ended <-chan error) {
	t.Helper()
	openDoor(t, dsn)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	s, err := Listen(t.Context(), Options{Address: "127.0.0.1:0", Store: openStore(t, dsn), Log: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- service.Group{Log: log, Grace: grace}.Run(ctx, service.Component{Name: "RPC server", Run: s.Run})
		close(done)
	}()
	t.Cleanup(func() {
		stop()
		for range done {
		}
	})
	return "http://" + s.Addr().String(), stop, done
}

// endOf returns the SQLSTATE of the error that ends a connection; "closed" if there is none.
func endOf(conn *pgx.Conn) string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := conn.WaitForNotification(ctx)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refused.Code
	}
	if ctx.Err() != nil {
		return "open"
	}
	return "closed"
}

// A server that stops ends idle connections at once, and others after their transactions.
func TestDoorStopsBetweenTransactions(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	server, stop, ended := stoppable(t, dsn, time.Minute)
	idle, open, busy := enter(t, server, ""), enter(t, server, ""), enter(t, server, "")
	testenv.Exec(t, idle, "listen there")
	testenv.Exec(t, open, "begin")
	testenv.Exec(t, open, "insert into task_type (type, description, backend_name) values ('t', 'd', 'b')")
	answer := make(chan error, 1)
	holder := testenv.Connect(t, dsn)
	testenv.Exec(t, holder, "select pg_advisory_lock(4711)")
	go func() {
		_, err := busy.Exec(context.Background(), "select pg_advisory_lock(4711)")
		answer <- err
	}()
	testenv.Becomes(t, "waits", 1, func() int {
		return testenv.Value[int](t, holder, "select count(*)::int from pg_locks where not granted and locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())")
	})
	stop()
	if got := endOf(idle); got != "57P01" {
		t.Errorf("an idle connection: %s", got)
	}
	testenv.Becomes(t, "a new connection is refused", true, func() bool {
		_, err := knock(t.Context(), server)
		return err != nil
	})
	select {
	case err := <-ended:
		t.Fatalf("it did not wait for the transaction: %v", err)
	default:
	}
	for _, statement := range []string{"select 1", "insert into task_type (type, description, backend_name) values ('u', 'd', 'b')", "commit"} {
		if _, err := open.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if got := endOf(open); got != "57P01" {
		t.Errorf("after the commit: %s", got)
	}
	testenv.Exec(t, holder, "select pg_advisory_unlock(4711)")
	if err := <-answer; err != nil {
		t.Errorf("a statement outside of a transaction: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := testenv.Value[int](t, holder, "select count(*)::int from task_type where type in ('t', 'u')"); n != 2 {
		t.Errorf("%d rows were committed", n)
	}
}

// A transaction that outlasts the grace period is cut off and rolled back.
func TestDoorStopsInTime(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	server, stop, ended := stoppable(t, dsn, 300*time.Millisecond)
	conn := enter(t, server, "")
	testenv.Exec(t, conn, "begin")
	testenv.Exec(t, conn, "insert into task_type (type, description, backend_name) values ('t', 'd', 'b')")
	stop()
	if got := endOf(conn); got != "closed" {
		t.Error(got)
	}
	<-ended
	watch := testenv.Connect(t, dsn)
	testenv.Becomes(t, "sessions", 0, func() int {
		return testenv.Value[int](t, watch, "select count(*)::int from pg_stat_activity where usename like 'scheduler_go_door_%' and datname = current_database()")
	})
	if n := testenv.Value[int](t, watch, "select count(*)::int from task_type where type = 't'"); n != 0 {
		t.Error("it was committed")
	}
}

// sessionsOf counts the sessions of the door's role.
func sessionsOf(t *testing.T, watch *pgx.Conn) int {
	t.Helper()
	return testenv.Value[int](t, watch, "select count(*)::int from pg_stat_activity where usename like 'scheduler_go_door_%' and datname = current_database()")
}

// If a client's connection breaks, its database session ends at once, also within a transaction or a statement.
// Its locks are free.
func TestDoorLosesClient(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	openDoor(t, dsn)
	server := serve(t, dsn)
	through, way := testenv.Through(t, server, testenv.Proxy)
	watch := testenv.Connect(t, dsn)
	open, busy := enter(t, through, ""), enter(t, through, "")
	testenv.Exec(t, open, "begin")
	testenv.Exec(t, open, "insert into task_type (type, description, backend_name) values ('t', 'd', 'b')")
	go func() {
		_, _ = busy.Exec(context.Background(), "do $$ begin perform pg_advisory_xact_lock(4712); perform pg_sleep(60); end $$")
	}()
	testenv.Becomes(t, "runs", 1, func() int {
		return testenv.Value[int](t, watch, "select count(*)::int from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()")
	})
	if n := sessionsOf(t, watch); n != 2 {
		t.Fatalf("%d sessions", n)
	}
	began := time.Now()
	way.Cut()
	testenv.Becomes(t, "sessions", 0, func() int { return sessionsOf(t, watch) })
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the sessions ended after %s", took)
	}
	if n := testenv.Value[int](t, watch, "select count(*)::int from task_type where type = 't'"); n != 0 {
		t.Error("it was committed")
	}
}

// If the database ends a session, is unreachable or is silent, the client gets an error. It can connect again once
// the database is back.
func TestDoorLosesDatabase(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	openDoor(t, dsn)
	through, way := testenv.Through(t, dsn, testenv.Proxy)
	server := serve(t, through, func(o *Options) { o.doorTimes.Start = time.Second })
	watch := testenv.Connect(t, dsn)

	killed := enter(t, server, "")
	testenv.Exec(t, watch, "select pg_terminate_backend($1)", killed.PgConn().PID())
	if got := endOf(killed); got != "57P01" {
		t.Errorf("killed: %s", got)
	}
	cut := enter(t, server, "")
	way.Cut()
	if got := endOf(cut); got != "closed" {
		t.Errorf("cut: %s", got)
	}
	if _, err := pgx.ConnectConfig(t.Context(), throughDoor(t, server, "")); err == nil || !postgres.IsUnreachable(err) {
		t.Errorf("while it is away: %v", err)
	}
	way.Restore()
	testenv.Becomes(t, "it lets in again", "", func() string {
		conn, err := pgx.ConnectConfig(t.Context(), throughDoor(t, server, ""))
		if err != nil {
			return err.Error()
		}
		_ = conn.Close(t.Context())
		return ""
	})
	silenced := enter(t, server, "")
	way.Silence(true)
	began := time.Now()
	_, err := pgx.ConnectConfig(t.Context(), throughDoor(t, server, ""))
	if err == nil || !postgres.IsUnreachable(err) || time.Since(began) > 15*time.Second {
		t.Errorf("while it is silent: %v after %s", err, time.Since(began))
	}
	way.Cut()
	way.Restore()
	if got := endOf(silenced); got != "closed" {
		t.Errorf("silent, then cut: %s", got)
	}
}

// A client that is silent in a transaction loses it after the database's time limit. One that is silent outside of
// a transaction is disconnected.
func TestDoorEndsSilentClients(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	openDoor(t, dsn)
	server := serve(t, dsn, func(o *Options) { o.doorTimes.Idle = time.Second })
	through, way := testenv.Through(t, server, testenv.Proxy)
	watch := testenv.Connect(t, dsn)
	open, idle := enter(t, through, ""), enter(t, through, "")
	testenv.Exec(t, open, "set idle_in_transaction_session_timeout = '1s'; begin; lock table task")
	testenv.Exec(t, idle, "select 1")
	way.Silence(false)
	testenv.Becomes(t, "sessions", 0, func() int { return sessionsOf(t, watch) })
	if got := endOf(enter(t, server, "")); got != "57P05" {
		t.Errorf("idle: %s", got)
	}
}

// A statement may take longer than a proxy's idle limit, and the client gets its whole result. The server sends
// keepalives between messages, also between rows and while the connection is idle.
func TestDoorKeepsSilentStatements(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	openDoor(t, dsn)
	const idle = time.Second
	server := serve(t, dsn, func(o *Options) { o.doorTimes.Alive = idle / 10 })
	proxy := testenv.Balance(t, idle, testenv.Host(t, server))
	address, err := door.Parse("http://" + proxy.Addr)
	if err != nil {
		t.Fatal(err)
	}
	daemons := throughDoor(t, server, "")
	daemons.DialFunc = address.Dial(new(net.Dialer).DialContext)
	for name, config := range map[string]*pgx.ConnConfig{"pgx": throughDoor(t, "http://"+proxy.Addr, ""), "as daemons connect": daemons} {
		for _, statement := range []string{
			"select pg_sleep(1.5)",
			// PostgreSQL sends parts of 8 KiB, so it is silent in the midst of a message, too.
			"select repeat('x', 3000) || pg_sleep(0.6)::text from generate_series(1, 6)",
			"begin; select pg_sleep(1.5); select 1",
			"", // the client is silent, too
		} {
			t.Run(name+": "+statement, func(t *testing.T) {
				t.Parallel()
				conn, err := pgx.ConnectConfig(t.Context(), config)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
				if statement == "" {
					time.Sleep(idle * 3 / 2)
				} else if _, err := conn.Exec(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
				if n := len(testenv.Column[string](t, conn, "select repeat('x', 100) from generate_series(1, 10000)")); n != 10_000 {
					t.Errorf("%d rows", n)
				}
			})
		}
	}
}

// A client that doesn't read slows the database, but the server's memory stays bounded; the client is
// disconnected. The test runs alone, because it measures the memory of the process.
func TestDoorBoundsSlowReaders(t *testing.T) {
	dsn := testenv.Database(t)
	openDoor(t, dsn)
	server := serve(t, dsn, func(o *Options) { o.doorTimes.Write = time.Second })
	conn, err := knock(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	frontend := pgproto3.NewFrontend(conn, conn)
	frontend.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "x"}})
	frontend.SendQuery(&pgproto3.Query{String: "select repeat('x', 100000000)"})
	if err := frontend.Flush(); err != nil {
		t.Fatal(err)
	}
	watch := testenv.Connect(t, dsn)
	testenv.Becomes(t, "sessions", 1, func() int { return sessionsOf(t, watch) })
	testenv.Becomes(t, "sessions", 0, func() int { return sessionsOf(t, watch) })
	runtime.ReadMemStats(&after)
	if grown := int64(after.Sys) - int64(before.Sys); grown > 64<<20 {
		t.Errorf("%d bytes more", grown)
	}
}

// After a failover the server connects to the new primary.
func TestDoorFailsOver(t *testing.T) {
	t.Parallel()
	pair := testenv.PostgresPair(t)
	dsn := pair.DSN()
	testenv.Migrate(t, dsn, migrate.Options{Door: migrate.DoorOpened})
	server := serve(t, dsn)
	conn := enter(t, server, "")
	testenv.Exec(t, conn, "select from task")
	pair.Kill()
	if got := endOf(conn); got == "open" {
		t.Errorf("the connection is %s", got)
	}
	pair.Promote()
	testenv.Becomes(t, "it leads to the new primary", "", func() string {
		conn, err := pgx.ConnectConfig(t.Context(), throughDoor(t, server, ""))
		if err != nil {
			return err.Error()
		}
		defer func() { _ = conn.Close(context.Background()) }()
		if _, err = conn.Exec(t.Context(), "insert into task_type (type, description, backend_name) values ('t', 'd', 'b') on conflict do nothing"); err != nil {
			return err.Error()
		}
		return ""
	})
}

// Connections that don't finish their start-up are bounded. One more gets an error that asks for a retry.
func TestDoorBoundsStarts(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	openDoor(t, dsn)
	server := serve(t, dsn, func(o *Options) { o.doorTimes.Start = 3 * time.Second })
	var all []net.Conn
	defer func() {
		for _, conn := range all {
			_ = conn.Close()
		}
	}()
	var err error
	for len(all) < 100 && err == nil {
		var conn net.Conn
		if conn, err = knock(t.Context(), server); err == nil {
			all = append(all, conn)
		}
	}
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(http.StatusServiceUnavailable)) || len(all) > 64 {
		t.Errorf("%d connections start, then: %v", len(all), err)
	}
	testenv.Becomes(t, "it lets in again", true, func() bool {
		conn, err := pgx.ConnectConfig(t.Context(), throughDoor(t, server, ""))
		if err == nil {
			_ = conn.Close(t.Context())
		}
		return err == nil
	})
}

// An idle connection costs little memory, somewhat more with TLS. Calls are answered beside many of them.
func TestDoorConnectionsAreSmall(t *testing.T) {
	const many = 200
	dsn := testenv.PostgresServer(t, fmt.Sprint("max_connections=", many+50))
	testenv.Migrate(t, dsn, migrate.Options{Door: migrate.DoorOpened})
	certificate := testenv.Authority(t).Issue(t, "127.0.0.1")
	mostTLS := uint64(48 << 10)
	if testenv.Race {
		mostTLS = 56 << 10 // it takes 10 KiB of a connection with TLS
	}
	for name, c := range map[string]struct {
		tls  *tls.Config
		most uint64
	}{
		"plain": {nil, 40 << 10},
		"TLS":   {&tls.Config{Certificates: []tls.Certificate{certificate.Certificate}}, mostTLS},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, dsn, func(o *Options) { o.DoorLimits.PerClient, o.TLS = many, c.tls })
			through := strings.Replace(server, "https:", "http:", 1)
			dial := func() (raw, conn net.Conn) {
				raw, err := net.Dial("tcp", testenv.Host(t, server))
				if err != nil {
					t.Fatal(err)
				}
				if c.tls == nil {
					return raw, raw
				}
				return raw, tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			defer client.CloseIdleConnections()
			call := func() time.Duration {
				const calls = 300
				began := time.Now()
				for range calls {
					response, err := client.Post(server+"/task_type/get_all", mimeMsgpack, bytes.NewReader([]byte{0x80}))
					if err != nil {
						t.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
					if response.StatusCode != http.StatusOK {
						t.Fatal(response.Status)
					}
				}
				return time.Since(began) / calls
			}
			var all []net.Conn
			defer func() {
				for _, conn := range all {
					_ = conn.Close()
				}
			}()
			open := func() {
				raw, conn := dial()
				all = append(all, raw) // what the client needs for TLS is garbage
				entered, err := knockOn(t.Context(), conn, through)
				if err != nil {
					t.Fatal(err)
				}
				frontend := pgproto3.NewFrontend(entered, conn)
				frontend.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "x"}})
				frontend.SendQuery(&pgproto3.Query{String: "select repeat('x', 100000)"})
				if err := frontend.Flush(); err != nil {
					t.Fatal(err)
				}
				for ready := 0; ready < 2; {
					message, err := frontend.Receive()
					if err != nil {
						t.Fatal(err)
					}
					if _, ok := message.(*pgproto3.ReadyForQuery); ok {
						ready++
					}
				}
			}
			used := func() uint64 {
				runtime.GC()
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return m.HeapAlloc + m.StackInuse
			}
			open()
			call()
			alone, before := call(), used()
			for range many - 2 {
				open()
			}
			each := (used() - before) / (many - 2)
			t.Logf("%d bytes a connection; a call takes %s alone, and %s beside %d of them", each, alone, call(), len(all))
			if each > c.most {
				t.Errorf("%d bytes a connection", each)
			}
		})
	}
}
