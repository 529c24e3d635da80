package ledger_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// A connection plans plain claims once. Claims by priority have a plan for their values, also after a plain one in the same
// transaction.
func TestPlainClaimsArePlannedOnce(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t)+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) values ('a', '', 'a')")
	plain := ledger.TaskClaim{Type: model.TaskType{Type: "a", BackendName: "a"}, Queue: "a", Now: time.Now(), Groups: []ledger.TaskGroup{{Count: 10}}}
	urgent := plain
	urgent.WithPriority = true
	for range 3 {
		claim(t, store, plain, urgent, plain)
	}
	type plans struct{ Generic, Custom int }
	for of, want := range map[string]plans{"is null": {6, 0}, "is not null": {0, 3}} {
		got := testenv.Rows[plans](t, store.Pool(), "select generic_plans, custom_plans from pg_prepared_statements where statement like '%wanted as%and priority ' || $1 || '%'", of)
		if len(got) != 1 || got[0] != want {
			t.Errorf("claims where priority %s have had plans of these kinds: %v, want %v", of, got, want)
		}
	}
}

// A claim that PostgreSQL refuses leaves its transaction the settings of plans for the rest: a plan that is made without them stays
// with the connection.
func TestRefusedClaimKeepsThePlans(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t)+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) values ('a', '', 'a')")
	testenv.Exec(t, store.Pool(), "insert into task (id, type, arguments, next_run, status, policy) select n, 'a', '{}', now(), 'next_run_not_scheduled', 'oneshot' from generate_series(1, 3) n")
	testenv.Exec(t, store.Pool(), "alter table task add check (id <> 2 or status <> 'next_run_scheduled')")
	err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		_, work, err := tx.ClaimTasks(ctx, ledger.TaskClaim{Type: model.TaskType{Type: "a", BackendName: "a"}, Queue: "a", Now: time.Now().Add(time.Minute), Groups: []ledger.TaskGroup{{Count: 10}}})
		if err != nil || len(work) != 2 {
			t.Errorf("%d tasks are claimed, want 2: %v", len(work), err)
		}
		var mode string
		if err := tx.Raw.QueryRow(ctx, "show plan_cache_mode").Scan(&mode); err != nil || mode != "force_generic_plan" {
			t.Errorf("plan_cache_mode is %s: %v", mode, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A claim sets odd tasks aside and claims others in their place, up to its count of each group. More would overfill the
// queue.
func TestClaimsBesideOddTasksKeepTheirCount(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) values ('a', '', 'a')")
	testenv.Exec(t, store.Pool(), `insert into task (type, arguments, next_run, status, policy)
		select 'a', case when n % 5 = 1 then '[]' else '{}' end::jsonb, now() - interval '1 hour' + n * interval '1 second', 'next_run_not_scheduled', 'oneshot' from generate_series(1, 100) n`)
	err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		taken, work, err := tx.ClaimTasks(ctx, ledger.TaskClaim{Type: model.TaskType{Type: "a", BackendName: "a"}, Queue: "a", Now: time.Now(), Groups: []ledger.TaskGroup{{Count: 10}}})
		if len(work) != 10 || len(taken) != 1 || taken[0] != 10 {
			t.Errorf("%d messages, %v tasks claimed, want 10", len(work), taken)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from task_run"); n != 10 {
		t.Errorf("%d runs, want 10", n)
	}
}

// PostgreSQL refuses a run in the last part of a claim's statement. Of the part that was rolled back, no message stays: it
// would be sent a second time, without a run.
func TestRefusedRunsLeaveNoMessage(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) values ('a', '', 'a')")
	testenv.Exec(t, store.Pool(), "insert into task (id, type, arguments, next_run, status, policy) select n, 'a', '{}', now(), 'next_run_not_scheduled', 'oneshot' from generate_series(1, 2000) n")
	testenv.Exec(t, store.Pool(), "alter table task_run add check (task <> 1000)")
	var work []ledger.Work
	err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		_, work, err = tx.ClaimTasks(ctx, ledger.TaskClaim{Type: model.TaskType{Type: "a", BackendName: "a"}, Queue: "a", Now: time.Now().Add(time.Minute), Groups: []ledger.TaskGroup{{Count: 2000}}})
		return err
	})
	if runs := testenv.Value[int](t, store.Pool(), "select count(*) from task_run"); err != nil || runs != 1999 || len(work) != 1999 {
		t.Errorf("%d messages and %d runs, want 1999 of each: %v", len(work), runs, err)
	}
}

// A claim of a few tasks takes memory for these, not for the free slots of the queue.
func TestSmallClaimsTakeLittleMemory(t *testing.T) { // not parallel, as it reads the memory of the process
	store := testenv.OpenLocal(t, testenv.Database(t)+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) values ('a', '', 'a')")
	testenv.Exec(t, store.Pool(), "insert into task (type, arguments, next_run, status, policy) select 'a', '{}', now(), 'next_run_not_scheduled', 'oneshot' from generate_series(1, 50)")
	one := ledger.TaskClaim{Type: model.TaskType{Type: "a", BackendName: "a"}, Queue: "a", Now: time.Now(), Groups: []ledger.TaskGroup{{Count: 1}}}
	claim(t, store, one) // connects
	many := one
	many.Groups = []ledger.TaskGroup{{Count: 10000}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	claim(t, store, many) // of the other 49
	for range 9 {
		claim(t, store, many) // of none
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) / 10; took > 100_000 { // 3 MB with room for 10,000 tasks
		t.Errorf("a claim took %d bytes", took)
	}
}

// claim makes claims in a transaction.
func claim(t *testing.T, store *db.Store, claims ...ledger.TaskClaim) {
	t.Helper()
	err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		for _, c := range claims {
			if _, _, err := tx.ClaimTasks(ctx, c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
