package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

// celery-monitor prints which queues a real worker reads, and which tasks it holds and counts. A task that is revoked
// before its start never runs. A running task goes on until it is terminated.
func TestCeleryInspectAndRevoke(t *testing.T) {
	t.Parallel()
	mq := testenv.RabbitMQ(t)
	const node, queue = "worker@inspect", "swh.test.Sleep"
	startWorker(t, mq.URL, node, queue)
	dsn := testenv.Database(t)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\n", dsn, mq.URL))
	monitor := func(args ...string) result {
		t.Helper()
		return ours(t, append([]string{"-C", config, "celery-monitor", "--pattern", node}, args...)...)
	}
	await := func(want string, args ...string) {
		t.Helper()
		testenv.Becomes(t, strings.Join(args, " "), want, func() string {
			r := monitor(args...)
			if r.code != 0 {
				return r.stderr
			}
			return r.stdout
		})
	}
	const runs, waits, later = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002", "00000000-0000-0000-0000-000000000003"

	await(node+": "+queue+"\n", "active-queues")
	for _, command := range []string{"reserved", "scheduled"} {
		if r := monitor(command); r.code != 0 || r.stdout != "" || !strings.Contains(r.stderr, "the worker has none") {
			t.Errorf("%s of an idle worker: %+v", command, r)
		}
	}
	broker := parsed.Broker(t, mq.URL)
	publisher := celery.NewPublisher(broker, celery.PublisherOptions{})
	defer publisher.Close()
	send := func(id string, eta time.Time) {
		t.Helper()
		for _, err := range publisher.Publish(t.Context(), []celery.TaskMessage{{
			ID: id, Name: "swh.test.Sleep", Queue: queue, ETA: eta, Args: json.RawMessage("[600]"), Kwargs: json.RawMessage("{}"),
		}}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	send(runs, time.Time{})
	testenv.Shows(t, "Sleep", func() string { return monitor("list-running").stdout })
	send(waits, time.Time{})
	await(node+": swh.test.Sleep(600) [id="+waits+"]\n", "reserved")
	var reserved map[string][]struct{ ID string }
	if r := monitor("reserved", "--output", "json"); json.Unmarshal([]byte(r.stdout), &reserved) != nil || len(reserved[node]) != 1 || reserved[node][0].ID != waits {
		t.Errorf("reserved as JSON: %+v", r)
	}
	if r := monitor("stats"); r.code != 0 || !strings.HasPrefix(r.stdout, node+": up ") || !strings.Contains(r.stdout, "1 process,") || !strings.Contains(r.stdout, node+": swh.test.Sleep 1\n") {
		t.Errorf("stats: %+v", r)
	}

	if r := monitor("revoke", runs, waits); r.code != 0 || !strings.HasPrefix(r.stdout, node+": ") || !strings.Contains(r.stdout, waits) || strings.Contains(r.stderr, "terminate") {
		t.Errorf("revoke: %+v", r)
	}
	if r := monitor("list-running"); !strings.Contains(r.stdout, "Sleep(600)") {
		t.Errorf("without --terminate, what runs was ended: %+v", r)
	}
	conn := testenv.Connect(t, dsn)
	testenv.Exec(t, conn, `insert into task_type (type, description, backend_name) values ('sleep', '', 'swh.test.Sleep');
		insert into task (id, type, arguments, next_run, policy, status) select id, 'sleep', '{}', now(), 'oneshot', 'next_run_scheduled' from generate_series(101, 102) id;
		insert into task_run (task, backend_id, status) values (101, 'ended', 'lost'), (101, '`+runs+`', 'started')`)
	if r := ours(t, "-C", config, "task", "revoke", "--pattern", node, "102"); r.code != 1 || !strings.Contains(r.stderr, "none of these tasks has a run that is queued or running") {
		t.Errorf("revoke of a task that was not sent: %+v", r)
	}
	if r := ours(t, "-C", config, "task", "revoke", "--pattern", node, "--terminate", "--disable", "101", "102"); r.code != 0 || !strings.Contains(r.stderr, "level=WARN") || !strings.Contains(r.stderr, "another task") {
		t.Errorf("revoke --terminate: %+v", r)
	}
	if statuses := testenv.Value[string](t, conn, "select string_agg(status::text, ' ') from task"); statuses != "disabled disabled" {
		t.Errorf("statuses %q", statuses)
	}
	// Once the first task has ended, the second would begin.
	await("", "list-running")
	await("", "reserved")

	// Now the worker's prefetch limit allows another task.
	send(later, time.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC))
	await(node+": swh.test.Sleep(600) [id="+later+"] at 2099-01-02T03:04:05+00:00\n", "scheduled")
	graph := testenv.File(t, "graph.yml", "tasks: [{name: a, type: sleep}]")
	if r := ours(t, "-C", config, "task", "graph", "submit", graph); r.code != 0 {
		t.Fatal(r.stderr)
	}
	testenv.Exec(t, conn, `update task set status = 'next_run_scheduled' where status = 'next_run_not_scheduled';
		insert into task_run (task, backend_id, status) select id, '`+later+`', 'scheduled' from task where status = 'next_run_scheduled'`)
	if r := ours(t, "-C", config, "task", "graph", "cancel", "--pattern", node, "--terminate", "1"); r.code != 0 || !strings.Contains(r.stdout, later) || !strings.Contains(r.stdout, "Cancelled graph 1: 1 in all, 1 sent") {
		t.Errorf("graph cancel --terminate: %+v", r)
	}

	for _, args := range [][]string{{"active-queues"}, {"reserved"}, {"scheduled"}, {"stats"}, {"revoke", runs}} {
		if r := ours(t, append([]string{"-C", config, "celery-monitor", "--pattern", "nobody@*", "--timeout", "0.3"}, args...)...); r.code != 1 || !strings.Contains(r.stderr, "no worker replied") {
			t.Errorf("%q of nobody: %+v", args, r)
		}
	}
	if r := monitor("revoke"); r.code != 2 || !strings.Contains(r.stderr, "Missing argument 'TASK_ID...'.") {
		t.Errorf("revoke of nothing: %+v", r)
	}
	if r := monitor("revoke", "--help"); !strings.Contains(r.stdout, "WARNING: --terminate kills the\nprocess") {
		t.Errorf("revoke --help: %+v", r)
	}
}
