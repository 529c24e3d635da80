package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// pass writes n messages to the ledger and deletes them.
func pass(t *testing.T, store *db.Store, n int) {
	t.Helper()
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, queue, task_name, args, kwargs, urgent)
		select gen_random_uuid(), 'q', 'n', '[]', '{}', n % 2 = 0 from generate_series(1, $1::int) n`, n)
	testenv.Exec(t, store.Pool(), "delete from scheduler_go.work where queue = 'q'")
}

// note adds n changes of candidates.
func note(t *testing.T, store *db.Store, n int) {
	t.Helper()
	testenv.Exec(t, store.Pool(), "insert into scheduler_go.candidate_changes (visit_type, url) select 'git', n from generate_series(1, $1::int) n", n)
}

// raise raises a mark, low or changes_low, until it has passed a place. Transactions of other tests on the
// server must end for that.
func raise(t *testing.T, store *db.Store, mark string, place int) {
	t.Helper()
	testenv.Becomes(t, "the mark "+mark, place, func() int {
		raiseOnce(t, store)
		return min(place, lowWater(t, store, mark))
	})
}

func raiseOnce(t *testing.T, store *db.Store) {
	t.Helper()
	if err := store.RaiseLowWater(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func lowWater(t *testing.T, store *db.Store, mark string) int {
	t.Helper()
	return testenv.Value[int](t, store.Pool(), "select "+mark+" from scheduler_go.low_water")
}

// outgoing returns the queues of all outgoing messages, as NextOutgoing reads them.
func outgoing(t *testing.T, store *db.Store) (queues []string) {
	t.Helper()
	err := store.ByPlace(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		for _, urgent := range []bool{true, false} {
			next, err := tx.NextOutgoing(ctx, urgent, 250, []string{}, []uuid.UUID{})
			if err != nil {
				return err
			}
			for _, m := range next {
				queues = append(queues, m.Queue)
			}
			if _, err := tx.OutgoingDue(ctx, urgent); err != nil {
				return err
			}
		}
		_, err := tx.QueueLedgers(ctx, ledger.QueueObserved{Name: "q", Since: time.Now(), Asked: time.Now()})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return queues
}

// While a snapshot is held, sent messages stay in the table and its indexes as dead rows. The queries of
// deliverers and claims don't read ever more of them.
func TestScansOfOutgoingWorkSkipSentMessages(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn+"?pool_max_conns=1")
	sqltest.HoldSnapshot(t, dsn)
	var read []int
	for i := range 5 {
		pass(t, store, 5000)
		raise(t, store, "low", 5000*(i+1))
		before := sqltest.BlocksOf(t, store, "work")
		outgoing(t, store)
		read = append(read, sqltest.BlocksOf(t, store, "work")-before)
	}
	if slices.Max(read) > 450 { // 2,000 without the mark
		t.Errorf("with 5,000 more dead rows each, %v blocks were read", read)
	}
}

// The same holds for drained changes of candidates.
func TestScansOfChangesSkipDrainedOnes(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn+"?pool_max_conns=1")
	sqltest.Keep(t, store)
	testenv.Exec(t, store.Pool(), "alter table scheduler_go.candidate_changes set (autovacuum_enabled = false)") // autovacuum would read blocks, too
	sqltest.HoldSnapshot(t, dsn)
	var read []int
	for i := range 5 {
		note(t, store, 12_000)
		sqltest.Keep(t, store)
		raise(t, store, "changes_low", 12_000*(i+1))
		before := sqltest.BlocksOf(t, store, "candidate_changes")
		sqltest.Keep(t, store)
		if n, err := store.CandidateBacklog(t.Context(), 10); n != 0 || err != nil {
			t.Errorf("%d changes are left, %v", n, err)
		}
		if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.GrabNextVisits(ctx, model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst}, time.Now(), 1, false)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		read = append(read, sqltest.BlocksOf(t, store, "candidate_changes")-before)
	}
	if slices.Max(read) > 100 { // 587 without the mark
		t.Errorf("with 12,000 more dead rows each, %v blocks were read", read)
	}
}

// The same holds for changes and checks of graphs, even if the planner expects one row or none.
func TestScansOfGraphChangesSkipDoneOnes(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn+"?pool_max_conns=1")
	for _, table := range []string{"graph_changes", "graph_checks"} {
		testenv.Exec(t, store.Pool(), "alter table scheduler_go."+table+" set (autovacuum_enabled = false)")
	}
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) values ('a', '', 'a')")
	testenv.Exec(t, store.Pool(), "insert into task (id, type, arguments, next_run, status, policy) values (1, 'a', '{}', scheduler_go.never(), 'next_run_not_scheduled', 'oneshot')")
	testenv.Exec(t, store.Pool(), "insert into scheduler_go.graphs (name, submitted) values ('g', now())")
	testenv.Exec(t, store.Pool(), "insert into scheduler_go.graph_tasks (task, graph, name, any_result, dependencies, deadline, watch) values (1, 1, 'a', false, 0, '2020-01-01', 1)")
	sqltest.HoldSnapshot(t, dsn)
	const dead = 50_000
	for _, table := range []string{"graph_changes", "graph_checks"} {
		testenv.Exec(t, store.Pool(), "insert into scheduler_go."+table+" (task) select 0 from generate_series(1, $1::int)", dead)
		testenv.Exec(t, store.Pool(), "delete from scheduler_go."+table)
	}
	testenv.Exec(t, store.Pool(), "analyze scheduler_go.graph_changes, scheduler_go.graph_checks")
	raise(t, store, "graphs_low", 2*dead)
	read := func() (blocks int) {
		t.Helper()
		before := sqltest.BlocksOf(t, store, "graph_changes") + sqltest.BlocksOf(t, store, "graph_checks")
		if _, err := store.AdvanceGraphs(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		return sqltest.BlocksOf(t, store, "graph_changes") + sqltest.BlocksOf(t, store, "graph_checks") - before
	}
	if n := read(); n > 60 { // one task's deadline is over; 3,016 without the mark
		t.Errorf("a drain with something to do read %d blocks", n)
	}
	if status := testenv.Value[string](t, store.Pool(), "select status from task"); status != "disabled" {
		t.Errorf("the task is %s, want disabled, as its deadline is over", status)
	}
	if n := read(); n > 10 { // 866 without the mark
		t.Errorf("a drain with nothing to do read %d blocks", n)
	}
}

// Confirm finds messages by key, even if the table is full of dead rows and they are its only live ones.
func TestConfirmFindsMessagesByKey(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), "alter table scheduler_go.work set (autovacuum_enabled = false)")
	sqltest.HoldSnapshot(t, dsn)
	pass(t, store, 5000)
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, queue, task_name, args, kwargs)
		select gen_random_uuid(), 'q', 'n', '[]', '{}' from generate_series(1, 100) n`)
	testenv.Exec(t, store.Pool(), "analyze scheduler_go.work")
	scans := func() int {
		testenv.Exec(t, store.Pool(), "select pg_stat_force_next_flush()")
		return testenv.Value[int](t, store.Pool(), "select seq_scan from pg_stat_all_tables where relid = 'scheduler_go.work'::regclass")
	}
	before := scans()
	if err := store.ByPlace(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		next, err := tx.NextOutgoing(ctx, false, 250, []string{}, []uuid.UUID{})
		if err != nil {
			return err
		}
		return tx.Confirm(ctx, next)
	}); err != nil {
		t.Fatal(err)
	}
	if n := scans() - before; n > 0 {
		t.Errorf("the whole ledger was read %d times to confirm 100 messages", n)
	}
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.work"); n > 0 {
		t.Errorf("%d of 100 messages are left", n)
	}
}

// The count of due urgent messages skips the others. A queue doesn't count while one of its messages waits,
// urgent or not.
func TestOutgoingDue(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t)+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), "alter table scheduler_go.work set (autovacuum_enabled = false)") // autovacuum would read blocks, too
	add := func(queue string, urgent bool, n int) {
		t.Helper()
		testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, queue, task_name, args, kwargs, urgent)
			select gen_random_uuid(), $1, 'n', '[]', '{}', $2 from generate_series(1, $3::int)`, queue, urgent, n)
	}
	wait := func(queue string, urgent bool) {
		t.Helper()
		testenv.Exec(t, store.Pool(), `update scheduler_go.work set not_before = now() + interval '1 hour'
			where task_id = (select task_id from scheduler_go.work where queue = $1 and urgent = $2 limit 1)`, queue, urgent)
	}
	want := func(urgent, others int) {
		t.Helper()
		for of, want := range map[bool]int{true: urgent, false: others} {
			if got, err := store.OutgoingDue(t.Context(), of); got != want || err != nil {
				t.Errorf("urgent %t: %d are due, want %d; %v", of, got, want, err)
			}
		}
	}
	want(0, 0)
	add("plain", false, 6000)
	add("urgent", true, 4)
	add("mixed", true, 20)
	add("mixed", false, 30)
	testenv.Exec(t, store.Pool(), "analyze scheduler_go.work")
	want(24, 6030)
	before := sqltest.BlocksOf(t, store, "work")
	if _, err := store.OutgoingDue(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if read := sqltest.BlocksOf(t, store, "work") - before; read > 50 {
		t.Errorf("%d blocks were read to count 24 messages", read)
	}
	wait("mixed", false)
	want(4, 6000)
	testenv.Exec(t, store.Pool(), "update scheduler_go.work set not_before = now()")
	wait("mixed", true)
	want(4, 6000)
	wait("plain", false)
	wait("urgent", true)
	want(0, 0)
}

// Rows of a transaction that began before others are found once it commits, even if the others have sent
// many messages since. Rows below the mark by mistake are found after LowerLowWater.
func TestLowWaterHidesNothing(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store, slow := testenv.OpenLocal(t, dsn), testenv.Connect(t, dsn)
	insert := func(queue, place string) string {
		return fmt.Sprintf(`insert into scheduler_go.work (task_id, place, queue, task_name, args, kwargs) values (gen_random_uuid(), %s, '%s', 'n', '[]', '{}')`, place, queue)
	}
	run := func(statement string) {
		t.Helper()
		testenv.Exec(t, slow, statement)
	}
	sqltest.Keep(t, store)
	const insertChange = "insert into scheduler_go.candidate_changes (visit_type, url) values ('git', 'slow')"
	graphsPending := func(want bool) {
		t.Helper()
		if pending := testenv.Value[bool](t, store.Pool(), "select scheduler_go.graphs_pending(now())"); pending != want {
			t.Errorf("a change or check of a graph is seen: %t, want %t", pending, want)
		}
		testenv.Exec(t, store.Pool(), "delete from scheduler_go.graph_checks")
	}
	changes := func(want int64) {
		t.Helper()
		if n, err := store.CandidateBacklog(t.Context(), 10); n != want || err != nil {
			t.Errorf("%d changes are seen, %v; want %d", n, err, want)
		}
		sqltest.Keep(t, store)
	}
	for i := range 3 {
		queue := fmt.Sprint("slow", i)
		run("begin")
		run(insert(queue, "default"))
		run(insertChange)
		run("insert into scheduler_go.graph_checks (task) values (0)")
		for range 3 {
			pass(t, store, 2500)
			note(t, store, 2500)
			testenv.Exec(t, store.Pool(), "insert into scheduler_go.graph_changes (task) select 0 from generate_series(1, 2500)")
			testenv.Exec(t, store.Pool(), "delete from scheduler_go.graph_changes")
			sqltest.Keep(t, store)
			raiseOnce(t, store)
			raiseOnce(t, store)
		}
		run("commit")
		if got := outgoing(t, store); len(got) != i+1 || got[i] != queue {
			t.Errorf("outgoing to %v, want %s, too", got, queue)
		}
		changes(1)
		graphsPending(true)
	}
	testenv.Exec(t, store.Pool(), "delete from scheduler_go.work")
	// The transaction that began last counts, too.
	for range 10 {
		testenv.Exec(t, store.Pool(), "update scheduler_go.low_water set low = 0, next = null, next_xid = null")
		run("begin")
		run(insert("newest", "default") + "; " + insert("newest", "default"))
		for range 5 {
			raiseOnce(t, store)
			time.Sleep(time.Millisecond)
		}
		run("commit")
		if got := outgoing(t, store); len(got) != 2 {
			t.Fatalf("outgoing to %v, want newest twice", got)
		}
		testenv.Exec(t, store.Pool(), "delete from scheduler_go.work")
	}
	pass(t, store, 6000)
	note(t, store, 6000)
	sqltest.Keep(t, store)
	raise(t, store, "low", 6000)
	raise(t, store, "changes_low", 6000)
	if lowered, err := store.LowerLowWater(t.Context()); lowered || err != nil {
		t.Errorf("lowered without need: %v", err)
	}
	run(insert("below", "7"))
	if lowered, err := store.LowerLowWater(t.Context()); !lowered || err != nil || len(outgoing(t, store)) != 1 {
		t.Errorf("what is below is not found: %t, %v", lowered, err)
	}
	run("insert into scheduler_go.candidate_changes (visit_type, url, place) values ('git', 'below', 7)")
	changes(0)
	if lowered, err := store.LowerLowWater(t.Context()); !lowered || err != nil {
		t.Errorf("the change below is not found: %t, %v", lowered, err)
	}
	changes(1)
	raise(t, store, "graphs_low", 5000)
	run("insert into scheduler_go.graph_checks (task, place) values (0, 7)")
	graphsPending(false)
	run("insert into scheduler_go.graph_checks (task, place) values (0, 7)")
	if lowered, err := store.LowerLowWater(t.Context()); !lowered || err != nil {
		t.Errorf("the check below is not found: %t, %v", lowered, err)
	}
	graphsPending(true)
	// Places restart, and the mark is from another server with other transaction numbers.
	run("truncate scheduler_go.work, scheduler_go.candidate_changes restart identity")
	run("update scheduler_go.low_water set low = 100000, next = 200000, changes_low = 100000, changes_next = 200000, next_xid = '1000000000'")
	raiseOnce(t, store)
	run(insertChange)
	changes(1)
	run(insert("anew", "default"))
	if got := outgoing(t, store); len(got) != 1 {
		t.Errorf("outgoing to %v after places began anew", got)
	}
	run("delete from scheduler_go.work; update scheduler_go.low_water set next = 1, changes_next = 1, next_xid = '1000000000'")
	pass(t, store, 6000)
	raise(t, store, "low", 6000)
}

// Two indexes have the outgoing messages, and the statistics don't say which one has fewer dead entries for a queue. A claim counts by
// the index of queues.
func TestQueuesAreCountedByTheirIndexByAnyStatistics(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), "alter table scheduler_go.work set (autovacuum_enabled = false)")
	sqltest.HoldSnapshot(t, dsn)
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, queue, task_name, args, kwargs)
		select gen_random_uuid(), 'q' || n % 1000, 'n', '[]', '{}' from generate_series(1, 20000) n`)
	testenv.Exec(t, store.Pool(), "delete from scheduler_go.work")
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, queue, task_name, args, kwargs)
		select gen_random_uuid(), 'q' || n % 16, 'n', '[]', '{}' from generate_series(1, 32) n`)
	var asked []ledger.QueueObserved
	for n := range 16 {
		asked = append(asked, ledger.QueueObserved{Name: fmt.Sprint("q", n), Since: time.Now(), Asked: time.Now()})
	}
	for _, rows := range []int{-1, 0, 32, 20000} {
		for _, entries := range []int{0, 10, 50, 20000} {
			testenv.Exec(t, store.Pool(), "update pg_class set reltuples = $1, relpages = pg_relation_size(oid) / 8192 where relname = 'work'", rows)
			testenv.Exec(t, store.Pool(), "update pg_class set reltuples = $1 where relname in ('work_outgoing_idx', 'work_outgoing_queue_idx')", entries)
			before := sqltest.BlocksOf(t, store, "work")
			counts, err := store.QueueLedgers(t.Context(), asked...)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range counts {
				if c.Outgoing != 2 {
					t.Errorf("%d messages are outgoing, want 2", c.Outgoing)
				}
			}
			n := sqltest.BlocksOf(t, store, "work") - before
			if n > 16*40 { // the dead rows of a queue, and a way down the index
				t.Errorf("%d blocks were read, with %d rows and %d entries by the statistics", n, rows, entries)
			}
		}
	}
}

// The count of due messages walks the index of places from the low-water mark on. The index of queues would be read as a
// whole, with all dead rows.
func TestDueMessagesAreCountedByTheirIndexByAnyStatistics(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), "alter table scheduler_go.work set (autovacuum_enabled = false)")
	sqltest.HoldSnapshot(t, dsn)
	add := func(n int) {
		testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, queue, task_name, args, kwargs)
			select gen_random_uuid(), 'q' || n % 1000, 'n', '[]', '{}' from generate_series(1, $1::int) n`, n)
	}
	add(20000)
	testenv.Exec(t, store.Pool(), "update scheduler_go.low_water set low = (select max(place) + 1 from scheduler_go.work)")
	testenv.Exec(t, store.Pool(), "delete from scheduler_go.work")
	add(32)
	for _, rows := range []int{-1, 0, 32, 20000} {
		for _, entries := range [][2]int{{0, 0}, {10, 10}, {20000, 20000}, {20000, 10}, {10, 20000}} {
			testenv.Exec(t, store.Pool(), "update pg_class set reltuples = $1, relpages = pg_relation_size(oid) / 8192 where relname = 'work'", rows)
			testenv.Exec(t, store.Pool(), "update pg_class set reltuples = $1 where relname = 'work_outgoing_idx'", entries[0])
			testenv.Exec(t, store.Pool(), "update pg_class set reltuples = $1 where relname = 'work_outgoing_queue_idx'", entries[1])
			before := sqltest.BlocksOf(t, store, "work")
			for urgent, want := range map[bool]int{false: 32, true: 0} {
				if due, err := store.OutgoingDue(t.Context(), urgent); err != nil || due != want {
					t.Errorf("%d messages are due, want %d: %v", due, want, err)
				}
			}
			if n := sqltest.BlocksOf(t, store, "work") - before; n > 60 {
				t.Errorf("%d blocks were read, with %d rows and %v entries by the statistics", n, rows, entries)
			}
		}
	}
}

// While a snapshot is held, deliveries of the last day stay in their index as dead rows. To record and count others doesn't read them.
// The old ones of the last minutes are deleted.
func TestOldDeliveriesAreSkippedOnceDeleted(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), "alter table scheduler_go.deliveries set (autovacuum_enabled = false)")
	sqltest.HoldSnapshot(t, dsn)
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.deliveries (queue, delivered_at, messages)
		select 'q' || n % 10, now() - random() * interval '1 day', 1 from generate_series(1, 40000) n`)
	testenv.Exec(t, store.Pool(), "delete from scheduler_go.deliveries")
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.deliveries (queue, delivered_at, messages)
		select 'q1', now() - n * interval '1 minute', n from generate_series(1, 9) n`)
	before := sqltest.BlocksOf(t, store, "deliveries")
	err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		return tx.Confirm(ctx, []ledger.Outgoing{{Work: ledger.Work{Queue: "q1"}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := sqltest.BlocksOf(t, store, "deliveries") - before; n > 60 { // 300 pages have dead rows of the queue
		t.Errorf("%d blocks were read", n)
	}
	if kept := testenv.Column[int](t, store.Pool(), "select messages from scheduler_go.deliveries order by 1"); !slices.Equal(kept, []int{1, 1, 2, 3, 4}) {
		t.Errorf("deliveries of %v messages are left", kept)
	}
}
