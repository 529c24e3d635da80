package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
)

// Options configure a Store.
type Options struct {
	// Command is the running subcommand: application_name is "swh-scheduler <command>",
	// unless the DSN sets it.
	Command string
	// MaxConns bounds the pool; 0 is the Python scheduler's default of 10. A pool_max_conns in the
	// DSN wins.
	MaxConns int32

	// StatementTimeout bounds each statement, but behind a pooler; 0 leaves it to the server.
	StatementTimeout time.Duration

	// Direct is a DSN of the server itself, if the DSN is that of a pooler which shares
	// connections between transactions, such as PgBouncer. What a session of its own is needed
	// for, it does there: to listen for notifications, and to ask for silent connections.
	Direct string

	// Route finds the queue of a task type's tasks by their Celery name; nil leaves it to
	// model.TaskType.
	Route func(task string) string
	// Hosters are spared by claims of visits.
	Hosters model.Hosters

	// Through, if not nil, is how connections are made, in place of the DSN's address.
	Through *Through

	// HostTime is the host's clock; nil is time.Now.
	HostTime func() time.Time

	vigilance vigilance     // vigilant, unless a test sets it
	tripTime  time.Duration // of small reads; 0: defaultTripTime
	patience  time.Duration // of small reads; 0: defaultPatience
}

// Through is a way to the database through another server.
type Through struct {
	Name string // of that server, for messages
	Dial func(pgconn.DialFunc) pgconn.DialFunc
}

// A Store is the scheduler's database, on a pool of connections. It is safe for
// concurrent use. Its methods are those of the types that it embeds, by subject.
type Store struct {
	name      string
	watch     *watch
	stopWatch context.CancelFunc
	small     *trips
	transactor
	statements
	TaskStore
	VisitStore
	CandidateStore
	WorkStore
	ShareStore
	GraphStore
	ArchiveStore
	ExplainStore
	KeeperStore
	MonitorStore
	RejectedStore
	SearchStore
	ActionStore
}

// A Tx is a transaction of the Store, with all its methods that are one statement and
// those that only make sense in a transaction. It is not safe for concurrent use.
type Tx struct {
	statements
	q       *queries.Queries
	tx      pgx.Tx
	clock   *clock
	drains  *drainSizes
	hosters model.Hosters
	sparing *sparing // nil until visits are claimed, or without limits of hosters

	// updated is the last update of origins that were grabbed, in seconds since 1970, the
	// latest that any lister knows; -infinity if none does.
	updated map[model.OriginKey]float64
}

// statements are methods of one statement each, by subject, in a transaction or not.
type statements struct {
	TaskQueries
	RunQueries
	ListerQueries
	OriginQueries
	CandidateQueries
	WorkQueries
	LaneQueries
	ShareQueries
	GraphQueries
}

func statementsOn(q *queries.Queries, route func(task string) string) statements {
	return statements{TaskQueries{q, route}, RunQueries{q}, ListerQueries{q}, OriginQueries{q}, CandidateQueries{q}, WorkQueries{q}, LaneQueries{q}, ShareQueries{q}, GraphQueries{q}}
}

// The types by subject. Methods of a type …Store run their own transactions, or are one statement
// that no transaction has together with others.
type (
	TaskQueries struct { // task types and tasks
		q     *queries.Queries
		route func(task string) string // Options.Route
	}
	RunQueries       struct{ q *queries.Queries } // runs of tasks
	ListerQueries    struct{ q *queries.Queries }
	OriginQueries    struct{ q *queries.Queries } // listed origins, their visit stats, and counts of them
	CandidateQueries struct{ q *queries.Queries }
	WorkQueries      struct{ q *queries.Queries } // the ledger
	LaneQueries      struct{ q *queries.Queries }
	ShareQueries     struct{ q *queries.Queries }
	GraphQueries     struct{ q *queries.Queries }

	TaskStore      struct{ store }
	VisitStore     struct{ store } // what the journal says of visits
	CandidateStore struct{ store }
	WorkStore      struct{ store }
	ShareStore     struct{ store }
	GraphStore     struct{ store }
	ArchiveStore   struct{ store } // the Python scheduler's archiver
	ExplainStore   struct{ store }
	KeeperStore    struct{ store } // maintenance jobs
	MonitorStore   struct{ store }
	RejectedStore  struct{ store } // events and records that were set aside
	SearchStore    struct{ store } // what people look for
	ActionStore    struct{ store } // what people do to tasks and graphs

	store struct {
		transactor
		q *queries.Queries
	}
)

// transactor runs transactions on a pool.
type transactor struct {
	pool    *pgxpool.Pool
	clock   *clock
	drains  *drainSizes
	route   func(task string) string // Options.Route
	hosters model.Hosters
}

// Open reads the DSN and prepares a pool; it only fails for an unusable DSN. The first
// connection is made when it is needed, so a database that is away is an error
// of the first call (usually CheckVersion), which can be retried.
func Open(_ context.Context, dsn string, o Options) (*Store, error) {
	config, err := poolConfig(dsn, o)
	if err != nil {
		return nil, err
	}
	config.MaxConnIdleTime = 5 * time.Minute
	name := "PostgreSQL (" + redacted(config.ConnConfig) + ")"
	if o.Through != nil {
		name = o.Through.Name
		config.ConnConfig.DialFunc = o.Through.Dial(config.ConnConfig.DialFunc)
		config.ConnConfig.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	}
	direct := config.ConnConfig.Copy()
	if o.Direct != "" {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // without prepared statements
		directConfig, err := poolConfig(o.Direct, o)
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
	// The pool outlives the context of this call: it lives until Close.
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", redacted(config.ConnConfig), err)
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
	s := store{transactor{pool, clock, new(drainSizes), o.Route, o.Hosters}, queries.New(metered{small})}
	return &Store{
		name, watch, stop, small, s.transactor, statementsOn(s.q, o.Route), TaskStore{s}, VisitStore{s}, CandidateStore{s}, WorkStore{s}, ShareStore{s},
		GraphStore{s}, ArchiveStore{s}, ExplainStore{s}, KeeperStore{s}, MonitorStore{s}, RejectedStore{s}, SearchStore{s}, ActionStore{s},
	}, nil
}

// Name describes the server and the database, without password.
func (s *Store) Name() string { return s.name }

// Close closes the pool, waiting for connections in use to be released.
func (s *Store) Close() {
	s.small.close()
	s.pool.Close()
	s.stopWatch()
}

// Pool returns the pool itself, for what has no method here.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// InTx runs do in a transaction (read committed), which is committed if do returns nil
// and rolled back otherwise. It never retries. After an error of the commit it may be
// unknown whether the transaction took place (the connection was lost).
func (t transactor) InTx(ctx context.Context, do func(context.Context, *Tx) error) error {
	return t.inTx(ctx, pgx.TxOptions{}, do)
}

// ByKey is InTx for statements that look rows up by keys. No plan is kept from when a table was
// small, or made for a few keys: it would read a table whole that has grown since.
func (t transactor) ByKey(ctx context.Context, do func(context.Context, *Tx) error) error {
	return t.inTx(ctx, pgx.TxOptions{BeginQuery: byKey}, do)
}

// ByPlace is ByKey for NextOutgoing, too: it walks an index to the first rows. Otherwise all would be
// sorted for them where PostgreSQL expects few.
func (t transactor) ByPlace(ctx context.Context, do func(context.Context, *Tx) error) error {
	return t.inTx(ctx, pgx.TxOptions{BeginQuery: byKey + "; set local enable_sort = off"}, do)
}

const (
	// byIndex begins a transaction whose statements find rows by indexes wherever they can.
	byIndex = "begin; set local enable_seqscan = off; set local jit = off"
	byKey   = byIndex + "; set local plan_cache_mode = force_custom_plan"
)

func (t transactor) inTx(ctx context.Context, o pgx.TxOptions, do func(context.Context, *Tx) error) error {
	return pgx.BeginTxFunc(ctx, t.pool, o, func(tx pgx.Tx) error { return do(ctx, t.newTx(tx)) })
}

func (t transactor) newTx(tx pgx.Tx) *Tx {
	q := queries.New(metered{tx})
	return &Tx{statementsOn(q, t.route), q, tx, t.clock, t.drains, t.hosters, nil, make(map[model.OriginKey]float64)}
}

// Begin begins a transaction as InTx does. It holds a connection until End.
func (t transactor) Begin(ctx context.Context) (*Tx, error) {
	tx, err := t.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return t.newTx(tx), nil
}

// End commits a transaction of Begin if err is nil. Otherwise it rolls back and returns err.
func (tx *Tx) End(ctx context.Context, err error) error {
	if err == nil {
		return tx.tx.Commit(ctx)
	}
	if undo := tx.tx.Rollback(ctx); undo != nil && !errors.Is(undo, pgx.ErrTxClosed) {
		return errors.Join(err, undo)
	}
	return err
}
