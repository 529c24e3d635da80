package db

import (
	"context"

	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/postgres"
)

// LedgerQueries are statements on the ledger, lanes and shares, in a transaction or not.
type LedgerQueries struct{ q *queries.Queries }

// A LedgerStore runs its own transactions.
type LedgerStore struct {
	LedgerQueries
	db    *postgres.DB
	sizes *ledgerSizes
}

// A LedgerTx is a transaction with what is done to the ledger in it.
type LedgerTx struct {
	*postgres.Tx
	LedgerQueries
}

// ledgerSizes are the sizes of the batches of maintenance.
type ledgerSizes struct{ settled bulk.BatchSize }

// NewLedger returns the store of a database.
func NewLedger(db *postgres.DB) LedgerStore {
	return LedgerStore{LedgerQueries{postgres.QueriesOf(db)}, db, new(ledgerSizes)}
}

// On returns what is done to the ledger in a transaction.
func (s LedgerStore) On(tx *postgres.Tx) LedgerTx { return LedgerTx{tx, LedgerQueries{tx.Q}} }

func (s LedgerStore) inTx(ctx context.Context, begin postgres.Beginning, do func(context.Context, *LedgerTx) error) error {
	return s.db.Transact(ctx, begin, func(ctx context.Context, tx *postgres.Tx) error {
		on := s.On(tx)
		return do(ctx, &on)
	})
}
