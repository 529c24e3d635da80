package settle_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
)

// A failure of a run or of a visit in the ledger is recorded once, with its message, its worker and its origin, even
// if its event repeats. The wait until a message's first start is counted once, too.
func TestFailuresAreRecorded(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := settle.Store{Store: testenv.OpenLocal(t, dsn), Metrics: settle.NewMetrics(prometheus.NewRegistry())}
	conn := testenv.Connect(t, dsn)
	shared, laned, odd := uuid.New(), uuid.New(), uuid.New()
	for _, statement := range []string{
		"insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git'), ('list-git', '', 'swh.list')",
		`insert into task (type, arguments, next_run, status, policy) values ('list-git', '{"args": [], "kwargs": {"url": "https://forge.example"}}', now(), 'next_run_scheduled', 'oneshot'),
			('load-git', '{"args": [], "kwargs": {"url": "https://forge.example/now"}}', now(), 'next_run_scheduled', 'oneshot')`,
		"insert into task_run (task, backend_id, scheduled, status) select id, 'run-' || id, now() - interval '1 minute', 'scheduled' from task",
		fmt.Sprintf(`insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, claimed, share_group, cost) values
			('%s', 'sent', 'swh.git', 'swh.git', 'swh.git', '[]', '{"url": "https://forge.example/a"}', now(), 'g', 1),
			('%s', 'sent', 'swh.git', 'swh.git', 'swh.git', '[]', '{"url": "\u0000"}', now(), 'g', 1)`, shared, odd),
		fmt.Sprintf(`insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, claimed, lane_set, lane, lanes_left, soft_limit, hard_limit, memory, lister, first, behind, visit_type, url) values
			('%s', 'sent', 'swh.git', 'swh.git', 'swh.git', '[]', '{}', now(), 'load-git', 0, 0, 1000, 2000, 1, '', false, 0, 'git', 'https://forge.example/b')`, laned),
	} {
		testenv.Exec(t, conn, statement)
	}
	heard := time.Now()
	var outcomes []settle.Outcome
	for _, id := range []string{"run-1", "run-2", shared.String(), laned.String(), odd.String(), uuid.NewString()} {
		outcomes = append(outcomes, settle.Outcome{BackendID: id, Received: heard, Start: &settle.Start{Worker: new("loader@host1"), EventTime: model.UnixSeconds(heard)}})
	}
	for _, id := range []string{"run-1", shared.String(), laned.String(), odd.String(), uuid.NewString()} {
		outcomes = append(outcomes, settle.Outcome{BackendID: id, Received: heard, End: &settle.End{Status: model.RunFailed, Error: new("m.NotFound: " + strings.Repeat("é", 600)), Worker: "loader@host2"}})
	}
	outcomes = append(outcomes, settle.Outcome{BackendID: "run-2", Received: heard, End: &settle.End{Status: model.RunFailed}}) // an event without a worker
	for range 2 {
		if err := store.ApplyOutcomes(t.Context(), outcomes); err != nil {
			t.Fatal(err)
		}
	}
	got := testenv.Column[string](t, conn, "select concat_ws(' ', type, exception, length(message), worker, coalesce(task, 0), visit_type, url) from scheduler_go.failures order by 1")
	want := []string{
		"list-git NotFound 500 loader@host2 1",
		"load-git  0 loader@host1 2 git https://forge.example/now",
		"load-git NotFound 500 loader@host2 0 git",
		"load-git NotFound 500 loader@host2 0 git https://forge.example/a",
		"load-git NotFound 500 loader@host2 0 git https://forge.example/b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	waits := testenv.Column[string](t, conn, "select concat_ws(' ', type, sum(pieces)) from scheduler_go.ended where source = 'wait' group by type order by 1")
	if diff := cmp.Diff([]string{"list-git 1", "load-git 4"}, waits); diff != "" {
		t.Error(diff)
	}
	of, err := store.FailuresOfOrigin(t.Context(), "https://forge.example/b", 5)
	if err != nil || len(of) != 1 {
		t.Errorf("%+v, %v", of, err)
	}
}

// A failure whose error is one long word ends its run: such a word is no class of an exception, and fits into no index.
func TestLongWordIsNoException(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := settle.Store{Store: testenv.OpenLocal(t, dsn), Metrics: settle.NewMetrics(prometheus.NewRegistry())}
	conn := testenv.Connect(t, dsn)
	for _, statement := range []string{
		"insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git')",
		`insert into task (type, arguments, next_run, status, policy) values ('load-git', '{"args": [], "kwargs": {}}', now(), 'next_run_scheduled', 'oneshot')`,
		"insert into task_run (task, backend_id, scheduled, status) values (1, 'run', now(), 'scheduled')",
	} {
		testenv.Exec(t, conn, statement)
	}
	word := "X"
	for len(word) < 4000 { // as random as a key, so that PostgreSQL can't compress it
		word += strings.ReplaceAll(uuid.NewString(), "-", "")
	}
	err := store.ApplyOutcomes(t.Context(), []settle.Outcome{{BackendID: "run", Received: time.Now(), End: &settle.End{Status: model.RunFailed, Error: &word}}})
	if err != nil {
		t.Error(err)
	}
	if status := testenv.Value[string](t, conn, "select status::text from task_run"); status != "failed" {
		t.Errorf("the run is %s, want failed", status)
	}
}
