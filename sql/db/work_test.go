package db_test

import (
	"context"
	"testing"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// The plan of who delivers is not one that was kept from when there were few messages, and
// sorts all of many for each batch.
func TestNextOutgoingKeepsNoPlan(t *testing.T) {
	t.Parallel()
	if err := open(t, testenv.Database(t)).ByKey(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		for range 8 {
			if _, err := tx.NextOutgoing(ctx, false, 10, nil, nil); err != nil {
				return err
			}
		}
		var custom, kept int
		err := tx.Raw().QueryRow(ctx, `select custom_plans, generic_plans from pg_prepared_statements
			where statement like '-- name: NextOutgoing %'`).Scan(&custom, &kept)
		if kept > 0 || custom != 8 {
			t.Errorf("%d times a plan for what is there, %d times one that was kept", custom, kept)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
