package maintenance

import (
	"fmt"
	"testing"

	"swh-scheduler/internal/testenv"
)

// Running work is listed, the oldest first, without what has ended since the job's last query.
func TestWhatRuns(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	job := Running(store)
	run := func() {
		t.Helper()
		if _, err := job.Do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, statement := range []string{
		"insert into task_type (type, description, backend_name) values ('load', '', 'swh.load'), ('list', '', 'swh.list')",
		"insert into task (type, arguments, next_run, status, policy) select case n % 2 when 0 then 'load' else 'list' end, '{}', now(), 'next_run_scheduled', 'oneshot' from generate_series(1, 4) n",
		`insert into task_run (task, backend_id, scheduled, started, status) select id, 'run-' || id, now(), now() - id * interval '1 hour', case id when 3 then 'scheduled' else 'started' end::task_run_status from task`,
		"insert into scheduler_go.run_starts (run, event_time, worker, recorded) select id, 1, 'w' || id, started from task_run",
		`insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, claimed, share_group, cost, started) select gen_random_uuid(), 'sent', 'swh.load', 'swh.load', 'swh.load', '[]', '{"url": "https://a.example"}', now(), 'g', 1,
			case n when 1 then extract(epoch from now()) end from generate_series(1, 2) n`,
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	list := func(taskType, name string) (found string) {
		t.Helper()
		runs, visits, err := store.Running(t.Context(), taskType, name, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			found += fmt.Sprintf("%d %s %s %s, ", r.Task, r.Type, r.Worker, r.BackendID)
		}
		for _, v := range visits {
			found += v.URL
		}
		return found
	}
	run()
	if got, want := list("", ""), "4 load w4 run-4, 2 load w2 run-2, 1 list w1 run-1, https://a.example"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := list("list", "swh.list"), "1 list w1 run-1, "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	testenv.Exec(t, store.Pool(), "update task_run set status = 'eventful', ended = now() where id = 4")
	if got, want := list("load", "none"), "2 load w2 run-2, "; got != want { // before the job runs again
		t.Errorf("%s, want %s", got, want)
	}
	run()
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.running"); n != 2 {
		t.Errorf("%d are listed", n)
	}
	counts, err := store.RunningByType(t.Context())
	if err != nil || counts["load"] != 1 || counts["list"] != 1 {
		t.Errorf("%v, %v", counts, err)
	}
}
