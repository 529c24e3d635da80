package db

import (
	"context"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/postgres"
)

// OriginsQueries are statements on listers, origins, candidates and hosters, in a transaction or not.
type OriginsQueries struct{ q *queries.Queries }

// An OriginsStore runs its own transactions.
type OriginsStore struct {
	OriginsQueries
	db      *postgres.DB
	hosters model.Hosters // grabs keep their limits
	sizes   *originsSizes
}

// An OriginsTx is a transaction with what is done to origins in it.
type OriginsTx struct {
	*postgres.Tx
	OriginsQueries
	hosters model.Hosters
	sizes   *originsSizes
}

// originsSizes are the sizes of the batches that keep candidates up to date.
type originsSizes struct{ changes, parked, copied bulk.BatchSize }

// NewOrigins returns the store of a database, whose grabs keep the limits of hosters.
func NewOrigins(db *postgres.DB, hosters model.Hosters) OriginsStore {
	return OriginsStore{OriginsQueries{postgres.QueriesOf(db)}, db, hosters, new(originsSizes)}
}

// On returns what is done to origins in a transaction.
func (s OriginsStore) On(tx *postgres.Tx) OriginsTx {
	return OriginsTx{tx, OriginsQueries{tx.Q}, s.hosters, s.sizes}
}

func (s OriginsStore) inTx(ctx context.Context, begin postgres.Beginning, do func(context.Context, *OriginsTx) error) error {
	return s.db.Transact(ctx, begin, func(ctx context.Context, tx *postgres.Tx) error {
		on := s.On(tx)
		return do(ctx, &on)
	})
}
