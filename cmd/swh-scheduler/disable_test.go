package main

import (
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// task disable disables tasks, on a database and through an RPC server. It warns of recurring tasks whose run was sent.
// If a task doesn't exist, it changes nothing.
func TestTaskDisable(t *testing.T) {
	t.Parallel()
	dsn := testenv.PythonDatabase(t)
	if r := ours(t, "-d", dsn, "migrate"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	execute(t, dsn, someTaskTypes+`; insert into task (id, type, arguments, next_run, current_interval, status, policy)
		select n, 'load-git', '{"args": [], "kwargs": {}}', now(), '1 day', (case n when 3 then 'next_run_scheduled' else 'next_run_not_scheduled' end)::task_status, 'recurring'
		from generate_series(1, 4) n`)
	url := ourServer(t, dsn)
	status := func() string {
		return testenv.Value[string](t, testenv.Connect(t, dsn), "select string_agg(status::text, ' ' order by id) from task where id < 5")
	}
	if r := ours(t, "-d", dsn, "task", "disable", "1", "999"); r.code != 1 || !strings.Contains(r.stderr, "there is no task 999; no task was disabled") || strings.Contains(status(), "disabled") {
		t.Errorf("%+v, %s", r, status())
	}
	if r := ours(t, "-d", dsn, "task", "disable", "1", "3"); r.code != 0 || r.stdout != "Disabled 2 tasks\n" || !strings.Contains(r.stderr, "task=3") || strings.Contains(r.stderr, "task=1") {
		t.Errorf("%+v", r)
	}
	if r := ours(t, "-u", url, "task", "disable", "4"); r.code != 0 || r.stdout != "Disabled 1 task\n" || r.stderr != "" {
		t.Errorf("%+v", r)
	}
	if got := status(); got != "disabled next_run_not_scheduled disabled disabled" {
		t.Error(got)
	}
	if r := ours(t, "-d", dsn, "task", "respawn", "1"); r.code != 0 || !strings.HasPrefix(status(), "next_run_not_scheduled") {
		t.Errorf("%+v, %s", r, status())
	}
}
