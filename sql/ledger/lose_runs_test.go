package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/ledger"
)

// A run that ended, or whose task was respawned, after it was listed as silent is not lost: its task would be sent once
// more. Settled work was charged at its end, and isn't charged again.
func TestRunsThatChangedAreNotLost(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) values ('a', '', 'a')")
	testenv.Exec(t, store.Pool(), "insert into task (id, type, arguments, next_run, status, policy) select n, 'a', '{}', now(), 'next_run_scheduled', 'oneshot' from generate_series(1, 4) n")
	testenv.Exec(t, store.Pool(), `insert into task_run (id, task, backend_id, scheduled, status)
		select n, n, '00000000-0000-0000-0000-00000000000' || n, now() - interval '1 day', 'started' from generate_series(1, 4) n`)
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, since, started, share_group, cost, settled)
		select ('00000000-0000-0000-0000-00000000000' || n)::uuid, case n when 3 then 'settled' else 'sent' end, 'a', 'a', 'a', '[]', '{}', now(), 1, 'g', n, case n when 3 then now() end from generate_series(1, 4) n`)
	var listed []ledger.SilentRun
	for id := range int64(4) {
		listed = append(listed, ledger.SilentRun{ID: id + 1, Status: model.RunStarted})
	}
	testenv.Exec(t, store.Pool(), "update task_run set status = 'eventful', ended = now() where id = 1")
	testenv.Exec(t, store.Pool(), "insert into task_run (id, task, scheduled, status) values (5, 2, now(), 'scheduled')")
	if n, err := store.LoseRuns(t.Context(), listed, time.Now()); n != 2 || err != nil {
		t.Errorf("%d runs were lost, want 2: %v", n, err)
	}
	got := testenv.Column[string](t, store.Pool(), `select id || ' ' || status from task_run union all
		select 'work ' || right(task_id::text, 1) from scheduler_go.work union all select 'charge ' || seconds from scheduler_go.share_charges order by 1`)
	if diff := cmp.Diff([]string{"1 eventful", "2 started", "3 lost", "4 lost", "5 scheduled", "charge 4", "work 1", "work 2"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The best observation of each kind stays, whatever came after it. Only one of a queue without kept work says which runs
// left the queue: other messages may be older.
func TestBestObservationsStay(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.queue_looks (queue, kept, looked, sent_before)
		select 'q', kept, now() - looked, now() - sent from (values
			(true, interval '40 min', interval '41 min'), (true, '30 min', '31 min'), (true, '20 min', '50 min'), (true, '5 min', '6 min'),
			(false, '50 min', '60 min'), (false, '45 min', '59 min')) o (kept, looked, sent)`)
	now := time.Now()
	if err := store.ForgetObservations(t.Context(), now.Add(-10*time.Minute), now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	got := testenv.Column[string](t, store.Pool(), "select kept || ' ' || round(extract(epoch from now() - looked) / 60) from scheduler_go.queue_looks order by kept, looked")
	if diff := cmp.Diff([]string{"false 45", "true 30", "true 5"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	left, err := store.LeftQueueBefore(t.Context(), "q", now.Add(-10*time.Minute))
	if ago := now.Sub(left).Round(time.Minute); err != nil || ago != 59*time.Minute {
		t.Errorf("runs of %s ago have left the queue, want 59 minutes: %v", ago, err)
	}
}
