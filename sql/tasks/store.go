package tasks

import (
	"context"

	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/postgres"
)

// Queries are the statements on task types, tasks and runs, inside a transaction or not.
type Queries struct {
	q     *queries.Queries
	route func(task string) string // returns the queue of tasks with a Celery name; nil means model.TaskType's queue
}

// A Store runs its own transactions.
type Store struct {
	Queries
	db *postgres.DB
}

// A Tx is a transaction with the methods on tasks.
type Tx struct {
	*postgres.Tx
	Queries
}

// New returns the store on a database. route may be nil.
func New(db *postgres.DB, route func(task string) string) Store {
	return Store{Queries{postgres.QueriesOf(db), route}, db}
}

// WithTx returns the methods on tasks in a transaction.
func (s Store) WithTx(tx *postgres.Tx) Tx { return Tx{tx, Queries{tx.Q, s.route}} }

func (s Store) inTx(ctx context.Context, begin postgres.BeginStatement, do func(context.Context, *Tx) error) error {
	return postgres.TransactOn(ctx, s.db, begin, s.WithTx, do)
}
