package dispatch_test

import (
	"context"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// claimWith claims for a queue what take returns for the number of free slots.
func claimWith(ctx context.Context, slots *dispatch.Slots, q dispatch.Queue, take func(ctx context.Context, tx *db.Tx, free int) ([]ledger.Work, error)) (int, error) {
	c, err := slots.Open(ctx, q)
	if err != nil {
		return 0, err
	}
	work, err := take(ctx, c.Tx, c.Free)
	return c.Commit(ctx, work, err)
}
