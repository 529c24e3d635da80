package postgres_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/postgres"
)

// withKeys returns a DSN with more keys.
func withKeys(t *testing.T, dsn, keys string) string {
	t.Helper()
	address := testenv.URL(t, dsn)
	address.RawQuery = keys // a test server's address has none
	return address.String()
}

// libpq's keys for the detection of a vanished host have the same meaning here. Without them our defaults
// apply.
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
		store := testenv.OpenLocal(t, withKeys(t, dsn, keys))
		conn, err := store.Pool().Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fd := postgres.SocketOf(conn.Conn().PgConn())
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

// A session sets the detection of vanished clients and turns JIT off, unless the DSN says otherwise.
func TestSessionSettings(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	settings := func(dsn string) map[string]string {
		rows, err := testenv.OpenLocal(t, dsn).Pool().Query(t.Context(), `select name, current_setting(name) from pg_settings
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
	if len(testenv.Column[int](t, testenv.Connect(t, dsn), "select 1 from pg_settings where name = 'client_connection_check_interval'")) == 0 {
		delete(want, "client_connection_check_interval") // PostgreSQL 13
	}
	if got := settings(dsn); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	want["lock_timeout"], want["idle_in_transaction_session_timeout"] = "5s", "1d"
	if got := settings(withKeys(t, dsn, "options=-c%20lock_timeout%3D5s%20-c%20idle_in_transaction_session_timeout%3D1d")); !maps.Equal(got, want) {
		t.Errorf("with options in the DSN: %v", got)
	}
	testenv.Exec(t, testenv.Connect(t, dsn), `do $$ begin execute format('alter database %I set lock_timeout = ''7s''', current_database()); end $$`)
	want["lock_timeout"], want["idle_in_transaction_session_timeout"] = "7s", "30s"
	if got := settings(dsn); !maps.Equal(got, want) {
		t.Errorf("with a setting of the database: %v", got)
	}
}

// Of several hosts in a DSN, an unreachable one is passed over.
func TestSeveralHosts(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	address := testenv.URL(t, dsn)
	address.Host = "127.0.0.1:1," + address.Host
	if err := sleep(t.Context(), testenv.OpenLocal(t, withKeys(t, address.String(), "target_session_attrs=read-write")), 0); err != nil {
		t.Error(err)
	}
}
