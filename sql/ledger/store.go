package ledger

import (
	"context"

	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/postgres"
)

// Queries are the statements on the ledger, lanes and shares, inside a transaction or not.
type Queries struct{ q *queries.Queries }

// A Store runs its own transactions.
type Store struct {
	Queries
	db    *postgres.DB
	sizes *sizes
}

// A Tx is a transaction with the methods of the ledger.
type Tx struct {
	*postgres.Tx
	Queries

	plans string // the settings of claims that are in effect
}

// sizes are the batch sizes of maintenance.
type sizes struct{ settled bulk.BatchSize }

// New returns the store on a database.
func New(db *postgres.DB) Store {
	return Store{Queries{postgres.QueriesOf(db)}, db, new(sizes)}
}

// WithTx returns the ledger's methods on a transaction.
func (s Store) WithTx(tx *postgres.Tx) Tx { return Tx{Tx: tx, Queries: Queries{tx.Q}} }

func (s Store) inTx(ctx context.Context, begin postgres.BeginStatement, do func(context.Context, *Tx) error) error {
	return postgres.TransactOn(ctx, s.db, begin, s.WithTx, do)
}
