package db_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/db"
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

// While a snapshot is held, claimed tasks stay in the index of ready ones as dead rows. Counts don't read ever more of them. A task
// that is written with an earlier date is counted after some walks.
func TestReadyCountsSkipClaimedTasks(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), "alter table task set (autovacuum_enabled = false)")
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) select 't' || n, '', 't' from generate_series(1, 120) n")
	sqltest.HoldSnapshot(t, dsn)
	now := time.Now()
	add := func(taskType, age string) {
		testenv.Exec(t, store.Pool(), "insert into task (type, arguments, next_run, status, policy) values ($1, '{}', $2::timestamptz - $3::interval, 'next_run_not_scheduled', 'oneshot')", taskType, now, age)
	}
	testenv.Exec(t, store.Pool(), `insert into task (type, arguments, next_run, status, policy)
		select 't' || 1 + n % 120, '{}', $1::timestamptz - (1 + random()) * interval '1 minute', 'next_run_not_scheduled', 'oneshot' from generate_series(1, 12000) n`, now)
	testenv.Exec(t, store.Pool(), "update task set status = 'next_run_scheduled'")
	// count walks once, and returns the oldest ready task of each type and the number of blocks read.
	count := func() (oldest map[string]time.Duration, blocks int) {
		t.Helper()
		before := sqltest.BlocksOf(t, store, "task")
		if ended, err := store.CountReady(t.Context(), now, time.Minute); !ended || err != nil {
			t.Fatal(ended, err)
		}
		blocks = sqltest.BlocksOf(t, store, "task") - before
		f, err := store.Figures(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		oldest = make(map[string]time.Duration)
		for _, r := range f.Ready {
			oldest[r.Type] = now.Sub(r.Oldest).Round(time.Second)
		}
		return oldest, blocks
	}
	add("t1", "5 seconds")
	add("t2", "1 second")
	testenv.Exec(t, store.Pool(), "update task set next_run = '-infinity' where type = 't2' and status = 'next_run_not_scheduled'")
	wantAll := func(step string, oldest map[string]time.Duration, want map[string]time.Duration) {
		t.Helper()
		if _, ok := oldest["t2"]; !ok {
			t.Errorf("%s: the task at -infinity isn't counted", step)
		}
		delete(oldest, "t2")
		if !maps.Equal(oldest, want) {
			t.Errorf("%s: the oldest are %v, want %v", step, oldest, want)
		}
	}
	oldest, whole := count()
	wantAll("the first walk", oldest, map[string]time.Duration{"t1": 5 * time.Second})
	add("t1", "3 seconds")
	add("t3", "2 seconds")
	oldest, _ = count()
	wantAll("the second walk", oldest, map[string]time.Duration{"t1": 5 * time.Second, "t3": 2 * time.Second})
	add("t4", "1 hour")
	found, blocks := 0, 0
	for walk := 1; walk <= 15; walk++ {
		oldest, n := count()
		blocks += n
		if _, ok := oldest["t4"]; ok && found == 0 {
			found = walk
		}
		if n > whole/2 {
			t.Errorf("the %dth walk read %d blocks, a whole one %d", walk, n, whole)
		}
	}
	if found == 0 {
		t.Errorf("an hour-old task isn't counted by 15 walks: %v", oldest)
	}
	if blocks > 2*whole {
		t.Errorf("15 walks read %d blocks, a whole one %d", blocks, whole)
	}
	if whole, _ := count(); whole["t4"] != time.Hour || len(whole) != 4 {
		t.Errorf("the walk after these found %v", whole)
	}
}

// While a snapshot is held, messages that were sent stay in the index as dead rows. Figures don't read ever more of them.
func TestFiguresSkipSentMessages(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), "alter table scheduler_go.work set (autovacuum_enabled = false)")
	sqltest.HoldSnapshot(t, dsn)
	add := func(n int, urgent bool) {
		testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, queue, task_name, args, kwargs, urgent, claimed, last_error)
			select gen_random_uuid(), 'q' || n % 2, 'n', '[]', '{}', $2, '2026-01-01Z'::timestamptz + n * interval '1 day', case when n = 1 then 'refused' end from generate_series(1, $1::int) n`, n, urgent)
	}
	for _, urgent := range []bool{false, true} {
		add(5000, urgent)
	}
	testenv.Exec(t, store.Pool(), "delete from scheduler_go.work")
	testenv.Exec(t, store.Pool(), "update scheduler_go.low_water set low = (select last_value from scheduler_go.work_place_seq)")
	add(3, false)
	add(2, true)
	for _, rows := range []int{-1, 0, 32, 20000} { // by the statistics
		testenv.Exec(t, store.Pool(), "update pg_class set reltuples = $1, relpages = pg_relation_size(oid) / 8192 where relname in ('work', 'work_outgoing_idx', 'work_outgoing_queue_idx')", rows)
		before := sqltest.BlocksOf(t, store, "work")
		f, err := store.Figures(t.Context(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if n := sqltest.BlocksOf(t, store, "work") - before; n > 30 {
			t.Errorf("%d blocks were read, with %d rows by the statistics", n, rows)
		}
		slices.SortFunc(f.Outgoing, func(a, b db.OutgoingQueue) int { return strings.Compare(a.Queue, b.Queue) })
		day := func(n int) time.Time { return time.Date(2026, 1, 1+n, 0, 0, 0, 0, time.UTC) }
		for i, want := range []db.OutgoingQueue{{Queue: "q0", Messages: 2, Oldest: day(2)}, {Queue: "q1", Messages: 3, Oldest: day(1), Refused: 2}} {
			if got := f.Outgoing[i]; got.Queue != want.Queue || got.Messages != want.Messages || !got.Oldest.Equal(want.Oldest) || got.Refused != want.Refused {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
	}
}
