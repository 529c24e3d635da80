package db

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/postgres"
)

// Rules are the parts of the configuration that a Store applies.
type Rules struct {
	// Route finds the queue of a task type's tasks by their Celery name; nil leaves it to
	// model.TaskType.
	Route func(task string) string
	// Hosters are spared by claims of visits.
	Hosters model.Hosters
}

// A Store is the scheduler's database, on a pool of connections. It is safe for
// concurrent use. Its methods are those of the types that it embeds, by subject.
type Store struct {
	*postgres.DB
	migrate.Checks
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
	base    *postgres.Tx
	q       *queries.Queries
	tx      pgx.Tx
	drains  *drainSizes
	hosters model.Hosters
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
		route func(task string) string // Rules.Route
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
	db     *postgres.DB
	pool   *pgxpool.Pool
	drains *drainSizes
	rules  Rules
}

// Open reads the DSN and prepares a pool; it only fails for an unusable DSN. The first
// connection is made when it is needed, so a database that is away is an error
// of the first call (usually CheckVersion), which can be retried. The Store has no rules.
func Open(ctx context.Context, dsn string, o postgres.Options) (*Store, error) {
	d, err := postgres.Open(ctx, dsn, o)
	if err != nil {
		return nil, err
	}
	return storeOn(d, Rules{}), nil
}

// With returns a Store on the same pool with other rules. To close either closes both.
func (s *Store) With(rules Rules) *Store { return storeOn(s.DB, rules) }

func storeOn(d *postgres.DB, rules Rules) *Store {
	s := store{transactor{d, d.Pool(), new(drainSizes), rules}, postgres.QueriesOf(d)}
	return &Store{
		d, migrate.ChecksOf(d), s.transactor, statementsOn(s.q, rules.Route), TaskStore{s}, VisitStore{s}, CandidateStore{s}, WorkStore{s}, ShareStore{s},
		GraphStore{s}, ArchiveStore{s}, ExplainStore{s}, KeeperStore{s}, MonitorStore{s}, RejectedStore{s}, SearchStore{s}, ActionStore{s},
	}
}

// InTx runs do in a transaction (read committed), which is committed if do returns nil
// and rolled back otherwise. It never retries. After an error of the commit it may be
// unknown whether the transaction took place (the connection was lost).
func (t transactor) InTx(ctx context.Context, do func(context.Context, *Tx) error) error {
	return t.inTx(ctx, postgres.Plainly, do)
}

// ByKey is InTx for statements that look rows up by keys. No plan is kept from when a table was
// small, or made for a few keys: it would read a table whole that has grown since.
func (t transactor) ByKey(ctx context.Context, do func(context.Context, *Tx) error) error {
	return t.inTx(ctx, postgres.ByKey, do)
}

// ByPlace is ByKey for NextOutgoing, too: it walks an index to the first rows. Otherwise all would be
// sorted for them where PostgreSQL expects few.
func (t transactor) ByPlace(ctx context.Context, do func(context.Context, *Tx) error) error {
	return t.inTx(ctx, postgres.ByPlace, do)
}

func (t transactor) inTx(ctx context.Context, begin postgres.Beginning, do func(context.Context, *Tx) error) error {
	return t.db.Transact(ctx, begin, func(ctx context.Context, tx *postgres.Tx) error { return do(ctx, t.newTx(tx)) })
}

func (t transactor) newTx(tx *postgres.Tx) *Tx {
	return &Tx{statementsOn(tx.Q, t.rules.Route), tx, tx.Q, tx.Raw, t.drains, t.rules.Hosters}
}

// Begin begins a transaction as InTx does. It holds a connection until End.
func (t transactor) Begin(ctx context.Context) (*Tx, error) {
	tx, err := t.db.BeginTx(ctx)
	if err != nil {
		return nil, err
	}
	return t.newTx(tx), nil
}

// End commits a transaction of Begin if err is nil. Otherwise it rolls back and returns err.
func (tx *Tx) End(ctx context.Context, err error) error {
	return tx.base.End(ctx, err)
}

// Now returns the time by the database's clock, as Store.Now.
func (tx *Tx) Now() time.Time { return tx.base.Now() }

// LeastNow is Store.LeastNow.
func (tx *Tx) LeastNow() time.Time { return tx.base.LeastNow() }

// Insist calls do at a savepoint. While PostgreSQL has no room for what do writes, it rolls back to the savepoint, and
// calls do again each time that again, given the error, returns true. The transaction keeps the locks that it had
// before. It returns the last error of do.
func (tx *Tx) Insist(ctx context.Context, do func() error, again func(error) bool) error {
	return tx.base.Insist(ctx, do, again)
}
