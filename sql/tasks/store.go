package tasks

import (
	"context"

	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/postgres"
)

// Queries are statements on task types, tasks and runs, in a transaction or not.
type Queries struct {
	q     *queries.Queries
	route func(task string) string // the queue of a task type's tasks by their Celery name; nil leaves it to model.TaskType
}

// A Store runs its own transactions.
type Store struct {
	Queries
	db *postgres.DB
}

// A Tx is a transaction with what is done to tasks in it.
type Tx struct {
	*postgres.Tx
	Queries
}

// New returns the store of a database. route may be nil.
func New(db *postgres.DB, route func(task string) string) Store {
	return Store{Queries{postgres.QueriesOf(db), route}, db}
}

// On returns what is done to tasks in a transaction.
func (s Store) On(tx *postgres.Tx) Tx { return Tx{tx, Queries{tx.Q, s.route}} }

func (s Store) inTx(ctx context.Context, begin postgres.Beginning, do func(context.Context, *Tx) error) error {
	return postgres.TransactOn(ctx, s.db, begin, s.On, do)
}
