package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// While a snapshot is held, claimed tasks stay in the index of ready ones as dead rows. A look for ready tasks from a date
// on, and its claim, don't read ever more of them. They find no task with an earlier date; a whole look and its claim do.
func TestLooksFromADateSkipClaimedTasks(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), "alter table task set (autovacuum_enabled = false)") // autovacuum would read blocks, too
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) values ('a', '', 'a'), ('b', '', 'b')")
	sqltest.HoldSnapshot(t, dsn)
	now := time.Now()
	add := func(n int, age string) { // in random order, so that entries that follow each other are of rows on different pages
		testenv.Exec(t, store.Pool(), `insert into task (type, arguments, next_run, status, policy)
			select 'a', '{}', $2::timestamptz - $3::interval * (1 + random() / 10), 'next_run_not_scheduled', 'oneshot' from generate_series(1, $1::int)`, n, now, age)
	}
	// look returns the types that are ready, and the number of tasks that are claimed.
	look := func(from time.Time) (types []string, claimed int) {
		marks := map[string]time.Time{"a": from}
		if from.IsZero() {
			marks = nil
		}
		types, err := store.ReadyTaskTypes(t.Context(), now, false, marks)
		if err == nil {
			err = store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, work, err := tx.ClaimTasks(ctx, ledger.TaskClaim{Type: model.TaskType{Type: "a", BackendName: "a"}, Queue: "a", Now: now, From: from, Groups: []ledger.TaskGroup{{Count: 10}}})
				claimed = len(work)
				return err
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		return types, claimed
	}
	var read []int
	for range 5 {
		add(3000, "1 hour")
		testenv.Exec(t, store.Pool(), "update task set status = 'next_run_scheduled' where status = 'next_run_not_scheduled'")
		add(3, "1 second")
		before := sqltest.BlocksOf(t, store, "task")
		if types, n := look(now.Add(-time.Minute)); !slices.Equal(types, []string{"a"}) || n != 3 {
			t.Errorf("%v are ready, %d claimed", types, n)
		}
		read = append(read, sqltest.BlocksOf(t, store, "task")-before)
	}
	if slices.Max(read) > 300 { // 3,000 to 15,000 without the date
		t.Errorf("with 3,000 more dead rows each, %v blocks were read", read)
	}
	add(2, "1 day")
	if types, n := look(now.Add(-time.Minute)); len(types)+n > 0 {
		t.Errorf("from a date on, %v are ready, %d claimed", types, n)
	}
	if types, n := look(time.Time{}); !slices.Equal(types, []string{"a"}) || n != 2 {
		t.Errorf("%v are ready, %d claimed", types, n)
	}
}

// withLaterTasks opens a database with types of tasks, type-1 and so on, whose tasks run within 30 days after now.
func withLaterTasks(t *testing.T, now time.Time, types, tasks int) *db.Store {
	t.Helper()
	store := testenv.OpenLocal(t, testenv.Database(t)+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), "alter table task set (autovacuum_enabled = false)") // autovacuum would read blocks, too
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) select 'type-' || n, '', 'x' from generate_series(1, $1::int) n", types)
	testenv.Exec(t, store.Pool(), `insert into task (type, arguments, next_run, status, policy)
		select 'type-' || 1 + n % $2::int, '{}', $1::timestamptz + interval '1 minute' + random() * interval '30 days', 'next_run_not_scheduled', 'oneshot' from generate_series(1, $3::int) n`, now, types, tasks)
	testenv.Exec(t, store.Pool(), "vacuum analyze task")
	return store
}

// A look for ready tasks reads no tasks that run later, however many types have them.
func TestLooksSkipLaterTasks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	store := withLaterTasks(t, now, 100, 20000)
	from := map[string]time.Time{"type-1": now.Add(-time.Minute)}
	for _, withPriority := range []bool{false, true} {
		before := sqltest.BlocksOf(t, store, "task")
		types, err := store.ReadyTaskTypes(t.Context(), now, withPriority, from)
		if err != nil || len(types) > 0 {
			t.Errorf("%v are ready (%v)", types, err)
		}
		if read := sqltest.BlocksOf(t, store, "task") - before; read > 500 {
			t.Errorf("priority %t: %d blocks were read", withPriority, read)
		}
	}
}

// A claim reads no tasks that run later, however many its type has, with any limit, with lanes, and whether PostgreSQL plans
// it for its values or for any.
func TestClaimsSkipLaterTasks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	store := withLaterTasks(t, now, 10, 30000)
	for _, c := range []ledger.TaskClaim{{Tried: true}, {WithPriority: true}, {}} {
		c.Type, c.Queue, c.Now = model.TaskType{Type: "type-1", BackendName: "a"}, "a", now
		for _, most := range []int{3, 100, 1000, 10000, 3, 3, 3} { // the first five plans are for the values
			c.Groups = []ledger.TaskGroup{{Count: most}}
			testenv.Exec(t, store.Pool(), `insert into task (type, arguments, next_run, status, policy, priority)
				select 'type-1', '{}', $1::timestamptz - interval '1 second', 'next_run_not_scheduled', 'oneshot', case when $2 then 'high'::task_priority end from generate_series(1, 3)`, now, c.WithPriority)
			before := sqltest.BlocksOf(t, store, "task")
			err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, work, err := tx.ClaimTasks(ctx, c)
				if len(work) != 3 {
					t.Errorf("%d are claimed, want 3", len(work))
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if read := sqltest.BlocksOf(t, store, "task") - before; read > 200 {
				t.Errorf("with priority %t, lanes %t, up to %d tasks: %d blocks were read", c.WithPriority, c.Tried, most, read)
			}
		}
	}
}

// withUrgentTasks opens a database with a type, type-1, of ready tasks: 10 with priority, 30,000 without. 30,000 with priority
// have ended.
func withUrgentTasks(t *testing.T, now time.Time) *db.Store {
	t.Helper()
	store := withLaterTasks(t, now, 10, 10)
	testenv.Exec(t, store.Pool(), `insert into task (type, arguments, next_run, status, policy, priority)
		select 'type-1', '{}'::jsonb, $1::timestamptz - interval '1 hour', 'next_run_not_scheduled'::task_status, 'oneshot'::task_policy, null::task_priority from generate_series(1, 30000)
		union all select 'type-1', '{}', $1::timestamptz - interval '1 hour', 'completed', 'oneshot', 'high' from generate_series(1, 30000)`, now)
	testenv.Exec(t, store.Pool(), "vacuum analyze task")
	testenv.Exec(t, store.Pool(), `insert into task (type, arguments, next_run, status, policy, priority)
		select 'type-1', '{}', $1::timestamptz - interval '1 second', 'next_run_not_scheduled', 'oneshot', 'high' from generate_series(1, 10)`, now)
	return store
}

// A look for tasks with priority, and a claim of them, read no tasks without, and none that have ended, whether
// PostgreSQL plans the look for its values or for any.
func TestTasksWithPrioritySkipOthers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	store := withUrgentTasks(t, now)
	for n := range 10 { // the first five plans are for the values
		before := sqltest.BlocksOf(t, store, "task")
		types, err := store.ReadyTaskTypes(t.Context(), now, true, nil)
		if err != nil || len(types) != 1 {
			t.Errorf("%v are ready (%v), want type-1", types, err)
		}
		if read := sqltest.BlocksOf(t, store, "task") - before; read > 100 {
			t.Errorf("look %d: %d blocks were read", n, read)
		}
	}
	for n := range 10 {
		before := sqltest.BlocksOf(t, store, "task")
		err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, work, err := tx.ClaimTasks(ctx, ledger.TaskClaim{Type: model.TaskType{Type: "type-1", BackendName: "a"}, Queue: "a", Now: now, WithPriority: true, Groups: []ledger.TaskGroup{{Count: 1}}})
			if len(work) != 1 {
				t.Errorf("%d are claimed, want 1", len(work))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if read := sqltest.BlocksOf(t, store, "task") - before; read > 120 { // more than 400 by a plan for any values
			t.Errorf("claim %d: %d blocks were read", n, read)
		}
	}
}

// What other schedulers ask for, ready tasks with priority, reads no tasks without and none that have ended, either.
func TestGrabsOfTasksWithPrioritySkipOthers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	store := withUrgentTasks(t, now)
	for i, ask := range []func(context.Context, string, time.Time, int) ([]model.Task, error){store.PeekReadyPriorityTasks, store.GrabReadyPriorityTasks} {
		for n := range 10 { // the first five plans are for the values
			before := sqltest.BlocksOf(t, store, "task")
			if tasks, err := ask(t.Context(), "type-1", now, 1); err != nil || len(tasks) != 1 {
				t.Fatalf("%v are ready (%v), want a task", tasks, err)
			}
			if read := sqltest.BlocksOf(t, store, "task") - before; read > 120 {
				t.Errorf("%s, call %d: %d blocks were read", []string{"peek", "grab"}[i], n, read)
			}
		}
	}
}

// By its statistics, PostgreSQL knows few ready tasks but not how many entries their index has: a vacuum counts dead ones, an
// analysis doesn't. Looks and claims use that index for any number.
func TestLooksUseTheirIndexByAnyStatistics(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), "alter table task set (autovacuum_enabled = false)")
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) select 'type-' || n, '', 'x' from generate_series(1, 100) n")
	sqltest.HoldSnapshot(t, dsn)
	now := time.Now()
	testenv.Exec(t, store.Pool(), `insert into task (type, arguments, next_run, status, policy)
		select 'type-' || ceil(random() * 100), '{}', $1::timestamptz - random() * interval '20 minutes', 'next_run_not_scheduled', 'oneshot' from generate_series(1, 40000)`, now)
	testenv.Exec(t, store.Pool(), "update task set status = 'next_run_scheduled'")
	from := make(map[string]time.Time)
	for n := range 100 {
		from[fmt.Sprint("type-", n+1)] = now.Add(-10 * time.Second)
	}
	for _, ready := range []int{0, 30} {
		testenv.Exec(t, store.Pool(), `insert into task (type, arguments, next_run, status, policy)
			select 'type-' || n, '{}', $1::timestamptz - interval '1 second', 'next_run_not_scheduled', 'oneshot' from generate_series(1, $2::int) n`, now, ready)
		testenv.Exec(t, store.Pool(), "analyze task")
		for _, entries := range []int{0, 5, 10, 20, 50, 1000, 40000} {
			testenv.Exec(t, store.Pool(), "update pg_class set reltuples = $1 where relname = 'task_type_next_run_idx'", entries)
			before := sqltest.BlocksOf(t, store, "task")
			types, err := store.ReadyTaskTypes(t.Context(), now, false, from)
			if err != nil {
				t.Fatal(err)
			}
			looked := sqltest.BlocksOf(t, store, "task")
			err = store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, _, err := tx.ClaimTasks(ctx, ledger.TaskClaim{Type: model.TaskType{Type: "type-99", BackendName: "a"}, Queue: "a", Now: now, From: from["type-99"], Groups: []ledger.TaskGroup{{Count: 10}}})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			claimed := sqltest.BlocksOf(t, store, "task")
			if len(types) != ready {
				t.Errorf("%d types are ready, want %d", len(types), ready)
			}
			if look, claim := looked-before, claimed-looked; look > 700 || claim > 15 {
				t.Errorf("with %d ready tasks and %d entries by the statistics, a look read %d blocks, and a claim %d", ready, entries, look, claim)
			}
		}
	}
}
