package db

import (
	"context"

	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/postgres"
)

// GraphsQueries are statements on graphs, in a transaction or not.
type GraphsQueries struct{ q *queries.Queries }

// A GraphsStore runs its own transactions.
type GraphsStore struct {
	GraphsQueries
	db    *postgres.DB
	sizes *graphsSizes
}

// A GraphsTx is a transaction with what is done to graphs in it.
type GraphsTx struct {
	*postgres.Tx
	GraphsQueries
	sizes *graphsSizes
}

// graphsSizes are the sizes of rounds of the drain.
type graphsSizes struct{ graphs bulk.BatchSize }

// NewGraphs returns the store of a database.
func NewGraphs(db *postgres.DB) GraphsStore {
	return GraphsStore{GraphsQueries{postgres.QueriesOf(db)}, db, new(graphsSizes)}
}

// On returns what is done to graphs in a transaction.
func (s GraphsStore) On(tx *postgres.Tx) GraphsTx { return GraphsTx{tx, GraphsQueries{tx.Q}, s.sizes} }

func (s GraphsStore) inTx(ctx context.Context, begin postgres.Beginning, do func(context.Context, *GraphsTx) error) error {
	return s.db.Transact(ctx, begin, func(ctx context.Context, tx *postgres.Tx) error {
		on := s.On(tx)
		return do(ctx, &on)
	})
}
