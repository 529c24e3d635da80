package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"swh-scheduler/internal/service"
	"swh-scheduler/sql/internal/stmt"
)

// A connection can become silent without an end: its host lost power, or a firewall dropped its state. The
// operating system detects that late, and never behind a proxy. A time limit for answers would end long
// statements. So after a while without an answer, a watch asks the database on a new connection whether it
// still works for the silent one. If not, the answer is lost, and the watch closes the connection.

// errSilent is the error of a connection that the watch has closed.
var errSilent = errors.New("the connection has fallen silent")

// vigilance has the times after which a connection counts as dead.
type vigilance struct {
	period  time.Duration // between checks of the connections
	suspect time.Duration // silence after which the watch asks the database
	// abandon is the silence after which a connection is dead even if the watch can't ask the database.
	// Behind a pooler it is abandonPooled, as the process that works for a connection is unknown there.
	abandon, abandonPooled time.Duration
}

// vigilant detects a silent connection within 10 s if the database accepts new ones.
var vigilant = vigilance{period: 2 * time.Second, suspect: 5 * time.Second, abandon: 30 * time.Second, abandonPooled: 5 * time.Minute}

// watch closes a pool's silent connections.
type watch struct {
	vigilance
	config *pgx.ConnConfig // of the watch's own connections and of LISTEN, which are not watched
	pool   *pgxpool.Pool

	mu    sync.Mutex
	conns map[*watchedConn]struct{} // open
}

// watchedConn is a connection with the start of its silence.
type watchedConn struct {
	net.Conn
	watch *watch
	busy  atomic.Int32 // reads and writes in progress
	since atomic.Int64 // the last start or return of one, in ns since 1970
	dead  atomic.Bool  // closed by the watch

	// Guarded by watch.mu.
	backend   backend
	suspected int64 // the value of since when the database was last found idle
}

// backend is a process of the database; the zero value is unknown.
type backend struct {
	pid   uint32
	start time.Time // start of the process, as process ids are reused
}

func (c *watchedConn) Read(p []byte) (int, error)  { return c.timed(c.Conn.Read, p) }
func (c *watchedConn) Write(p []byte) (int, error) { return c.timed(c.Conn.Write, p) }

func (c *watchedConn) timed(transfer func([]byte) (int, error), p []byte) (int, error) {
	c.since.Store(time.Now().UnixNano())
	c.busy.Add(1)
	n, err := transfer(p)
	c.busy.Add(-1)
	c.since.Store(time.Now().UnixNano())
	if err != nil && c.dead.Load() {
		err = &net.OpError{Op: "read", Net: c.RemoteAddr().Network(), Addr: c.RemoteAddr(), Err: errSilent}
	}
	return n, err
}

func (c *watchedConn) Close() error {
	c.watch.mu.Lock()
	delete(c.watch.conns, c)
	c.watch.mu.Unlock()
	return c.Conn.Close()
}

// dialing returns dial with watched connections.
func (w *watch) dialing(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := &watchedConn{Conn: conn, watch: w}
		w.mu.Lock()
		w.conns[c] = struct{}{}
		w.mu.Unlock()
		return c, nil
	}
}

// watchedUnder returns the watched connection that carries conn.
func watchedUnder(conn *pgconn.PgConn) *watchedConn {
	below := conn.Conn()
	if secure, ok := below.(*tls.Conn); ok {
		below = secure.NetConn()
	}
	c, _ := below.(*watchedConn)
	return c
}

// setBackend records the database process of a connection.
func (w *watch) setBackend(conn *pgconn.PgConn, b backend) {
	if c := watchedUnder(conn); c != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		c.backend = b
	}
}

// run checks the connections until ctx ends.
func (w *watch) run(ctx context.Context) {
	for service.Sleep(ctx, w.period) == nil {
		w.check(ctx)
	}
}

// silenceWatch is a connection with the start of its silence and its database process.
type silenceWatch struct {
	conn    *watchedConn
	since   int64 // ns since 1970
	backend backend
}

func (w *watch) silent() []silenceWatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []silenceWatch
	for c := range w.conns {
		if since := c.since.Load(); c.busy.Load() > 0 && time.Since(time.Unix(0, since)) >= w.suspect {
			found = append(found, silenceWatch{c, since, c.backend})
		}
	}
	return found
}

// check closes dead connections: those for which the database did not work at two checks in a row, without
// an answer in between. It also ends their server processes, which hold locks.
func (w *watch) check(ctx context.Context) {
	silent := w.silent()
	if len(silent) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, w.suspect)
	defer cancel()
	var idle []int32
	conn, err := pgx.ConnectConfig(ctx, w.config)
	if err == nil {
		defer func() { _ = conn.Close(ctx) }()
		idle, err = idleBackends(ctx, conn, silent)
	}
	_, answers := errors.AsType[*pgconn.PgError](err) // such as "too many connections"
	var dead []silenceWatch
	for _, s := range silent {
		abandon := w.abandon
		if s.backend.pid == 0 {
			abandon = w.abandonPooled
		}
		switch {
		case s.conn.since.Load() != s.since: // it has answered
		case s.backend.pid != 0 && err == nil:
			if slices.Contains(idle, int32(s.backend.pid)) && w.suspectedAgain(s) {
				dead = append(dead, s)
			}
		case !answers && time.Since(time.Unix(0, s.since)) >= abandon:
			dead = append(dead, s)
		}
	}
	if len(dead) == 0 {
		return
	}
	if err == nil {
		_, _ = conn.Exec(ctx, "select pg_terminate_backend(pid) from pg_stat_activity join "+backends+" using (pid, backend_start)", arguments(dead)...)
	}
	for _, s := range dead {
		s.conn.dead.Store(true)
		_ = s.conn.Close()
	}
	w.pool.Reset() // idle connections in the pool are as old, and may be as silent
}

// suspectedAgain reports whether the previous check suspected the same silence.
func (w *watch) suspectedAgain(s silenceWatch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	again := s.conn.suspected == s.since
	s.conn.suspected = s.since
	return again
}

// backends is the SQL table of the processes in the arguments.
const backends = "unnest($1::integer[], $2::timestamptz[]) b (pid, backend_start)"

func arguments(silent []silenceWatch) []any {
	pids, starts := make([]int32, len(silent)), make([]time.Time, len(silent))
	for i, s := range silent {
		pids[i], starts[i] = int32(s.backend.pid), s.backend.start
	}
	return []any{pids, starts}
}

// idleBackends returns the processes of silent connections that don't work or don't exist. A process that
// waits for its client does not work.
func idleBackends(ctx context.Context, conn *pgx.Conn, silent []silenceWatch) ([]int32, error) {
	return stmt.Column[int32](ctx, conn, `select pid from `+backends+` where not exists (
		select from pg_stat_activity a where a.pid = b.pid and a.backend_start = b.backend_start
		and state = 'active' and wait_event_type is distinct from 'Client')`, arguments(silent)...)
}
