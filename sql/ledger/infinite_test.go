package ledger_test

import (
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// Stats with an infinite date don't keep the visits of their batch, and with it a partition of the journal, from being
// written for ever: the next visit replaces the date.
func TestInfiniteDatesOfVisitStats(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	keys := keysOf(5)
	for i, date := range []string{"infinity", "-infinity"} {
		testenv.Exec(t, store.Pool(), "insert into origin_visit_stats (url, visit_type, last_visit, last_visit_status) values ($1, 'git', $2, 'failed')", keys[i].URL, date)
		testenv.Exec(t, store.Pool(), "insert into origin_visit_stats (url, visit_type, last_successful) values ($1, 'git', $2)", keys[2+i].URL, date)
	}
	if err := store.UpdateVisitStats(t.Context(), keys, countVisit(keys)); err != nil {
		t.Fatal(err)
	}
	if n := testenv.Column[int64](t, store.Pool(), "select count(*) from origin_visit_stats where last_visit = '2024-05-06 07:08:09.123456Z'"); n[0] != 5 {
		t.Errorf("%d of 5 visits are written", n[0])
	}
}

// A run with an infinite date keeps neither the events of their batch from being applied, nor other silent runs from being
// found.
func TestInfiniteDatesOfRuns(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), `
insert into task_type (type, description, backend_name) values ('x', '', 'swh.x');
insert into task (id, type, arguments, next_run, current_interval, status) select n, 'x', '{}', now(), '1 day', 'next_run_scheduled' from generate_series(1, 3) n;
insert into task_run (task, scheduled, status, backend_id) values (1, 'infinity', 'scheduled', 'a'), (2, '-infinity', 'scheduled', 'b'), (3, '2020-01-01', 'scheduled', 'c')`)
	locked := 0
	if err := store.Settle(t.Context(), ledger.Subjects{BackendIDs: []string{"a", "b", "c"}}, func(runs []ledger.LockedRun, _ []ledger.LockedWork) ledger.Settlement {
		locked = len(runs)
		return ledger.Settlement{}
	}); err != nil || locked != 3 {
		t.Errorf("%d of 3 runs are locked: %v", locked, err)
	}
	var silent []int64
	_, err := store.EachSilentRun(t.Context(), db.SilentRunSweep{Before: map[string]time.Time{"x": time.Now()}, Every: time.Hour, AtMost: time.Second}, func(runs []ledger.SilentRun) (int, error) {
		for _, r := range runs {
			silent = append(silent, r.ID)
		}
		return 0, nil
	})
	if err != nil || len(silent) != 1 {
		t.Errorf("silent runs: %v, %v; want that of task 3", silent, err)
	}
}
