package db

import (
	"context"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/graphs"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/origins"
	"swh-scheduler/sql/postgres"
	"swh-scheduler/sql/tasks"
)

// Rules are the configuration that a Store applies.
type Rules struct {
	// Route returns the queue of tasks with a Celery name; nil means model.TaskType's queue.
	Route func(task string) string
	// Hosters limit claims of visits.
	Hosters model.Hosters
	// UnknownHints decide about hints of origins that no lister lists.
	UnknownHints model.UnknownHints
}

// A Store is the scheduler's database on a pool of connections. It is safe for concurrent use. It has the
// methods of the stores of the rooms, and of the stores over several rooms.
type Store struct {
	*postgres.DB
	migrate.Checks
	transactor
	tasksStore
	originsStore
	ledgerStore
	graphsStore
	ArchiveStore
	ExplainStore
	JobStore
	MonitorStore
	RejectedStore
	SearchStore
	ActionStore
}

// A Tx is a transaction of the Store. It has the rooms' methods that need a transaction, or that are one
// statement. It is not safe for concurrent use.
type Tx struct {
	*postgres.Tx
	tasksTx
	originsTx
	ledgerTx
	graphsTx
	q *queries.Queries
}

// These are the stores of rooms, under the names by which Store and Tx embed them.
type (
	tasksStore   = tasks.Store
	originsStore = origins.Store
	ledgerStore  = ledger.Store
	graphsStore  = graphs.Store

	tasksTx   = tasks.Tx
	originsTx = origins.Tx
	ledgerTx  = ledger.Tx
	graphsTx  = graphs.Tx
)

// These stores read or write several rooms, one subject each.
type (
	ArchiveStore  struct{ store } // archives tasks and graphs that have ended
	ExplainStore  struct{ store }
	JobStore      struct{ store } // maintenance jobs
	MonitorStore  struct{ store }
	RejectedStore struct{ store } // events and records that are set aside
	SearchStore   struct{ store } // searches for people
	ActionStore   struct{ store } // changes that people make to tasks and graphs

	store struct {
		transactor
		q *queries.Queries
	}
)

// rooms are the stores of the rooms on one database.
type rooms struct {
	tasksStore
	originsStore
	ledgerStore
	graphsStore
}

// transactor runs transactions of all rooms.
type transactor struct {
	db    *postgres.DB
	rooms *rooms
}

// Open parses the DSN and prepares a pool. It fails only for an unusable DSN. The first use connects: if
// the database is unreachable, the first call (usually CheckVersion) returns the error, and the caller can
// retry. The Store has no rules.
func Open(ctx context.Context, dsn string, o postgres.Options) (*Store, error) {
	d, err := postgres.Open(ctx, dsn, o)
	if err != nil {
		return nil, err
	}
	return storeOn(d, Rules{}), nil
}

// With returns a Store on the same pool with other rules. Closing either closes both.
func (s *Store) With(rules Rules) *Store { return storeOn(s.DB, rules) }

func storeOn(d *postgres.DB, rules Rules) *Store {
	r := &rooms{tasks.New(d, rules.Route), origins.New(d, rules.Hosters, rules.UnknownHints), ledger.New(d), graphs.New(d)}
	t := transactor{d, r}
	s := store{t, postgres.QueriesOf(d)}
	return &Store{
		d, migrate.ChecksOf(d), t, r.tasksStore, r.originsStore, r.ledgerStore, r.graphsStore,
		ArchiveStore{s}, ExplainStore{s}, JobStore{s}, MonitorStore{s}, RejectedStore{s}, SearchStore{s}, ActionStore{s},
	}
}

// InTx runs do in a transaction (read committed). It commits if do returns nil and rolls back otherwise. It
// never retries. If the connection is lost during the commit, the caller can't know whether the transaction
// took effect.
func (t transactor) InTx(ctx context.Context, do func(context.Context, *Tx) error) error {
	return t.inTx(ctx, postgres.Plainly, do)
}

// ByKey is InTx with custom plans, for statements that look rows up by keys. A cached generic plan may scan
// a table that has grown since the plan was made.
func (t transactor) ByKey(ctx context.Context, do func(context.Context, *Tx) error) error {
	return t.inTx(ctx, postgres.ByKey, do)
}

// ByPlace is ByKey for transactions with NextOutgoing. It makes the planner walk an index to the first
// rows; by its estimates, it would sort all rows.
func (t transactor) ByPlace(ctx context.Context, do func(context.Context, *Tx) error) error {
	return t.inTx(ctx, postgres.ByPlace, do)
}

func (t transactor) inTx(ctx context.Context, begin postgres.BeginStatement, do func(context.Context, *Tx) error) error {
	return t.db.Transact(ctx, begin, func(ctx context.Context, tx *postgres.Tx) error { return do(ctx, t.newTx(tx)) })
}

func (t transactor) newTx(tx *postgres.Tx) *Tx {
	return &Tx{tx, t.rooms.tasksStore.WithTx(tx), t.rooms.originsStore.WithTx(tx), t.rooms.ledgerStore.WithTx(tx), t.rooms.graphsStore.WithTx(tx), tx.Q}
}

// Begin begins a transaction like InTx. The transaction holds a connection until End.
func (t transactor) Begin(ctx context.Context) (*Tx, error) {
	tx, err := t.db.BeginTx(ctx)
	if err != nil {
		return nil, err
	}
	return t.newTx(tx), nil
}
