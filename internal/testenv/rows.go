package testenv

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// Open opens a database with the options, if any, on the road of this run (SWH_TEST_ROAD), until the test ends.
func Open(t testing.TB, dsn string, options ...postgres.Options) *db.Store {
	t.Helper()
	through, o, asRole := onRoad(t, dsn, optionsOf(options))
	store := OpenLocal(t, through, o)
	if asRole {
		ownedBy(t, store, dsn)
	}
	return store
}

// OpenLocal is Open on the database's address, for any road: for programs that are no daemons, or work as the owner,
// such as RPC servers.
func OpenLocal(t testing.TB, dsn string, options ...postgres.Options) *db.Store {
	t.Helper()
	store, err := db.Open(t.Context(), dsn, optionsOf(options))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

func optionsOf(given []postgres.Options) postgres.Options {
	if len(given) > 0 {
		return given[0]
	}
	return postgres.Options{Command: "test"}
}

// Connect connects to a database. The connection is closed when the test ends.
func Connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // some tests connect as they clean up
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(ctx) })
	return conn
}

// Begin begins a transaction, which is rolled back when the test ends unless it has ended.
func Begin(t testing.TB, on interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}) pgx.Tx {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	tx, err := on.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(ctx) })
	return tx
}

// Test is a testing.TB, or a rapid.T.
type Test interface {
	Helper()
	Context() context.Context
	Fatalf(format string, args ...any)
}

// Session is a connection, a pool of them, or a transaction.
type Session interface {
	Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
}

// Exec runs a statement; without args it may be several, separated by semicolons.
func Exec(t Test, on Session, statement string, args ...any) {
	t.Helper()
	if _, err := ofOwner(on).Exec(context.WithoutCancel(t.Context()), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Column returns the only column of a query's rows.
func Column[T any](t Test, on Session, query string, args ...any) []T {
	t.Helper()
	return collect(t, on, pgx.RowTo[T], query, args)
}

// Rows returns the rows of a query, each as a struct whose fields are its columns in order.
func Rows[T any](t Test, on Session, query string, args ...any) []T {
	t.Helper()
	return collect(t, on, pgx.RowToStructByPos[T], query, args)
}

// Row returns the only row of a query, as a struct with a field for each column.
func Row[T any](t Test, on Session, query string, args ...any) T {
	t.Helper()
	rows := Rows[T](t, on, query, args...)
	if len(rows) != 1 {
		t.Fatalf("%s: %d rows, want one", query, len(rows))
	}
	return rows[0]
}

func collect[T any](t Test, on Session, read pgx.RowToFunc[T], query string, args []any) []T {
	t.Helper()
	rows, _ := ofOwner(on).Query(context.WithoutCancel(t.Context()), query, args...) // CollectRows returns the error
	values, err := pgx.CollectRows(rows, read)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return values
}

// Value returns the only value of a query.
func Value[T any](t Test, on Session, query string, args ...any) (value T) {
	t.Helper()
	rows, _ := ofOwner(on).Query(context.WithoutCancel(t.Context()), query, args...) // CollectExactlyOneRow returns the error
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}
