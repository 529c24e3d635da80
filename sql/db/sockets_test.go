package db_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// withKeys returns a DSN with more keys.
func withKeys(t *testing.T, dsn, keys string) string {
	t.Helper()
	address := testenv.URL(t, dsn)
	address.RawQuery = keys // a test's own has none
	return address.String()
}

// The keys of libpq that say when the other host has vanished mean the same here; without
// them, we say it.
func TestSocketKeys(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	for keys, want := range map[string]string{
		"":             "keepalive 1 idle 15 interval 5 count 3 timeout 30000",
		"keepalives=1": "keepalive 1 idle 15 interval 5 count 3 timeout 30000",
		"keepalives_idle=60&keepalives_interval=7&keepalives_count=4&tcp_user_timeout=1234": "keepalive 1 idle 60 interval 7 count 4 timeout 1234",
		"keepalives_idle=60":                   "keepalive 1 idle 60 interval 5 count 3 timeout 30000",
		"keepalives_idle=0&tcp_user_timeout=0": "keepalive 1 idle 7200 interval 5 count 3 timeout 0",
		"keepalives=0&tcp_user_timeout=5000":   "keepalive 0 idle 7200 interval 75 count 9 timeout 5000",
		"keepalives=0&keepalives_idle=9":       "keepalive 0 idle 7200 interval 75 count 9 timeout 30000",
	} {
		store := open(t, withKeys(t, dsn, keys))
		conn, err := store.Pool().Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fd := db.SocketOf(conn.Conn().PgConn())
		option := func(level, name int) int {
			value, err := unix.GetsockoptInt(fd, level, name)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
		got := fmt.Sprintf("keepalive %d idle %d interval %d count %d timeout %d", option(unix.SOL_SOCKET, unix.SO_KEEPALIVE),
			option(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE), option(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL), option(unix.IPPROTO_TCP, unix.TCP_KEEPCNT),
			option(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT))
		conn.Release()
		if got != want {
			t.Errorf("%q: %s, want %s", keys, got, want)
		}
	}
}

// A session asks the server to let go of vanished clients, and compiles no statements, unless
// somebody has said otherwise.
func TestSessionSettings(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	settings := func(dsn string) map[string]string {
		rows, err := open(t, dsn).Pool().Query(t.Context(), `select name, current_setting(name) from pg_settings
			where name ~ '^(idle_in_transaction_session_timeout|lock_timeout|tcp_.*|client_connection_check_interval|jit)$'`)
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		var name, value string
		if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error {
			got[name] = value
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := map[string]string{
		"idle_in_transaction_session_timeout": "30s", "lock_timeout": "1min", "tcp_keepalives_idle": "15",
		"tcp_keepalives_interval": "5", "tcp_keepalives_count": "3", "tcp_user_timeout": "30000", "client_connection_check_interval": "10s",
		"jit": "off",
	}
	if len(texts(t, connect(t, dsn), "select 1 from pg_settings where name = 'client_connection_check_interval'")) == 0 {
		delete(want, "client_connection_check_interval") // PostgreSQL 13
	}
	if got := settings(dsn); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	want["lock_timeout"], want["idle_in_transaction_session_timeout"] = "5s", "1d"
	if got := settings(withKeys(t, dsn, "options=-c%20lock_timeout%3D5s%20-c%20idle_in_transaction_session_timeout%3D1d")); !maps.Equal(got, want) {
		t.Errorf("with options in the DSN: %v", got)
	}
	execute(t, dsn, `do $$ begin execute format('alter database %I set lock_timeout = ''7s''', current_database()); end $$`)
	want["lock_timeout"], want["idle_in_transaction_session_timeout"] = "7s", "30s"
	if got := settings(dsn); !maps.Equal(got, want) {
		t.Errorf("with a setting of the database: %v", got)
	}
}

// After a grab, its transaction goes on with the session's settings: no statement is compiled, and
// plans are restricted no more.
func TestGrabsLeaveSettings(t *testing.T) {
	t.Parallel()
	store := open(t, testenv.Database(t))
	keep(t, store)
	if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		settings := func() (all string) {
			if err := tx.Inner().QueryRow(ctx, "select string_agg(name || '=' || setting, ' ' order by name) from pg_settings where name ~ '^(enable_.*|jit)$'").Scan(&all); err != nil {
				t.Fatal(err)
			}
			return all
		}
		before := settings()
		for _, dryRun := range []bool{true, false} {
			if _, err := tx.GrabNextVisits(ctx, model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst}, time.Now(), 1, dryRun); err != nil {
				return err
			}
			if after := settings(); after != before {
				t.Errorf("dry run %t: %s\nbefore: %s", dryRun, after, before)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Who claims for a queue and is stopped holds its lock for less long than other sessions
// theirs, unless somebody has said how long.
func TestQueuesAreHeldForLess(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	for keys, want := range map[string]string{"": "10s", "options=-c%20idle_in_transaction_session_timeout%3D1d": "1d"} {
		store := open(t, withKeys(t, dsn, keys))
		var within, after string
		err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return errors.Join(tx.LockQueues(ctx, "q", "r"), tx.Inner().QueryRow(ctx, "show idle_in_transaction_session_timeout").Scan(&within))
		})
		if err == nil {
			err = store.Pool().QueryRow(t.Context(), "show idle_in_transaction_session_timeout").Scan(&after)
		}
		if err != nil {
			t.Fatal(err)
		}
		if within != want || keys == "" && after != "30s" {
			t.Errorf("%q: idle transactions that hold a queue end after %s, others after %s; want %s", keys, within, after, want)
		}
	}
}

// Of several hosts in a DSN, one that is away is passed over.
func TestSeveralHosts(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	address := testenv.URL(t, dsn)
	address.Host = "127.0.0.1:1," + address.Host
	if err := sleep(t.Context(), open(t, withKeys(t, address.String(), "target_session_attrs=read-write")), 0); err != nil {
		t.Error(err)
	}
}
