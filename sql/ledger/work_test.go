package ledger_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
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

// A deliverer whose lease ended doesn't back off a message that another one has leased since: the other one would
// send it again in the middle of its lease.
func TestBackOffSkipsLeasesOfOthers(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), "insert into scheduler_go.work (task_id, queue, task_name, args, kwargs) select gen_random_uuid(), 'q', 'n', '[]', '{}' from generate_series(1, 2)")
	var read []ledger.Outgoing
	if err := store.ByPlace(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		read, err = tx.NextOutgoing(ctx, false, 2, []string{}, []uuid.UUID{})
		return err
	}); err != nil || len(read) != 2 {
		t.Fatalf("%d messages were read: %v", len(read), err)
	}
	testenv.Exec(t, store.Pool(), "update scheduler_go.work set not_before = now() + interval '1 hour' where task_id = $1", read[0].TaskID)
	if err := store.ByKey(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		return tx.BackOff(ctx, []*ledger.Outgoing{&read[0], &read[1]}, "refused", time.Second)
	}); err != nil {
		t.Fatal(err)
	}
	got := testenv.Column[string](t, store.Pool(), "select attempts || ' ' || (not_before > now() + interval '30 minutes') from scheduler_go.work order by place")
	if want := []string{"0 true", "1 false"}; !slices.Equal(got, want) {
		t.Errorf("attempts, and whether the other's lease stands: %q, want %q", got, want)
	}
}

// Settled work waits for its runtime until a moment. Sent work stays.
func TestSettledWorkIsForgotten(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, since, share_group, cost, settled)
		select gen_random_uuid(), state, 'a', 'a', name, '[]', '{}', now() - interval '1 hour', 'g', 1, case state when 'settled' then now() - age end
		from (values ('old', 'settled', interval '1 hour'), ('young', 'settled', '1 minute'), ('sent', 'sent', '1 hour')) w (name, state, age)`)
	if err := store.ForgetSettled(t.Context(), time.Now().Add(-10*time.Minute)); err != nil {
		t.Fatal(err)
	}
	got := testenv.Column[string](t, store.Pool(), "select task_name from scheduler_go.work order by 1")
	if diff := cmp.Diff([]string{"sent", "young"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Only work of groups that no worker has begun counts as overdue.
func TestBegunWorkIsNotOverdue(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, since, share_group, cost, priority, started, hosters)
		select gen_random_uuid(), 'sent', 'q', 'q', 'n', '[]', '{}', now() - interval '1 hour', share_group, 1, priority, started, '{h}'
		from (values ('g', 1, 1), (null, 2, null), ('g', 5, null), ('g', 7, null)) w (share_group, priority, started)`)
	if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		lowest, err := tx.LowestOverduePriorities(ctx, []string{"q"}, time.Now(), time.Minute)
		if diff := cmp.Diff(map[string]uint8{"q": 5}, lowest); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
