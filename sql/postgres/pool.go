package postgres

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"swh-scheduler/sql/internal/queries"
)

// Options configure a DB.
type Options struct {
	// Command is the running subcommand: application_name is "swh-scheduler <command>",
	// unless the DSN sets it.
	Command string
	// MaxConns bounds the pool; 0 is the Python scheduler's default of 10. A pool_max_conns in the DSN
	// takes precedence.
	MaxConns int32

	// StatementTimeout bounds each statement, except behind a pooler; 0 means the server's setting.
	StatementTimeout time.Duration

	// Direct is a DSN of the server itself, if the DSN is that of a pooler which shares connections between
	// transactions, such as PgBouncer. Uses that need a session of their own connect by Direct: LISTEN, and
	// the queries about silent connections.
	Direct string

	// Proxy, if not nil, makes the connections, in place of the DSN's address.
	Proxy *Proxy

	// HostTime is the host's clock; nil is time.Now.
	HostTime func() time.Time

	vigilance vigilance     // the constant vigilant, unless a test sets it
	tripTime  time.Duration // of small reads; 0: defaultTripTime
	patience  time.Duration // of small reads; 0: defaultPatience
}

// Proxy is a way to the database through another server.
type Proxy struct {
	Name string // of that server, for messages
	Dial func(pgconn.DialFunc) pgconn.DialFunc
}

// A DB is a database, on a pool of connections. It is safe for concurrent use.
type DB struct {
	name      string
	pool      *pgxpool.Pool
	clock     *clock
	q         *queries.Queries
	watch     *watch
	stopWatch context.CancelFunc
	small     *trips
	through   bool // Options.Through is set
}

// QueriesOf returns the generated statements, each a transaction.
func QueriesOf(d *DB) *queries.Queries { return d.q }

// Open parses the DSN and prepares a pool. It fails only for an unusable DSN. The first use connects: if
// the database is unreachable, the first call (usually CheckVersion) returns the error, and the caller can
// retry.
func Open(_ context.Context, dsn string, o Options) (*DB, error) {
	config, err := PoolConfig(dsn, o)
	if err != nil {
		return nil, err
	}
	config.MaxConnIdleTime = 5 * time.Minute
	name := "PostgreSQL (" + RedactedConfig(config.ConnConfig) + ")"
	if o.Proxy != nil {
		name = o.Proxy.Name
		config.ConnConfig.DialFunc = o.Proxy.Dial(config.ConnConfig.DialFunc)
		config.ConnConfig.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	}
	direct := config.ConnConfig.Copy()
	if o.Direct != "" {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // without prepared statements
		directConfig, err := PoolConfig(o.Direct, o)
		if err != nil {
			return nil, fmt.Errorf("database.direct: %w", err)
		}
		direct = directConfig.ConnConfig
	}
	watch := &watch{vigilance: o.vigilance, config: direct, conns: make(map[*watchedConn]struct{})}
	if watch.vigilance == (vigilance{}) {
		watch.vigilance = vigilant
	}
	config.ConnConfig.DialFunc = watch.dialing(config.ConnConfig.DialFunc)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		registerTypes(conn.TypeMap())
		if o.Direct != "" {
			return nil
		}
		backend, err := prepareSession(ctx, conn)
		if err == nil && o.StatementTimeout > 0 && backend.pid != 0 {
			_, err = conn.Exec(ctx, "select set_config('statement_timeout', $1, false)", strconv.FormatInt(o.StatementTimeout.Milliseconds(), 10))
		}
		watch.setBackend(conn.PgConn(), backend)
		return err
	}
	// The pool outlives this call's context, until Close.
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", RedactedConfig(config.ConnConfig), err)
	}
	watch.pool = pool
	watching, stop := context.WithCancel(context.Background())
	go watch.run(watching)
	clock := &clock{host: o.HostTime}
	if clock.host == nil {
		clock.host = time.Now
	}
	small := &trips{Pool: pool, tripTime: cmp.Or(o.tripTime, defaultTripTime), patience: cmp.Or(o.patience, defaultPatience)}
	small.open, small.close = context.WithCancel(context.Background())
	return &DB{name, pool, clock, queries.New(metered{small}), watch, stop, small, o.Proxy != nil}, nil
}

// IsProxied reports whether another server makes the connections, with a role of its own.
func (d *DB) IsProxied() bool { return d.through }

// Name returns the server and the database, without password.
func (d *DB) Name() string { return d.name }

// Close closes the pool, waiting for connections in use to be released.
func (d *DB) Close() {
	d.small.close()
	d.pool.Close()
	d.stopWatch()
}

// Pool returns the pool.
func (d *DB) Pool() *pgxpool.Pool { return d.pool }

// Direct returns the settings of a connection to the server itself, not to a pooler, if [Options.Direct] is
// set.
func (d *DB) Direct() *pgx.ConnConfig { return d.watch.config.Copy() }
