package db_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// The count of runs continues where the last call ended, in any process. The next count begins at the first
// run that may still end.
func TestRunsAreCountedInSteps(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	testenv.Exec(t, testenv.Connect(t, dsn), `insert into task_type (type, description, backend_name) values ('a', '', 'swh.a')`)
	testenv.Exec(t, testenv.Connect(t, dsn), `insert into task (id, type, arguments, next_run, status, policy) values (1, 'a', '{}', now(), 'completed', 'oneshot')`)
	// From 150,000 on, every thousandth run is unanswered. The last hundred thousand runs are young.
	testenv.Exec(t, testenv.Connect(t, dsn), `insert into task_run (id, task, backend_id, scheduled, status)
		select n, 1, n, case when n <= 300000 then now() - interval '2 days' else now() end,
		       (case when n >= 150000 and n % 1000 = 0 then 'scheduled' else 'eventful' end)::task_run_status
		from generate_series(100, 400000, 100) n`)
	calls := 0
	for ended := false; !ended; calls++ {
		other := testenv.OpenLocal(t, dsn)
		var err error
		if ended, err = other.CountRuns(t.Context(), time.Now(), time.Nanosecond); err != nil || calls > 10 {
			t.Fatal(calls, err)
		}
	}
	if calls < 4 {
		t.Errorf("all are counted in %d steps", calls)
	}
	counted := func() db.RunCounts {
		t.Helper()
		f, err := store.Figures(t.Context(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return f.Runs
	}
	if diff := cmp.Diff(db.RunCounts{Unanswered: 151, Keep: 150_000}, counted()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if ended, err := store.CountRuns(t.Context(), time.Now(), time.Minute); ended || err != nil {
		t.Errorf("counted again within the hour: %v", err)
	}
	testenv.Exec(t, testenv.Connect(t, dsn), "update scheduler_go.walks set began = 'epoch'")
	testenv.Exec(t, testenv.Connect(t, dsn), "update task_run set status = 'lost' where id < 200000 and status = 'scheduled'; delete from task_run where id between 1000 and 120000")
	if ended, err := store.CountRuns(t.Context(), time.Now(), time.Minute); !ended || err != nil {
		t.Fatal(ended, err)
	}
	if diff := cmp.Diff(db.RunCounts{Unanswered: 101, Keep: 200_000}, counted()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A sweep passes each silent run once, even if a step fails and is repeated. A failure of one queue doesn't
// stop the sweep.
func TestSilentRunsAreSeenOnce(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	testenv.Exec(t, testenv.Connect(t, dsn), `insert into task_type (type, description, backend_name) values ('a', '', 'swh.a')`)
	testenv.Exec(t, testenv.Connect(t, dsn), `insert into task (id, type, arguments, next_run, status, policy) select n, 'a', '{}', now(), 'next_run_scheduled', 'oneshot' from generate_series(1, 300) n`)
	testenv.Exec(t, testenv.Connect(t, dsn), `insert into task_run (id, task, backend_id, scheduled, status) select n * 1000, n, n, now() - interval '2 days', 'scheduled' from generate_series(1, 300) n`)
	before := map[string]time.Time{"a": time.Now().Add(-24 * time.Hour)}
	seen := map[int64]int{}
	failure := errors.New("the broker is away")
	failing := true
	for calls, ended := 0, false; !ended; calls++ {
		var err error
		ended, err = store.EachSilentRun(t.Context(), db.SilentRunSweep{Before: before, Every: time.Hour, AtMost: time.Nanosecond}, func(runs []ledger.SilentRun) (int, error) {
			if failing = !failing; failing {
				return 0, failure
			}
			for _, r := range runs {
				seen[r.ID]++
			}
			return 0, nil
		})
		if err != nil && !errors.Is(err, failure) || calls > 20 {
			t.Fatal(calls, err)
		}
	}
	for n := range int64(300) {
		if id := (n + 1) * 1000; seen[id] != 1 {
			t.Errorf("run %d was seen %d times", id, seen[id])
		}
	}
}

// A count of origins that began before candidates were given up has no result. The count after the rebuild
// has one, and begins at once.
func TestCountOfOriginsWaitsForCandidates(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	count := func() bool {
		t.Helper()
		ended, err := store.CountOrigins(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return ended
	}
	testenv.Exec(t, testenv.Connect(t, dsn), "update scheduler_go.candidate_build set phase = 'empty'")
	if count() {
		t.Error("candidates that are not built were counted")
	}
	if f, err := store.Figures(context.Background(), time.Now()); err != nil || len(f.Pools) > 0 {
		t.Errorf("%+v, %v", f.Pools, err)
	}
	for built := false; !built; {
		if _, err := store.MaintainCandidates(t.Context()); err != nil {
			t.Fatal(err)
		}
		built = testenv.Value[bool](t, store.Pool(), "select phase = 'ready' from scheduler_go.candidate_build")
	}
	if !count() {
		t.Error("candidates are not counted after the build")
	}
}

// Old or missing metrics are updated one lister at a time, the oldest first. A lister without origins is
// never updated, and a skipped lister doesn't block others.
func TestStaleMetricsAreUpdatedByLister(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	testenv.Exec(t, testenv.Connect(t, dsn), `
		insert into listers (id, name, instance_name, current_state, updated)
			select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'l' || n, '', '{}', now() from generate_series(1, 5) n;
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			select id, 'https://' || name || '/' || n, 'git', '{}', true, now() from listers, generate_series(1, 3) n where name <> 'l5';
		insert into scheduler_metrics (lister_id, visit_type, last_update, origins_known) values
			('00000000-0000-0000-0000-000000000001', 'git', now(), 1), ('00000000-0000-0000-0000-000000000001', 'gone', '2020-01-01', 1),
			('00000000-0000-0000-0000-000000000002', 'git', now() - interval '3 hours', 1), ('00000000-0000-0000-0000-000000000003', 'git', now() - interval '4 hours', 1)`)
	lister := func(n byte) (id uuid.UUID) { id[15] = n; return id }
	for _, step := range []struct{ skip, want byte }{{3, 4}, {3, 2}, {3, 0}, {0, 3}, {0, 0}} {
		got, err := store.UpdateStaleMetrics(t.Context(), time.Hour, []uuid.UUID{lister(step.skip)})
		if err != nil || got != lister(step.want) {
			t.Errorf("lister %s is counted, %v, want %d", got, err, step.want)
		}
	}
	metrics, err := store.Metrics(t.Context(), uuid.NullUUID{}, "git")
	if err != nil {
		t.Fatal(err)
	}
	known := map[uuid.UUID]int32{}
	for _, m := range metrics {
		known[m.ListerID] = m.OriginsKnown
	}
	if diff := cmp.Diff(map[uuid.UUID]int32{lister(1): 1, lister(2): 3, lister(3): 3, lister(4): 3}, known); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
