package ledger_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// The plan of NextOutgoing is not a cached one from a small table, which would sort many messages for each
// batch.
func TestNextOutgoingKeepsNoPlan(t *testing.T) {
	t.Parallel()
	if err := testenv.OpenLocal(t, testenv.Database(t)).ByPlace(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		for range 8 {
			if _, err := tx.NextOutgoing(ctx, false, 10, nil, nil); err != nil {
				return err
			}
		}
		var custom, kept int
		err := tx.Raw.QueryRow(ctx, `select custom_plans, generic_plans from pg_prepared_statements
			where statement like '-- name: NextOutgoing %'`).Scan(&custom, &kept)
		if kept > 0 || custom != 8 {
			t.Errorf("%d custom plans, %d cached ones", custom, kept)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// NextOutgoing reads only the next of many messages, even before the table's first ANALYZE.
func TestNextOutgoingReadsNoOthers(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t)+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), "alter table scheduler_go.work set (autovacuum_enabled = false)")
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, queue, task_name, args, kwargs)
		select gen_random_uuid(), 'q', 'n', '[]', '{}' from generate_series(1, 10000) n`)
	read := func() int {
		testenv.Exec(t, store.Pool(), "select pg_stat_force_next_flush()")
		return testenv.Value[int](t, store.Pool(), "select seq_tup_read + idx_tup_fetch from pg_stat_all_tables where relid = 'scheduler_go.work'::regclass")
	}
	before := read()
	if err := store.ByPlace(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		next, err := tx.NextOutgoing(ctx, false, 225, []string{}, []uuid.UUID{})
		if len(next) != 225 {
			t.Errorf("%d messages were read", len(next))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if n := read() - before; n > 500 {
		t.Errorf("%d rows were read for 225 messages", n)
	}
}
