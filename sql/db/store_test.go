package db_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// InTx commits the whole transaction or nothing: an error, a panic or the end of the context rolls it back.
func TestInTx(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	names := func() string {
		t.Helper()
		types, err := store.TaskTypes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, taskType := range types {
			names = append(names, taskType.Type)
		}
		return strings.Join(names, " ")
	}
	create := func(ctx context.Context, tx *db.Tx, name string) {
		t.Helper()
		if err := tx.CreateTaskType(ctx, model.TaskType{Type: name}); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.TaskType(ctx, name); err != nil {
			t.Errorf("in the transaction: %v", err)
		}
	}

	if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		create(ctx, tx, "kept")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	wrong := errors.New("wrong")
	if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		create(ctx, tx, "failed")
		return wrong
	}); !errors.Is(err, wrong) {
		t.Errorf("got %v, want the error of the function", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			create(ctx, tx, "panicked")
			panic("wrong")
		})
	}()
	ctx, cancel := context.WithCancel(t.Context())
	if err := store.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		create(ctx, tx, "cancelled")
		cancel()
		return ctx.Err()
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it cancelled", err)
	}
	if got := names(); got != "kept" {
		t.Errorf("the database holds %q, want %q", got, "kept")
	}
}

// Times are read in UTC, to the microsecond, in any time zone of the machine and the server.
func TestTimesAreUTC(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	testenv.Exec(t, testenv.Connect(t, dsn), "alter database "+dsn[strings.LastIndex(dsn, "/")+1:]+" set timezone to 'Australia/Lord_Howe'")
	store := testenv.OpenLocal(t, dsn)
	if err := store.CreateTaskType(t.Context(), model.TaskType{Type: "t"}); err != nil {
		t.Fatal(err)
	}
	next := time.Date(2024, 3, 31, 2, 30, 0, 123_456_789, time.FixedZone("", 3*60*60+30*60))
	tasks, err := store.CreateTasks(t.Context(), []tasks.NewTask{{Type: "t", Policy: model.Oneshot, NextRun: next}})
	if err != nil {
		t.Fatal(err)
	}
	if got := tasks[0].NextRun; !got.Equal(next.Truncate(time.Microsecond)) || got.Location() != time.UTC {
		t.Errorf("%v read as %v", next, got)
	}
	list := testenv.Value[[]time.Time](t, store.Pool(), "select array[now()]")
	if list[0].Location() != time.UTC {
		t.Errorf("in a list: %v", list[0])
	}
}

// If the server is unreachable, the first call returns an error with its address. The same store works once
// the server is back.
func TestServerAway(t *testing.T) {
	t.Parallel()
	dsn, proxy := testenv.Through(t, testenv.Database(t), testenv.Proxy)
	proxy.Cut()
	store := testenv.OpenLocal(t, dsn)
	err := store.CheckVersion(t.Context())
	if err == nil || errors.Is(err, migrate.ErrNotMigrated) || errors.Is(err, migrate.ErrUnsupported) {
		t.Errorf("away: %v, want an error of the connection", err)
	}
	if host, _, _ := net.SplitHostPort(proxy.Addr); !strings.Contains(err.Error(), host) {
		t.Errorf("away: %v does not say where", err)
	}
	proxy.Restore()
	if err := store.CheckVersion(t.Context()); err != nil {
		t.Errorf("back: %v", err)
	}
	// The pool replaces connections that broke while idle.
	proxy.Cut()
	proxy.Restore()
	testenv.Becomes(t, "the store recovers", nil, func() error { return store.CheckVersion(t.Context()) })
}
