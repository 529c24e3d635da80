package settle

import (
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// The start of a run that a listener received minutes before PostgreSQL took it, as during an outage, is listed as running.
func TestRunningAfterAnOutage(t *testing.T) {
	t.Parallel()
	store := testenv.Open(t, testenv.Database(t))
	for _, statement := range []string{
		"insert into task_type (type, description, backend_name) values ('a', '', 'a')",
		"insert into task (type, arguments, next_run, status, policy) values ('a', '{}', now(), 'next_run_scheduled', 'oneshot')",
		"insert into task_run (task, backend_id, scheduled, status) select id, '00000000-0000-0000-0000-000000000001', now(), 'scheduled' from task",
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	now := store.Now()
	note := func(now time.Time) {
		t.Helper()
		if err := store.NoteRunning(t.Context(), now, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	note(now.Add(-10 * time.Minute)) // the outage begins
	note(now)                        // it has ended: the job runs before the listener's next try
	o := Outcome{BackendID: "00000000-0000-0000-0000-000000000001", Received: now.Add(-9 * time.Minute), Start: &Start{EventTime: 1}}
	if err := (Store{Store: store}).ApplyOutcomes(t.Context(), []Outcome{o}); err != nil {
		t.Fatal(err)
	}
	for at := time.Duration(0); at < 15*time.Minute; at += 15 * time.Second {
		note(now.Add(at))
	}
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.running"); n != 1 {
		t.Errorf("%d runs are listed, want the one that started", n)
	}
}
