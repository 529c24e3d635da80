package main

import (
	"fmt"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// Runs are listed as by the Python scheduler, with and without a date and metadata.
func TestTaskListOfRunsSameAsThePythonScheduler(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	w.execute(someTaskTypes)
	w.execute(`
		insert into task (type, arguments, next_run, status, policy, priority)
		select 'bare', jsonb_build_object('args', jsonb_build_array(n), 'kwargs', '{}'::jsonb), '2030-01-01', 'next_run_scheduled', 'oneshot', case when n = 2 then 'low'::task_priority end
		from generate_series(1, 3) n;
		insert into task_run (task, backend_id, scheduled, started, ended, metadata, status) values
			(1, 'one', '2026-01-01 00:00:00.5', '2026-01-01 00:00:01', '2026-01-02', '{"worker": "w@host", "error": "é \"x\" 😀"}', 'failed'),
			(1, 'two', '2026-01-03', null, null, null, 'scheduled'),
			(2, null, null, null, null, '{}', 'lost'),
			(2, '00000000-0000-0000-0000-000000000001', '2026-01-03', '2026-01-03', null, '{"a": [1, {"b": []}], "c": {}, "d": null, "e": true}', 'started')`)
	for _, args := range [][]string{
		{"task", "list"}, {"task", "list", "-r"}, {"task", "list", "--list-runs-metadata", "-i", "2"}, {"task", "list", "-r", "-i", "3"},
	} {
		w.compare(nil, args...)
	}
}

// A task whose message the broker has refused is listed with the reason.
func TestTaskListShowsWhatWasNotSent(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	conn := testenv.Connect(t, dsn)
	testenv.Exec(t, conn, `
		insert into task_type (type, description, backend_name) values ('a', '', 'swh.a');
		insert into task (type, arguments, next_run, status, policy)
			select 'a', '{"args": [], "kwargs": {}}', '2030-01-01', 'next_run_scheduled', 'oneshot' from generate_series(1, 2);
		insert into task_run (task, backend_id, status)
			select n, '00000000-0000-0000-0000-00000000000' || n, 'scheduled' from generate_series(1, 2) n;
		insert into scheduler_go.work (queue, task_id, task_name, args, kwargs, attempts, last_error, not_before) values
			('swh.a', '00000000-0000-0000-0000-000000000001', 'swh.a', '[]', '{}', 3, 'no such queue', '2030-02-03 04:05:06+00'),
			('swh.a', '00000000-0000-0000-0000-000000000002', 'swh.a', '[]', '{}', 0, null, '-infinity')`)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", dsn))
	r := ours(t, "-C", config, "task", "list")
	if want := "  Not sent: no such queue (tried 3 times, again at 2030-02-03T04:05:06+00:00)"; r.code != 0 || strings.Count(r.stdout, "Not sent") != 1 || !strings.Contains(r.stdout, want) {
		t.Errorf("exit code %d:\n%s%s", r.code, r.stdout, r.stderr)
	}
}
