package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/testenv"
)

// readyWork is the work of all sending daemons: tasks with and without priority, visits that are due, and a lister's
// first visits. The tasks fit into their queue, as the Python runner would overfill it.
const readyWork = someTaskTypes + ";" + someOrigins + `;
	update task_type set max_queue_length = 3 where type = 'load-git';
	insert into task (type, arguments, next_run, policy, status, priority, current_interval, retries_left)
	select case when n <= 3 then 'load-git' else 'bare' end, jsonb_build_object('args', jsonb_build_array(n), 'kwargs', '{"é": 1.5}'::jsonb),
		'2024-01-01Z'::timestamptz + n * interval '1 minute', case n when 7 then 'recurring' else 'oneshot' end::task_policy, 'next_run_not_scheduled',
		case when n > 8 then 'high'::task_priority end, '1 day', 2
	from generate_series(1, 10) n;
	update listers set first_visits_queue_prefix = 'first', last_listing_finished_at = '2024-07-03Z' where name = 'unscheduled'`

// With our RPC server, our senders send the same messages as the Python ones, and leave the same rows.
func TestRemoteSendersSameAsThePythonScheduler(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	w.execute(readyWork)
	if r := ours(t, "-d", w.peer, "migrate"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	peerMQ, ourMQ := testenv.RabbitMQ(t), testenv.RabbitMQ(t)
	w.peerC, w.ourC = remoteConfig(t, ourServer(t, w.peer), peerMQ, ""), remoteConfig(t, doorServer(t, w.ours), ourMQ, "")
	for _, args := range [][]string{
		{"start-runner", "--task-type", "load-git"}, {"start-runner"}, {"start-runner", "--with-priority"}, {"start-runner", "--task-type", "nope"},
	} {
		w.compare(nil, args...)
	}
	// The program reads the broker of first visits at its start.
	if r := command(t, testenv.Swh(t), environment("SWH_CONFIG_FILENAME="+w.peerC), "scheduler", "start-runner-first-visits"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	if r := ours(t, "-C", w.ourC, "start-runner-first-visits"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	const git = "swh.loader.git.tasks.UpdateGitRepository"
	for queue, want := range map[string]int{git: 3, "swh.bare": 5, "save_code_now:swh.bare": 2, "first:swh.load-pypi": 1} {
		awaitMessages(t, peerMQ.URL, queue, want)
		theirs, our := taskMessages(t, peerMQ.URL, queue), taskMessages(t, ourMQ.URL, queue)
		if !slices.Equal(theirs, our) || len(our) != want {
			t.Errorf("%s: sent %q, the Python scheduler %q", queue, our, theirs)
		}
	}
	w.compareTables()
	w.compareQuery(`select task, status, started, ended, metadata from task_run order by task`)
	w.compareQuery(`select url, last_scheduled > now() - interval '1 hour' from origin_visit_stats order by url`)
	w.compareQuery(`select name, first_visits_scheduled_at is null from listers order by name`)
}

// With an RPC server, visits are sent by the configured policies, and workers' events reach the database.
func TestRemoteRecurrentAndListener(t *testing.T) {
	t.Parallel()
	dsn, mq := testenv.PythonDatabase(t), testenv.RabbitMQ(t)
	execute(t, dsn, readyWork)
	server := doorServer(t, dsn)
	config := func(more string) string { return remoteConfig(t, server, mq, more) }
	policies := "scheduling_policy: {git: [{policy: already_visited_order_by_lag, weight: 1}, {policy: origins_without_last_update, weight: 1}]}\n"
	start(t, "-C", config(policies), "schedule-recurrent", "--visit-type", "git")
	awaitMessages(t, mq.URL, "swh.loader.git.tasks.UpdateGitRepository", 3)
	testenv.Becomes(t, "marked origins", "3", func() string {
		return value(t, dsn, `select count(*) from origin_visit_stats where last_scheduled > now() - interval '1 hour' and visit_type = 'git'`)
	})

	execute(t, dsn, `insert into task_run (task, backend_id, scheduled) select n, 'run-' || n, now() from generate_series(1, 3) n`)
	start(t, "-C", config(""), "start-listener").logs(t, "reading queue")
	channel := testenv.Channel(t, mq.URL)
	event := func(kind, id, more string) string {
		return fmt.Sprintf(`{"type": %q, "uuid": %q, "hostname": "w@h", "timestamp": %d%s}`, kind, id, time.Now().Unix(), more)
	}
	for key, text := range map[string]string{
		"task.multi": "[" + event("task-started", "run-1", "") + "," + event("task-result", "run-1", `, "result": {"status": "success", "eventful": true}`) + "," +
			event("task-started", "unknown", "") + "]",
		"task.failed":  event("task-failed", "run-2", `, "traceback": "Traceback\nValueError: no\u0000"`),
		"task.started": event("task-started", "run-3", ""),
	} {
		if err := channel.Publish("celeryev", key, false, false, amqp.Publishing{Body: []byte(text), ContentType: "application/json", ContentEncoding: "utf-8"}); err != nil {
			t.Fatal(err)
		}
	}
	const want = `1:eventful:{"worker": "w@h"}:completed 2:failed:{"error": "ValueError: no"}:next_run_not_scheduled 3:started:{"worker": "w@h"}:next_run_not_scheduled`
	testenv.Becomes(t, "runs", want, func() string {
		return value(t, dsn, `select string_agg(concat_ws(':', r.task, r.status, r.metadata, t.status), ' ' order by r.task) from task_run r join task t on t.id = r.task`)
	})
}

// awaitMessages waits until a queue has n messages.
func awaitMessages(t *testing.T, url, queue string, n int) {
	t.Helper()
	channel := testenv.Channel(t, url)
	testenv.Becomes(t, "messages in "+queue, strconv.Itoa(n), func() string {
		q, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil { // a missing queue closes the channel
			time.Sleep(200 * time.Millisecond) // each try needs a connection
			channel = testenv.Channel(t, url)
			return err.Error()
		}
		return strconv.Itoa(q.Messages)
	})
}

// remoteConfig returns a configuration with an RPC server and a broker.
func remoteConfig(t *testing.T, url string, mq testenv.Broker, more string) string {
	t.Helper()
	return configFile(t, fmt.Sprintf("scheduler: {cls: remote, url: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n%s", url, mq.URL, mq.ManagementURL, more))
}

// A daemon waits if the RPC server is away, has no door, or has a closed one, and says which. It begins once the door
// opens.
func TestDaemonsWaitForTheDoor(t *testing.T) {
	t.Parallel()
	dsn, mq := testenv.PythonDatabase(t), testenv.RabbitMQ(t)
	for name, c := range map[string]struct{ url, want string }{
		"away":       {"http://u:s3cret@127.0.0.1:1/", "connection refused"},
		"the Python": {pythonServer(t, "scheduler", dsn), "has no door to its database: replace the RPC server first, or give this daemon a database"},
	} {
		p := start(t, "-C", remoteConfig(t, c.url, mq, ""), "start-runner", "--period", "1")
		p.logs(t, c.want)
		if strings.Contains(p.log(), "s3cret") {
			t.Errorf("%s: %s", name, p.log())
		}
		p.stop(t, syscall.SIGTERM)
	}
	if r := ours(t, "-d", dsn, "migrate"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	execute(t, dsn, readyWork)
	w := startWatched(t, "-C", remoteConfig(t, ourServer(t, dsn), mq, ""), "start-runner", "--period", "1")
	w.logs(t, "migrate --door")
	if status, text := w.get(t, "/readyz"); status != 503 {
		t.Errorf("/readyz: %d %s", status, text)
	}
	openDoor(t, dsn)
	w.logs(t, "msg=started")
	awaitMessages(t, mq.URL, "swh.bare", 5)
	testenv.Becomes(t, "readiness", 200, func() int {
		status, _ := w.get(t, "/readyz")
		return status
	})
}
