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

// Rules are the parts of the configuration that a Store applies.
type Rules struct {
	// Route finds the queue of a task type's tasks by their Celery name; nil leaves it to
	// model.TaskType.
	Route func(task string) string
	// Hosters are spared by claims of visits.
	Hosters model.Hosters
}

// A Store is the scheduler's database, on a pool of connections. It is safe for
// concurrent use. Its methods are those of the stores that it embeds, a room each, and of what reads
// several of them.
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

// A Tx is a transaction of the Store, with the methods of all rooms that only make sense in one, or are
// one statement. It is not safe for concurrent use.
type Tx struct {
	*postgres.Tx
	tasksTx
	originsTx
	ledgerTx
	graphsTx
	q *queries.Queries
}

// The rooms, by the names under which Store and Tx embed them.
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

// What reads or writes more than one room, by subject.
type (
	ArchiveStore  struct{ store } // tasks and graphs that have ended
	ExplainStore  struct{ store }
	JobStore      struct{ store } // maintenance jobs
	MonitorStore  struct{ store }
	RejectedStore struct{ store } // events and records that were set aside
	SearchStore   struct{ store } // what people look for
	ActionStore   struct{ store } // what people do to tasks and graphs

	store struct {
		transactor
		q *queries.Queries
	}
)

// rooms are the stores of a database.
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
	r := &rooms{tasks.New(d, rules.Route), origins.New(d, rules.Hosters), ledger.New(d), graphs.New(d)}
	t := transactor{d, r}
	s := store{t, postgres.QueriesOf(d)}
	return &Store{
		d, migrate.ChecksOf(d), t, r.tasksStore, r.originsStore, r.ledgerStore, r.graphsStore,
		ArchiveStore{s}, ExplainStore{s}, JobStore{s}, MonitorStore{s}, RejectedStore{s}, SearchStore{s}, ActionStore{s},
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
	return &Tx{tx, t.rooms.tasksStore.On(tx), t.rooms.originsStore.On(tx), t.rooms.ledgerStore.On(tx), t.rooms.graphsStore.On(tx), tx.Q}
}

// Begin begins a transaction as InTx does. It holds a connection until End.
func (t transactor) Begin(ctx context.Context) (*Tx, error) {
	tx, err := t.db.BeginTx(ctx)
	if err != nil {
		return nil, err
	}
	return t.newTx(tx), nil
}
