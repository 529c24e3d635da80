package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// sockets parses libpq's keys for sockets, removes them from the settings for the server, and returns the
// dialer. Without these keys, the other host counts as vanished after 30 s, by the same keepalives as
// sessionSettings sets on the server.
func sockets(params map[string]string) (*net.Dialer, error) {
	values := map[string]int{"keepalives": 1, "keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}
	for key := range values {
		text, given := params[key]
		delete(params, key)
		if !given {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, badDSN(key + " must be a number that is not negative")
		}
		values[key] = n
	}
	seconds := func(key string) time.Duration { return time.Duration(values[key]) * time.Second }
	alive := net.KeepAliveConfig{
		Enable: values["keepalives"] != 0,
		Idle:   seconds("keepalives_idle"), Interval: seconds("keepalives_interval"), Count: values["keepalives_count"],
	}
	// 0 means the system's value in libpq; net expects a negative number for that.
	for _, d := range []*time.Duration{&alive.Idle, &alive.Interval} {
		if *d == 0 {
			*d = -1
		}
	}
	if alive.Count == 0 {
		alive.Count = -1
	}
	dialer := &net.Dialer{KeepAliveConfig: alive}
	if !alive.Enable {
		dialer.KeepAlive = -1
	}
	if timeout := values["tcp_user_timeout"]; timeout > 0 {
		dialer.Control = userTimeout(timeout)
	}
	return dialer, nil
}

// sessionSettings are a session's settings, unless the DSN, the role, the database or the server's
// configuration sets them. With them the server releases the locks of a vanished client, or host, within a
// minute. JIT is off: our statements are short, and on a small table that was never analyzed, JIT takes ten
// times the runtime.
var sessionSettings = map[string]string{
	"idle_in_transaction_session_timeout": "30s",
	"lock_timeout":                        "60s",
	"tcp_keepalives_idle":                 "15s",
	"tcp_keepalives_interval":             "5s",
	"tcp_keepalives_count":                "3",
	"tcp_user_timeout":                    "30s",
	"client_connection_check_interval":    "10s", // during a statement
	"jit":                                 "off",
}

// prepareSession sets the session's settings, and returns the connection's database process. Behind a
// pooler it does neither: the settings would apply to other clients, and the process changes.
func prepareSession(ctx context.Context, conn *pgx.Conn) (b backend, err error) {
	b.pid = conn.PgConn().PID()
	err = conn.QueryRow(ctx, "select backend_start from pg_stat_activity where pid = pg_backend_pid() and pid = $1", int32(b.pid)).Scan(&b.start)
	if errors.Is(err, pgx.ErrNoRows) {
		return backend{}, nil
	}
	var names, values []string
	for name, value := range sessionSettings {
		names, values = append(names, name), append(values, value)
	}
	if err == nil {
		_, err = conn.Exec(ctx, `select set_config(name, v.value, false)
			from unnest($1::text[], $2::text[]) v (name, value) join pg_settings s using (name) where s.source = 'default'`, names, values)
	}
	if SQLState(err) == duplicateStatement {
		err = fmt.Errorf("%w: %w", ErrPooler, err)
	}
	if err != nil {
		return backend{}, fmt.Errorf("prepare the session: %w", err)
	}
	return b, nil
}

// WatchSocket sets the time after which the other host of an accepted connection counts as vanished: the
// same as on our connections to the database.
func WatchSocket(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3})
	if set := userTimeout(30_000); set != nil {
		if raw, err := tcp.SyscallConn(); err == nil {
			_ = set("tcp", "", raw) // fails only on a closed connection
		}
	}
}
