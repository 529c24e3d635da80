package db_test

import (
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
)

// Processes show the ready tasks that one of them has counted, and read no tasks themselves, unless that
// count is old.
func TestReadyTasksAreCountedOnceForAll(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t)+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), "alter table task set (autovacuum_enabled = false)") // autovacuum would read blocks, too
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) select 't' || n, '', 't' from generate_series(1, 120) n")
	testenv.Exec(t, store.Pool(), `insert into task (type, arguments, next_run, status, policy)
		select 't' || 1 + n % 120, '{}', now() - n * interval '1 second', 'next_run_not_scheduled', 'oneshot' from generate_series(1, 6000) n`)
	shown := func() (tasks int64, blocks int) {
		t.Helper()
		before := sqltest.BlocksOf(t, store, "task")
		f, err := store.Figures(t.Context(), time.Now())
		if err != nil || len(f.Ready) != 120 {
			t.Errorf("of %d types, %v", len(f.Ready), err)
		}
		for _, r := range f.Ready {
			tasks += r.Tasks
		}
		return tasks, sqltest.BlocksOf(t, store, "task") - before
	}
	if ended, err := store.CountReady(t.Context(), time.Now(), time.Minute); !ended || err != nil {
		t.Fatal(ended, err)
	}
	testenv.Exec(t, store.Pool(), "update task set status = 'completed' where id <= 3000")
	if n, blocks := shown(); n != 6000 || blocks != 0 {
		t.Errorf("%d tasks are shown, and %d blocks read; want 6,000 and 0", n, blocks)
	}
	testenv.Exec(t, store.Pool(), "update scheduler_go.walks set finished = finished - interval '6 minutes'")
	if n, blocks := shown(); n != 3000 || blocks == 0 {
		t.Errorf("%d tasks are shown, and %d blocks read; want 3,000", n, blocks)
	}
}

// For a task type with many ready tasks, Figures reads only the tasks that it counts, even if the planner
// expects few by the other types.
func TestFiguresReadTheTasksThatTheyCount(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t)+"?pool_max_conns=1")
	for _, statement := range []string{
		"set session_replication_role = replica",
		"insert into task_type (type, description, backend_name) select 't' || n, '', 't' from generate_series(0, 300) n",
		`insert into task (type, arguments, next_run, status, policy)
		 select 't' || greatest(0, n - 13000), '{}', now() - n * interval '1 second', 'next_run_not_scheduled', 'oneshot' from generate_series(1, 13300) n`,
		"analyze task",
		"select pg_stat_force_next_flush()",
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	read := func() int {
		testenv.Exec(t, store.Pool(), "select pg_stat_force_next_flush()")
		return testenv.Value[int](t, store.Pool(), "select idx_tup_fetch + seq_tup_read from pg_stat_user_tables where relname = 'task'")
	}
	before := read()
	figures, err := store.Figures(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if n := read() - before; n > 10_400 {
		t.Errorf("figures read %d tasks, want 10,300", n)
	}
	if n := len(figures.Ready); n != 301 {
		t.Errorf("figures have %d types, want 301", n)
	}
}
