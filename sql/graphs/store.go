package graphs

import (
	"context"

	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/postgres"
)

// Queries are the statements on graphs, inside a transaction or not.
type Queries struct{ q *queries.Queries }

// A Store runs its own transactions.
type Store struct {
	Queries
	db    *postgres.DB
	sizes *sizes
}

// A Tx is a transaction with the methods on graphs.
type Tx struct {
	*postgres.Tx
	Queries
	sizes *sizes
}

// sizes are the batch sizes of the drain.
type sizes struct{ graphs bulk.BatchSize }

// New returns the store on a database.
func New(db *postgres.DB) Store {
	return Store{Queries{postgres.QueriesOf(db)}, db, new(sizes)}
}

// WithTx returns the methods on graphs in a transaction.
func (s Store) WithTx(tx *postgres.Tx) Tx { return Tx{tx, Queries{tx.Q}, s.sizes} }

func (s Store) inTx(ctx context.Context, begin postgres.BeginStatement, do func(context.Context, *Tx) error) error {
	return postgres.TransactOn(ctx, s.db, begin, s.WithTx, do)
}
