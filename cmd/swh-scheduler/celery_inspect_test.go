package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
)

// celery-monitor tells what a real worker reads, holds and counts, and revokes tasks:
// what is revoked before its start never runs, what runs goes on until it is
// terminated.
func TestCeleryInspectAndRevoke(t *testing.T) {
	t.Parallel()
	mq := testenv.RabbitMQ(t)
	const node, queue = "worker@inspect", "swh.test.Sleep"
	startWorker(t, mq.URL, node, queue)
	config := configFile(t, "scheduler: {cls: postgresql, db: dbname=unused}\ncelery: {task_broker: \""+mq.URL+"\"}\n")
	monitor := func(args ...string) result {
		t.Helper()
		return ours(t, append([]string{"-C", config, "celery-monitor", "--pattern", node}, args...)...)
	}
	await := func(want string, args ...string) {
		t.Helper()
		var r result
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			if r = monitor(args...); r.code == 0 && r.stdout == want {
				return
			}
		}
		t.Errorf("%q: %+v, want %q", args, r, want)
	}
	const runs, waits, later = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002", "00000000-0000-0000-0000-000000000003"

	await(node+": "+queue+"\n", "active-queues")
	for _, command := range []string{"reserved", "scheduled"} {
		if r := monitor(command); r.code != 0 || r.stdout != "" || !strings.Contains(r.stderr, "the worker has none") {
			t.Errorf("%s of an idle worker: %+v", command, r)
		}
	}
	broker, err := celery.ParseBroker(mq.URL)
	if err != nil {
		t.Fatal(err)
	}
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
	send(later, time.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC)) // first, while the worker's prefetch has room
	await(node+": swh.test.Sleep(600) [id="+later+"] at 2099-01-02T03:04:05+00:00\n", "scheduled")
	send(runs, time.Time{})
	for end := time.Now().Add(time.Minute); !strings.Contains(monitor("list-running").stdout, "Sleep") && time.Now().Before(end); {
	}
	send(waits, time.Time{})
	await(node+": swh.test.Sleep(600) [id="+waits+"]\n", "reserved")
	var reserved map[string][]struct{ ID string }
	if r := monitor("reserved", "--output", "json"); json.Unmarshal([]byte(r.stdout), &reserved) != nil || len(reserved[node]) != 1 || reserved[node][0].ID != waits {
		t.Errorf("reserved as JSON: %+v", r)
	}
	if r := monitor("stats"); r.code != 0 || !strings.HasPrefix(r.stdout, node+": up ") || !strings.Contains(r.stdout, "1 processes") || !strings.Contains(r.stdout, node+": swh.test.Sleep 1\n") {
		t.Errorf("stats: %+v", r)
	}

	if r := monitor("revoke", runs, waits); r.code != 0 || !strings.HasPrefix(r.stdout, node+": ") || !strings.Contains(r.stdout, waits) || strings.Contains(r.stderr, "terminate") {
		t.Errorf("revoke: %+v", r)
	}
	if r := monitor("list-running"); !strings.Contains(r.stdout, "Sleep(600)") {
		t.Errorf("without --terminate, what runs was ended: %+v", r)
	}
	if r := monitor("revoke", "--terminate", runs); r.code != 0 || !strings.Contains(r.stderr, "level=WARN") || !strings.Contains(r.stderr, "another task") {
		t.Errorf("revoke --terminate: %+v", r)
	}
	// With the first out of the way, the second would begin.
	await("", "list-running")
	await("", "reserved")

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
