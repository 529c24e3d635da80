package ledger_test

import (
	"slices"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
)

// The list of running work looks up the runs that started since the last update. It doesn't read the others.
func TestRunningReadsOnlyRecentStarts(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t)+"?pool_max_conns=1")
	for _, statement := range []string{
		"alter table task_run set (autovacuum_enabled = false)", // autovacuum would read blocks, too
		"alter table task set (autovacuum_enabled = false)",
		"insert into task_type (type, description, backend_name) values ('a', '', 'a')",
		"insert into task (type, arguments, next_run, status, policy) select 'a', '{}', now(), 'next_run_scheduled', 'oneshot' from generate_series(1, 20000)",
		`insert into task_run (task, backend_id, scheduled, started, status)
			select id, id::text, now(), now() - interval '1 hour', case when id % 1000 = 0 then 'started' else 'eventful' end::task_run_status from task`,
		`insert into scheduler_go.run_starts (run, event_time, worker, recorded)
			select id, 1, 'w', case when id % 1000 = 0 then now() else now() - interval '1 hour' end from task_run`,
		"analyze",
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	note := func() {
		t.Helper()
		if err := store.NoteRunning(t.Context(), time.Now(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	note() // the first one reads two days
	for _, rows := range []int{20000, 1000000} {
		testenv.Exec(t, store.Pool(), "update pg_class set reltuples = $1 where relname in ('task_run', 'task', 'run_starts')", rows)
		testenv.Exec(t, store.Pool(), "delete from scheduler_go.running")
		testenv.Exec(t, store.Pool(), `update scheduler_go.walks set result = jsonb_build_object('Until', extract(epoch from now())::bigint - 60)`)
		runs, tasks := sqltest.BlocksOf(t, store, "task_run"), sqltest.BlocksOf(t, store, "task")
		note()
		runs, tasks = sqltest.BlocksOf(t, store, "task_run")-runs, sqltest.BlocksOf(t, store, "task")-tasks
		if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.running"); n != 20 {
			t.Errorf("%d runs are listed, want 20", n)
		}
		if runs > 200 || tasks > 100 {
			t.Errorf("with %d rows by the statistics, %d blocks of runs and %d of tasks were read for 20 runs", rows, runs, tasks)
		}
	}
}

// With the clock set back since the last update, the list of running work reads the starts of two days again.
func TestRunningAfterTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	for _, statement := range []string{
		"insert into task_type (type, description, backend_name) values ('a', '', 'a')",
		"insert into task (type, arguments, next_run, status, policy) select 'a', '{}', now(), 'next_run_scheduled', 'oneshot' from generate_series(1, 2)",
		"insert into task_run (task, backend_id, scheduled, started, status) select id, id::text, now(), now(), 'started' from task",
		"insert into scheduler_go.run_starts (run, event_time, worker, recorded) select id, 1, 'w', now() - id * interval '47 hours' from task_run",
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	for _, now := range []time.Time{time.Now().Add(time.Hour), time.Now()} {
		testenv.Exec(t, store.Pool(), "delete from scheduler_go.running")
		if err := store.NoteRunning(t.Context(), now, time.Minute); err != nil {
			t.Fatal(err)
		}
		if listed := testenv.Column[int64](t, store.Pool(), "select task from scheduler_go.running"); !slices.Equal(listed, []int64{1}) {
			t.Errorf("at %v, the runs of tasks %v are listed, want the one that started 47 hours ago", now, listed)
		}
	}
}
