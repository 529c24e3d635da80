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

// A connection can fall silent without an end: its host lost power, a firewall forgot it. The operating
// system notices late, and never behind a proxy. A time limit for answers would end long
// statements. So if no answer has come for a while, a watch asks the database, on a new
// connection, whether it is still working for the silent one. If not, the answer is lost, and the
// watch closes the connection.

// errSilent is the error of a connection that the watch has closed.
var errSilent = errors.New("the connection has fallen silent")

// vigilance says when a connection counts as dead.
type vigilance struct {
	period  time.Duration // between looks at the connections
	suspect time.Duration // silence after which the database is asked
	// abandon is the silence after which a connection is dead though the database can't
	// be asked. Behind a pooler that is abandonPooled, as nobody knows there which
	// process of the database works for whom.
	abandon, abandonPooled time.Duration
}

// vigilant finds a silent connection within 10 s if the database answers new ones.
var vigilant = vigilance{period: 2 * time.Second, suspect: 5 * time.Second, abandon: 30 * time.Second, abandonPooled: 5 * time.Minute}

// watch closes the connections of a pool that have fallen silent.
type watch struct {
	vigilance
	config *pgx.ConnConfig // of connections to ask with, and to listen on, which are not watched
	pool   *pgxpool.Pool

	mu    sync.Mutex
	conns map[*watchedConn]struct{} // open
}

// watchedConn is a connection that records since when it has been silent.
type watchedConn struct {
	net.Conn
	watch *watch
	busy  atomic.Int32 // reads and writes that have not returned
	since atomic.Int64 // when the last of them began or returned, in ns since 1970
	dead  atomic.Bool  // closed by the watch

	// Guarded by watch.mu.
	backend   backend
	suspected int64 // since, when the database was last found to be idle
}

// backend is a process of the database; the zero value is one that is not known.
type backend struct {
	pid   uint32
	start time.Time // of the process, as numbers are used again
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

// dialing returns dial with the connections watched.
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

// setBackend records which process of the database works for a connection.
func (w *watch) setBackend(conn *pgconn.PgConn, b backend) {
	if c := watchedUnder(conn); c != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		c.backend = b
	}
}

// run looks at the connections until ctx ends.
func (w *watch) run(ctx context.Context) {
	for service.Sleep(ctx, w.period) == nil {
		w.look(ctx)
	}
}

// silenceWatch is a connection, since when it is silent, and its process in the database.
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

// look closes dead connections: those that the database was not working for at two looks in a row,
// with nothing heard in between. It ends their server processes, which hold locks.
func (w *watch) look(ctx context.Context) {
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
	w.pool.Reset() // those that wait in the pool are as old, and may be as silent
}

// suspectedAgain reports whether a silence was suspected before.
func (w *watch) suspectedAgain(s silenceWatch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	again := s.conn.suspected == s.since
	s.conn.suspected = s.since
	return again
}

// backends is the table of the processes that arguments gives.
const backends = "unnest($1::integer[], $2::timestamptz[]) b (pid, backend_start)"

func arguments(silent []silenceWatch) []any {
	pids, starts := make([]int32, len(silent)), make([]time.Time, len(silent))
	for i, s := range silent {
		pids[i], starts[i] = int32(s.backend.pid), s.backend.start
	}
	return []any{pids, starts}
}

// idleBackends returns which processes of silent connections are not at work, or are gone.
// One that waits for its client is not at work.
func idleBackends(ctx context.Context, conn *pgx.Conn, silent []silenceWatch) ([]int32, error) {
	return stmt.Column[int32](ctx, conn, `select pid from `+backends+` where not exists (
		select from pg_stat_activity a where a.pid = b.pid and a.backend_start = b.backend_start
		and state = 'active' and wait_event_type is distinct from 'Client')`, arguments(silent)...)
}
