package origins

import (
	"context"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/postgres"
)

// Queries are the statements on listers, origins, candidates and hosters, inside a transaction or not.
type Queries struct{ q *queries.Queries }

// A Store runs its own transactions.
type Store struct {
	Queries
	db      *postgres.DB
	hosters model.Hosters // the limits that grabs respect
	sizes   *sizes
	unknown model.UnknownHints
	hinting *hinting
}

// A Tx is a transaction with the methods on origins.
type Tx struct {
	*postgres.Tx
	Queries
	hosters model.Hosters
	sizes   *sizes
}

// sizes are the batch sizes of the maintenance of candidates.
type sizes struct{ changes, parked, copied bulk.BatchSize }

// New returns the store on a database. Its grabs respect the limits of hosters.
func New(db *postgres.DB, hosters model.Hosters, unknown model.UnknownHints) Store {
	return Store{Queries{postgres.QueriesOf(db)}, db, hosters, new(sizes), unknown, new(hinting)}
}

// WithTx returns the methods on origins in a transaction.
func (s Store) WithTx(tx *postgres.Tx) Tx {
	return Tx{tx, Queries{tx.Q}, s.hosters, s.sizes}
}

func (s Store) inTx(ctx context.Context, begin postgres.BeginStatement, do func(context.Context, *Tx) error) error {
	return postgres.TransactOn(ctx, s.db, begin, s.WithTx, do)
}
