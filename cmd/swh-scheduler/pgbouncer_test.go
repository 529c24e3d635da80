package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/testenv"
)

// Behind a PgBouncer in transaction mode all daemons work: tasks, immediate priority tasks, graphs, visits with shares
// and lanes, events, the journal, calls and maintenance. Python programs read the same configuration.
func TestBehindPgBouncer(t *testing.T) {
	t.Parallel()
	dsn, mq, section := testenv.Database(t), testenv.RabbitMQ(t), journalSection(t, "")
	config := configFile(t, fmt.Sprintf(`scheduler: {cls: postgresql, db: %q}
database: {direct: %q}
celery: {task_broker: %q}
rabbitmq: {management_url: %q}
lost_after: {default: 1 day}
archive: {after: {default: 1 day}}
shares: {load-git: {by: lister, default: 1}}
lanes:
  load-git:
  - {name: express, queue: "express:{backend_name}", time_limit: 1 min, slots: 15}
  - {name: slow, time_limit: 15 min, slots: 10}
`, testenv.PgBouncer(t, dsn), dsn, mq.URL, mq.ManagementURL)+section)
	run := func(args ...string) {
		t.Helper()
		if r := ours(t, append([]string{"-C", config}, args...)...); r.code != 0 {
			t.Fatalf("%q: %+v", args, r)
		}
	}
	run("migrate", "--rebuild-candidates")
	execute(t, dsn, `insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.git', 100), ('step', '', 'swh.step', 100);
		insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'l', '', '{}', now());
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			select '00000000-0000-0000-0000-000000000001', 'https://example.org/' || n, 'git', '{}', true, now() from generate_series(0, 39) n;
		insert into task (type, arguments, next_run, status, policy) select 'step', jsonb_build_object('args', array[n]), now(), 'next_run_not_scheduled', 'oneshot' from generate_series(1, 30) n;
		insert into task (type, arguments, next_run, status, policy) values ('step', '{}', now() - interval '2 days', 'disabled', 'oneshot')`)
	run("task", "graph", "submit", configFile(t, "name: g\ntasks:\n- {name: a, type: step}\n- {name: b, type: step, depends_on: [a]}\n"))
	daemons := map[string]*process{}
	for name, args := range map[string][]string{
		"runner": {"start-runner", "--period", "1"}, "priority": {"start-runner", "--period", "3600", "--with-priority"},
		"recurrent": {"schedule-recurrent"}, "listener": {"start-listener"}, "journal": {"journal-client"},
		"rpc": {"rpc-serve", "--host", "127.0.0.1", "--port", "0"},
	} {
		daemons[name] = start(t, append([]string{"-l", "info", "-C", config}, args...)...)
	}
	for _, d := range daemons {
		d.logs(t, "msg=started")
	}

	// A worker runs all messages.
	channel := testenv.ListenerQueue(t, mq.URL)
	came := make(chan amqp.Delivery, 200) // messages by consumers, as a lane without a consumer is a warning
	for _, queue := range []string{"swh.git", "express:swh.git", "swh.step", "save_code_now:swh.step"} {
		testenv.Declare(t, channel, queue, nil)
		deliveries, err := channel.Consume(queue, "", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for d := range deliveries {
				came <- d
			}
		}()
	}
	runs := func(d amqp.Delivery) {
		event := func(kind, more string) string {
			return fmt.Sprintf(`{"type": %q, "uuid": %q, "hostname": "w", "timestamp": %d%s}`, kind, d.CorrelationId, time.Now().Unix(), more)
		}
		for key, text := range map[string]string{
			"task.result": event("task-result", `, "result": {"status": "eventful"}`),
			"task.multi":  "[" + event("task-started", "") + ", " + event("task-succeeded", `, "runtime": 1`) + "]",
		} {
			if err := channel.Publish("celeryev", key, false, false, amqp.Publishing{Body: []byte(text), ContentType: "application/json", ContentEncoding: "utf-8"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	work := func() {
		for len(came) > 0 {
			runs(<-came)
		}
	}
	until := func(query, want string) {
		t.Helper()
		testenv.Becomes(t, query, want, func() string {
			work()
			return value(t, dsn, query)
		})
	}
	until("select count(*)::text from task where status = 'completed'", "32")
	until("select count(*)::text from origin_visit_stats where last_scheduled is not null", "40")
	until("select count(*)::text from scheduler_go.work where state <> 'settled'", "0")
	until("select count(*)::text from task where status = 'disabled'", "0") // the task is archived
	execute(t, dsn, `insert into task (type, arguments, next_run, status, policy, priority) values ('step', '{}', now(), 'next_run_not_scheduled', 'oneshot', 'high')`)
	until("select count(*)::text from task where status = 'completed'", "33")
	journalTopic(t, section)(0, visitRecord(t, 0, 0, "full"), visitRecord(t, 1, 1, "failed"))
	until("select count(*)::text from origin_visit_stats where last_visit is not null", "2")
	until("select (count(*) > 10)::text from scheduler_go.keeper where seconds > 0", "true")
	if failed := value(t, dsn, "select coalesce(string_agg(job || ': ' || result, '; '), '') from scheduler_go.keeper where failed"); failed != "" {
		t.Errorf("maintenance failed: %s", failed)
	}

	_, address, _ := strings.Cut(daemons["rpc"].log(), "address=")
	address, _, _ = strings.Cut(address, "\n")
	address, _, _ = strings.Cut(address, " ")
	for _, args := range [][]string{{"task", "list"}, {"task-type", "list"}, {"origin", "peek-next", "git", "5"}, {"origin", "grab-next", "git", "5"}} {
		run(append([]string{"-u", "http://" + address + "/"}, args...)...)
		run(args...)
	}
	swh := testenv.Swh(t)
	if r := command(t, swh, environment("SWH_CONFIG_FILENAME="+config), "scheduler", "task", "list"); r.code != 0 {
		t.Errorf("the Python scheduler: %+v", r)
	}
	for name, d := range daemons {
		for line := range strings.Lines(d.log()) {
			if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

// Commands that only read use the replica, a standby of the primary. Others use the primary.
func TestReadingCommandsUseTheReplica(t *testing.T) {
	t.Parallel()
	pair := testenv.PostgresPair(t)
	dsn, standby := pair.DSN(), "postgresql://postgres@"+pair.Hosts()[1]+"/postgres"
	config := configFile(t, fmt.Sprintf(`scheduler: {cls: postgresql, db: "postgresql://u@127.0.0.1:1/x"}
database: {replica: %q}
celery: {task_broker: "amqp://u@127.0.0.1:1//"}
shares: {load-git: {by: lister, default: 1}}
lanes: {load-git: [{name: express, queue: e, time_limit: 1 min, slots: 5}, {name: slow, time_limit: 15 min, slots: 10}]}
`, standby))
	if r := ours(t, "-C", config, "-d", dsn, "migrate"); r.code != 0 {
		t.Fatal(r)
	}
	execute(t, dsn, `insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git');
		insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'gitea', 'x', '{}', now());
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			values ('00000000-0000-0000-0000-000000000001', 'https://forge.example/1', 'git', '{}', true, now());
		insert into task (type, arguments, next_run, status, policy) values ('load-git', '{}', now(), 'next_run_not_scheduled', 'oneshot')`)
	testenv.Shows(t, "load-git", func() string { return ours(t, "-C", config, "task", "list").stdout })
	if r := ours(t, "-C", config, "origin", "peek-next", "git", "5"); !strings.Contains(r.stdout, "https://forge.example/1") {
		t.Errorf("origin peek-next on the standby: %+v", r)
	}
	for _, args := range [][]string{
		{"task", "list"}, {"task", "list-pending", "load-git"}, {"task-type", "list"}, {"task", "graph", "list"},
		{"origin", "peek-next", "git", "5"}, {"explain", "1"}, {"lanes", "status"}, {"shares", "status"}, {"hosters", "status"},
	} {
		if r := ours(t, append([]string{"-C", config}, args...)...); r.code != 0 {
			t.Errorf("%q: %+v", args, r)
		}
	}
	for _, args := range [][]string{{"task", "add", "load-git"}, {"origin", "grab-next", "git", "5"}} {
		if r := ours(t, append([]string{"-C", config}, args...)...); r.code != 1 || !strings.Contains(r.stderr, "port=1") {
			t.Errorf("%q: %+v", args, r)
		}
	}
	var shown struct{ Database struct{ Replica string } }
	r := ours(t, "-C", config, "config", "show", "--output", "json")
	if err := json.Unmarshal([]byte(r.stdout), &shown); err != nil || !strings.Contains(shown.Database.Replica, "host=") {
		t.Errorf("%+v", r)
	}
}

// config check refuses a PgBouncer in transaction mode where database.direct is missing, or names it, too.
func TestPgBouncerWithoutDirect(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	pooler := testenv.PgBouncer(t, dsn)
	for want, text := range map[string]string{
		"WRONG scheduler:":       fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\nrpc_serve: {open: true}\n", pooler),
		"WRONG database.direct:": fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ndatabase: {direct: %q}\nrpc_serve: {open: true}\n", pooler, pooler),
		"ok    database.direct:": fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ndatabase: {direct: %q}\nrpc_serve: {open: true}\n", pooler, dsn),
	} {
		r := oursWith(t, []string{ownFile}, "-C", configFile(t, text), "config", "check", "--for", "rpc-serve") // a pooler has a fixed list of users
		wrong := strings.HasPrefix(want, "WRONG")
		if !strings.Contains(r.stdout, want) || wrong != (r.code != 0) || wrong && !strings.Contains(r.stdout, "such as PgBouncer") {
			t.Errorf("%s\n%+v, want %q", text, r, want)
		}
	}
}
