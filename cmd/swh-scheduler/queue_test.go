package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/status"
	"swh-scheduler/internal/testenv"
)

// `queue status` prints each queue's limit, messages, consumers, oldest message, lane and groups. It prints a table or
// JSON, once or repeatedly with --watch. It marks a queue whose messages have no consumer.
func TestQueueStatus(t *testing.T) {
	t.Parallel()
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	file := configFile(t, `scheduler: {cls: postgresql, db: "`+dsn+`"}
celery: {task_broker: "`+mq.URL+`"}
rabbitmq: {management_url: "`+mq.ManagementURL+`"}
shares: {index: {by: kwargs.owner, weights: {a: 1, b: 2}}}
lanes:
  load-git:
  - {name: express, queue: "express:{backend_name}", soft_time_limit: 1 minute, time_limit: 2 minutes, slots: 30}
  - {name: slow, queue: "{backend_name}", soft_time_limit: 1 hour, time_limit: 2 hours, slots: 10}
`)
	channel := testenv.Channel(t, mq.URL)
	for queue, n := range map[string]int{"express:swh.git": 2, "swh.git": 0, "swh.index": 1, "save_code_now:swh.list": 0} {
		testenv.Declare(t, channel, queue, nil)
		testenv.Put(t, channel, queue, make([]amqp.Publishing, n)...)
	}
	if _, err := channel.Consume("swh.git", "", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	execute(t, dsn, `
		insert into task_type (type, description, backend_name, max_queue_length) values
			('load-git', '', 'swh.git', 100), ('index', '', 'swh.index', 50), ('list', '', 'swh.list', null);
		insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, claimed, since, share_group, cost)
		select gen_random_uuid(), state, 'swh.index', 'swh.index', 'swh.index', '[]', '{}', now() - interval '1 hour', now() - interval '1 hour', share_group, 1
		from (values ('sent', 'a'), ('sent', 'b'), ('outgoing', 'b')) v (state, share_group);
		insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, claimed, since, lane_set, lane, memory, lister, first, behind)
		select gen_random_uuid(), 'backlog', 'swh.git', 'swh.git', 'swh.git', '[]', '{}', now(), now(), 'load-git', 1, 0, '', false, 0 from generate_series(1, 4)`)

	shown := ours(t, "-C", file, "queue", "status", "--output", "json")
	var queues []status.Queue
	if err := json.Unmarshal([]byte(shown.stdout), &queues); err != nil || shown.code != 0 {
		t.Fatalf("%v: %+v", err, shown)
	}
	by := map[string]status.Queue{}
	for _, q := range queues {
		by[q.Queue] = q
	}
	if len(by) != 4 {
		t.Errorf("%d queues: %s", len(by), shown.stdout)
	}
	if q := by["express:swh.git"]; q.Ready != 2 || q.Consumers != 0 || q.Limit != 30 || q.Lane != "load-git express" || q.Backlog != 0 || q.Oldest != nil {
		t.Errorf("%+v", q)
	}
	if q := by["swh.git"]; q.Ready != 0 || q.Consumers != 1 || q.Limit != 10 || q.Lane != "load-git slow" || q.Backlog != 4 {
		t.Errorf("%+v", q)
	}
	if q := by["swh.index"]; q.Ready != 1 || q.Outgoing != 1 || q.Limit != 50 || q.Oldest == nil || *q.Oldest < 3600 || q.Groups["a"] != 1 || q.Groups["b"] != 2 {
		t.Errorf("%+v", q)
	}
	if q := by["save_code_now:swh.list"]; q.TaskType != "list" || q.Limit != 0 {
		t.Errorf("%+v", q)
	}

	table := ours(t, "-C", file, "queue", "status", "swh.index")
	if lines := strings.Split(table.stdout, "\n"); table.code != 0 || len(lines) != 3 || !strings.HasSuffix(lines[1], "b 2, a 1") {
		t.Errorf("%+v", table)
	}
	unknown := ours(t, "-C", file, "queue", "status", "swh.idnex")
	if unknown.code != 2 || !strings.Contains(unknown.stderr, "No task or visit is sent to a queue swh.idnex. Did you mean 'swh.index'?") {
		t.Errorf("%+v", unknown)
	}

	showsAgain(t, "QUEUE ", "-C", file, "queue", "status", "--watch=0.05", "swh.index")
}

// explain and forecast repeat with --watch.
func TestExplainAndForecastWatch(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	execute(t, dsn, `insert into task_type (type, description, backend_name) values ('index', '', 'swh.index');
		insert into task (type, arguments, next_run, status, policy) values ('index', '{}', now() + interval '1 day', 'next_run_not_scheduled', 'oneshot')`)
	file := configFile(t, `scheduler: {cls: postgresql, db: "`+dsn+`"}`)
	showsAgain(t, "Task 1", "-C", file, "explain", "--watch=0.05", "1")
	showsAgain(t, "20", "-C", file, "forecast", "--watch=0.05")
}

// showsAgain runs a command with --watch, waits for three lines with a beginning, and interrupts it.
func showsAgain(t *testing.T, beginning string, args ...string) {
	t.Helper()
	watching := exec.Command(binary, args...)
	watching.Env = environment()
	out, err := watching.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watching.Start(); err != nil {
		t.Fatal(err)
	}
	times := 0
	for lines := bufio.NewScanner(out); times < 3 && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), beginning) {
			times++
		}
	}
	_ = watching.Process.Signal(syscall.SIGINT)
	_, _ = io.Copy(io.Discard, out)
	if err := watching.Wait(); err != nil || times < 3 {
		t.Errorf("shown %d times, then %v", times, err)
	}
}
