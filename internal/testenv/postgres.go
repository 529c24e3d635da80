package testenv

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/testenv/throwaway"
)

// setupTimeout bounds each step of creating or dropping something on a server. It is long, as several packages run at
// once on two loaded cores.
const setupTimeout = 2 * time.Minute

// Postgres returns the URL of a fresh, empty database, dropped when the test ends even if connections to it are open.
func Postgres(t testing.TB) string {
	t.Helper()
	// template0 allows no connections, so that a copy never finds it in use.
	return databaseFrom(t, "template0")
}

// PostgresServer returns the URL of an empty database on a new server of this machine's programs, with further
// settings ("name=value"). It is stopped when the test ends.
func PostgresServer(t testing.TB, settings ...string) string {
	t.Helper()
	url, stop, err := throwaway.StartPostgres(t.Context(), slog.New(slog.NewTextHandler(t.Output(), nil)), settings...)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(stop)
	return url
}

// CopyDatabase returns the URL of a copy of a database of this server without connections, dropped when the test
// ends.
func CopyDatabase(t testing.TB, dsn string) string {
	t.Helper()
	from, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("testenv: the database to copy must be given as a URL")
	}
	return databaseFrom(t, strings.TrimPrefix(from.Path, "/"))
}

// databaseFrom creates a copy of template.
func databaseFrom(t testing.TB, template string) string {
	t.Helper()
	name := randomName("test")
	onServer(t, func(ctx context.Context, server *pgx.Conn) error {
		strategy := "" // PostgreSQL before 15 always copies files
		if version(server) >= 15 {
			strategy = " strategy file_copy" // takes a third of the processor time
		}
		_, err := server.Exec(ctx, "create database "+quote(name)+" template "+quote(template)+strategy)
		return err
	})
	t.Cleanup(func() {
		onServer(t, func(ctx context.Context, server *pgx.Conn) error {
			force := " with (force)"
			if version(server) < 13 {
				force = "" // for the test that refuses such a server
			}
			_, err := server.Exec(ctx, "drop database if exists "+quote(name)+force)
			return err
		})
	})
	return withDatabase(t, name)
}

// idle are unused connections to administrative databases, as each new one costs PostgreSQL some 7 ms of processor
// time. They end with the process.
var idle = make(chan *pgx.Conn, 4)

// connectServer returns a connection to the administrative database at url, an idle one if one works.
func connectServer(ctx context.Context, url string) (*pgx.Conn, error) {
	for {
		select {
		case conn := <-idle:
			if conn.Config().ConnString() == url && conn.Ping(ctx) == nil {
				return conn, nil
			}
			_ = conn.Close(ctx)
		default:
			return pgx.Connect(ctx, url)
		}
	}
}

// release makes a connection idle. It closes the connection if enough are idle, or if ctx has ended: it may hold a
// lock then.
func release(ctx context.Context, conn *pgx.Conn) {
	if !conn.IsClosed() && ctx.Err() == nil {
		select {
		case idle <- conn:
			return
		default:
		}
	}
	_ = conn.Close(ctx)
}

// onServer runs f on a connection to the server's administrative database. f must undo its settings of the session,
// such as a lock.
func onServer(t testing.TB, f func(ctx context.Context, server *pgx.Conn) error) {
	t.Helper()
	// Not t.Context(): it is cancelled before cleanup functions run.
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	server, err := connectServer(ctx, endpoint(t, postgresVar))
	if err != nil {
		t.Fatalf("testenv: connect to the PostgreSQL of %s: %v", postgresVar, err)
	}
	defer release(ctx, server)
	if err := f(ctx, server); err != nil {
		t.Fatalf("testenv: on the PostgreSQL of %s: %v", postgresVar, err)
	}
}

// withDatabase returns the server's URL with another database name.
func withDatabase(t testing.TB, name string) string {
	t.Helper()
	server, err := url.Parse(endpoint(t, postgresVar))
	if err != nil {
		t.Fatalf("testenv: %s must be a URL (postgresql://user@host:port/database)", postgresVar)
	}
	server.Path = "/" + name
	return server.String()
}

// version returns the first number of the server's version.
func version(server *pgx.Conn) (major int) {
	_, _ = fmt.Sscan(server.PgConn().ParameterStatus("server_version"), &major) // "15.14 (Debian …)": until the dot
	return major
}

func quote(identifier string) string { return pgx.Identifier{identifier}.Sanitize() }

// randomName returns a unique name.
func randomName(prefix string) string {
	return fmt.Sprintf("%s_%s", prefix, strings.ToLower(rand.Text()[:16]))
}
