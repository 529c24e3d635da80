package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// A run that an operator revokes doesn't run again by itself, even if its type has retries, whether it is terminated or
// dropped. In a graph it counts as failed: its dependents don't run, its clean-up does. It runs again once an operator
// retries the graph.
func TestRevokedRunsDoNotRunAgain(t *testing.T) {
	t.Parallel()
	r := newGraphRoom(t)
	testenv.Exec(t, r.pool, `insert into task_type (type, description, backend_name, default_interval, min_interval, max_interval, backoff_factor, num_retries, retry_delay)
		values ('sleep', '', 'swh.test.Sleep', '1 day', '1 day', '1 day', 1, 3, '0 seconds')`)
	const node = "worker@revoke"
	startWorker(t, r.broker.URL, node, "swh.test.Sleep")
	r.startWorker()
	for _, daemon := range []string{"start-runner --period 1", "start-listener"} {
		start(t, append([]string{"-C", r.config}, strings.Fields(daemon)...)...).logs(t, "msg=started")
	}
	held := func(command string) func() string {
		return func() string { return ours(t, "-C", r.config, "celery-monitor", "--pattern", node, command).stdout }
	}
	g := r.submit(`tasks:
- {name: load, type: sleep, args: [600]}
- {name: index, type: step, depends_on: [load], deadline: 1h}
- {name: clean-up, type: step, depends_on: [{task: index, on: failed}]}
- {name: report, type: step, depends_on: [index, clean-up], requires: all-resolved}
`)
	load := strconv.FormatInt(g.Tasks["load"], 10)
	testenv.Shows(t, "Sleep", held("list-running"))
	recurring := testenv.Value[int64](t, r.pool, `insert into task (type, arguments, next_run, current_interval, status, retries_left)
		values ('sleep', '{"args": [600], "kwargs": {}}', now(), '1 day', 'next_run_not_scheduled', 3) returning id`)
	testenv.Shows(t, "Sleep", held("reserved"))

	r.run("task", "revoke", "--pattern", node, "--disable", fmt.Sprint(recurring))
	if result := ours(t, "-C", r.config, "task", "revoke", "--pattern", node, "--terminate", load); result.code != 0 {
		t.Fatalf("%+v", result)
	}
	r.await(g.Graph, map[string]int{"failed": 1, "dependency": 1, "completed": 2})
	ends := func(task string) (ends []string) {
		for _, text := range testenv.Column[string](t, r.pool, "select status || ' ' || coalesce(metadata, '{}') from task_run where task = $1::bigint order by id", task) {
			status, object, _ := strings.Cut(text, " ")
			var metadata map[string]string
			if err := json.Unmarshal([]byte(object), &metadata); err != nil {
				t.Fatal(err)
			}
			ends = append(ends, fmt.Sprintf("%s, %s: %s", status, metadata["not_retried"], metadata["error"]))
		}
		return ends
	}
	is := func(task, want string) {
		t.Helper()
		testenv.Becomes(t, "the runs of task "+task, want, func() string { return strings.Join(ends(task), "; ") })
	}
	// The runner that sent the clean-up had read all ready tasks.
	const terminated = "failed, revoked: revoked, and its process terminated by signal 15"
	is(load, terminated)
	is(fmt.Sprint(recurring), "failed, revoked: revoked before a worker began it")
	if status := testenv.Value[string](t, r.pool, "select status::text from task where id = $1", recurring); status != "disabled" {
		t.Errorf("a recurring task that was disabled is %s", status)
	}
	if text := r.run("explain", load); !strings.Contains(text, "It was revoked") {
		t.Errorf("explain doesn't say why it is not retried:\n%s", text)
	}

	r.run("task", "graph", "retry", fmt.Sprint(g.Graph))
	testenv.Shows(t, "Sleep", held("list-running"))
	is(load, terminated+"; started, : ")
}

// The end of a run enables its recurring task again, also one that is disabled: task revoke --disable and explain say
// so of a run that goes on. A task without such a run is disabled all the same.
func TestRevokeSaysWhatEnablesATaskAgain(t *testing.T) {
	t.Parallel()
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	pool := testenv.Connect(t, dsn)
	testenv.Exec(t, pool, `insert into task_type (type, description, backend_name) values ('sleep', '', 'swh.test.Sleep');
		insert into task (id, type, arguments, next_run, current_interval, policy, status) values
			(1, 'sleep', '{}', now(), '1 day', 'recurring', 'next_run_scheduled'), (2, 'sleep', '{}', now(), '1 day', 'recurring', 'next_run_not_scheduled');
		insert into task_run (task, backend_id, status) values (1, gen_random_uuid()::text, 'started')`)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\n", dsn, mq.URL))
	revoke := func(id string) result {
		return ours(t, "-C", config, "task", "revoke", "--disable", "--timeout", "0.1", id)
	}
	if r := revoke("1"); !strings.Contains(r.stderr, "enables the task again") {
		t.Errorf("revoke --disable of a task that runs: %+v", r)
	}
	if r := ours(t, "-C", config, "explain", "1"); !strings.Contains(r.stdout, "The end of that run enables it again") {
		t.Errorf("explain of a disabled task that runs: %+v", r)
	}
	if r := revoke("2"); r.code != 1 || !strings.Contains(r.stderr, "disabled now") || strings.Contains(r.stderr, "enables the task again") {
		t.Errorf("revoke --disable of a task that doesn't run: %+v", r)
	}
	if disabled := testenv.Column[int64](t, pool, "select id from task where status = 'disabled' order by id"); len(disabled) != 2 {
		t.Errorf("disabled: %v", disabled)
	}
}
