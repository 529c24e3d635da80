package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"swh-scheduler/internal/testenv"
)

// With real services each daemon starts, and on SIGTERM and SIGINT logs its stop and exits with 0.
func TestDaemonsStopOnSignals(t *testing.T) {
	t.Parallel()
	config := services(t)
	if r := ours(t, "-C", configFile(t, config), "task-type", "add", "load-git", "swh.test.LoadGit", "A visit type"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	config += journalSection(t, "")
	for _, args := range [][]string{
		{"start-runner", "--period", "1"},
		{"start-runner", "-p", "1", "--with-priority"},
		{"start-listener"},
		{"schedule-recurrent"},
		{"journal-client"},
		{"rpc-serve", "--host", "127.0.0.1", "--port", "0"},
	} {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			t.Run(args[0]+" "+signal.String(), func(t *testing.T) {
				t.Parallel()
				p := start(t, append([]string{"-l", "debug", "-C", configFile(t, config)}, args...)...)
				p.logs(t, "msg=started")
				p.stop(t, signal)
				p.logs(t, "msg=stopped")
				if p.stdout.Len() > 0 {
					t.Errorf("standard output: %s", p.stdout.String())
				}
			})
		}
	}
}

// A daemon that is stopped during its first queries exits with 0.
func TestDaemonStoppedWhileItStarts(t *testing.T) {
	t.Parallel()
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	conn := testenv.Connect(t, dsn)
	tx := testenv.Begin(t, conn)
	testenv.Exec(t, tx, "lock table task_type")
	p := start(t, "-C", configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\n", dsn, mq.URL)), "schedule-recurrent", "--visit-type", "git")
	testenv.Becomes(t, "it asks for task types", true, func() bool {
		return testenv.Value[bool](t, tx, "select count(*) > 0 from pg_locks join pg_database d on d.oid = database and d.datname = current_database() where relation = 'task_type'::regclass and not granted")
	})
	p.stop(t, syscall.SIGTERM)
	if p.log() != "" {
		t.Errorf("it says %s", p.log())
	}
}

// journalSection returns a section journal with a topic and a group of this test.
func journalSection(t *testing.T, more string) string {
	t.Helper()
	prefix := testenv.Journal(t, 2)
	list, err := json.Marshal(testenv.Kafka(t))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("journal:\n  brokers: %s\n  prefix: %s\n  group_id: %s\n%s", list, prefix, prefix, more)
}

// Without its database a daemon logs that once, waits, and can be stopped. It works once the database is there, also
// after a later outage.
func TestDaemonWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	dsn, proxy := proxied(t, testenv.Database(t), url.UserPassword("postgres", "s3cret"))
	proxy.Cut()
	mq := testenv.RabbitMQ(t)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n", dsn, mq.URL, mq.ManagementURL))

	stopped := start(t, "-C", config, "start-runner", "-p", "1")
	stopped.logs(t, "is not reachable; retrying")
	stopped.stop(t, syscall.SIGTERM)

	p := start(t, "-C", config, "start-runner", "-p", "1")
	p.logs(t, "is not reachable; retrying")
	proxy.Restore()
	p.logs(t, "is back")
	p.logs(t, "msg=started")
	p.stop(t, syscall.SIGTERM)
	if n := strings.Count(p.log(), "is not reachable"); n != 1 {
		t.Errorf("said %d times that the database is away, want 1", n)
	}

	torn := start(t, "-C", config, "start-runner", "-p", "1")
	torn.logs(t, "msg=started")
	proxy.Cut()
	torn.logs(t, "is not reachable; retrying")
	torn.stop(t, syscall.SIGTERM)
	if strings.Contains(p.log()+stopped.log(), "s3cret") {
		t.Error("the password is in the log")
	}
}

// A daemon refuses a database that isn't migrated, and doesn't wait.
func TestDaemonRefusesDatabaseThatIsNotMigrated(t *testing.T) {
	t.Parallel()
	r := ours(t, "-o", "celery.task_broker=amqp://h//", "-d", testenv.Postgres(t), "start-listener")
	if r.code != 1 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "swh-scheduler migrate") {
		t.Errorf("exit code %d, want 1, and one line that says what to run:\n%s", r.code, r.stderr)
	}
}

// Daemons refuse unknown task types, as the Python scheduler does.
func TestDaemonsRefuseUnknownTypes(t *testing.T) {
	t.Parallel()
	config := configFile(t, services(t))
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"start-runner", "--task-type", "nope"}, "Error: Unknown nope\n"},
		{[]string{"start-runner", "-p", "1", "--task-type", "nope"}, "Error: Unknown nope\n"},
		{[]string{"schedule-recurrent", "--visit-type", "nope"}, "Error: Unknown task type: load-nope\n"},
	} {
		r := ours(t, append([]string{"-C", config}, tc.args...)...)
		if r.code != 2 || !strings.HasSuffix(r.stderr, tc.want) {
			t.Errorf("%q: exit code %d, want 2, and %q:\n%s", tc.args, r.code, tc.want, r.stderr)
		}
	}
}

// One round of the runner sends a new task once.
func TestRunnerOnce(t *testing.T) {
	t.Parallel()
	text := services(t)
	config := configFile(t, text)
	const queue = "swh.test.Once"
	for _, args := range [][]string{
		{"task-type", "add", "once", queue, "A test"},
		{"task", "add", "once", "-p", "oneshot", "url=https://example.org/"},
		{"start-runner"}, {"start-runner"},
	} {
		if r := ours(t, append([]string{"-C", config}, args...)...); r.code != 0 {
			t.Fatalf("%q: exit code %d\n%s", args, r.code, r.stderr)
		}
	}
	_, broker, _ := strings.Cut(text, "task_broker: \"")
	broker, _, _ = strings.Cut(broker, "\"")
	channel := testenv.Channel(t, broker)
	for i, want := range []bool{true, false} {
		message, ok, err := channel.Get(queue, true)
		if err != nil || ok != want {
			t.Errorf("message %d: %v, %v, want %v", i, ok, err, want)
		}
		if want && !strings.Contains(string(message.Body), "https://example.org/") {
			t.Errorf("got %s", message.Body)
		}
	}
}

// If a service is away, a command that runs once fails at once. It names the service in one line, without the password.
func TestMissingServices(t *testing.T) {
	t.Parallel()
	mq := testenv.URL(t, testenv.RabbitMQ(t).URL)
	proxy := testenv.Proxy(t, mq.Host)
	proxy.Cut()
	database := testenv.Database(t)
	poor := "poor_" + database[strings.LastIndex(database, "_")+1:]
	execute(t, database, "create role "+poor+" login")
	t.Cleanup(func() { execute(t, database, "drop role "+poor) })
	noDatabase := "postgresql://swh:s3cret@" + proxy.Addr + "/scheduler"
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{"-d", noDatabase, "task", "list-pending", "x"}, []string{"PostgreSQL (host=127.0.0.1 ", "is not reachable", "dbname=scheduler"}},
		{[]string{"-d", noDatabase, "task-type", "list"}, []string{"is not reachable"}},
		{[]string{"-d", noDatabase, "migrate"}, []string{"is not reachable"}},
		{[]string{"-d", noDatabase, "migrate", "--status"}, []string{"is not reachable"}},
		{[]string{"-o", "celery.task_broker=amqp://h//", "-d", noDatabase, "start-runner"}, []string{"is not reachable"}},
		{[]string{"-d", database + "x", "task-type", "list"}, []string{"refuses the connection: FATAL: database", "does not exist"}},
		{[]string{"-d", database + "?user=" + poor, "task-type", "list"}, []string{"user=" + poor + "): its user lacks a right", "permission denied for table task_type"}},
		{[]string{"-d", "host=h password=s3cret dbnam=x", "task-type", "list"}, []string{"--database: ", "DSN"}},
		{[]string{"-o", "celery.task_broker=amqp://h//", "-d", "postgresql://u:s3cret@h:port/x", "start-listener"}, []string{"--database: ", "DSN"}},
	} {
		r := ours(t, tc.args...)
		if r.code != 1 || strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "swh-scheduler: ") {
			t.Errorf("%q: exit code %d, want 1, and one line:\n%s", tc.args, r.code, r.stderr)
		}
		for _, want := range tc.want {
			if !strings.Contains(r.stderr, want) {
				t.Errorf("%q: %s, want it to say %q", tc.args, r.stderr, want)
			}
		}
		if strings.Contains(r.stderr, "s3cret") {
			t.Errorf("%q shows the password: %s", tc.args, r.stderr)
		}
	}
}

// If the broker is away, a runner for one round fails with one line. A runner that goes on logs that once, and sends the
// task once the broker is back.
func TestRunnerWithoutBroker(t *testing.T) {
	t.Parallel()
	mq := testenv.RabbitMQ(t)
	broker, proxy := testenv.Through(t, mq.URL, testenv.Proxy)
	proxy.Cut()
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n",
		testenv.Database(t), broker, mq.ManagementURL))
	for _, args := range [][]string{
		{"task-type", "add", "t", "swh.test.NoBroker", "A test"},
		{"task", "add", "t", "-p", "oneshot"},
	} {
		if r := ours(t, append([]string{"-C", config}, args...)...); r.code != 0 {
			t.Fatalf("%q: %s", args, r.stderr)
		}
	}
	r := ours(t, "-C", config, "start-runner")
	if r.code != 1 || !strings.Contains(r.stderr, proxy.Addr) || strings.Contains(r.stderr, "guest:guest") {
		t.Errorf("exit code %d, want 1 and a line that names the broker without its password:\n%s", r.code, r.stderr)
	}
	p := start(t, "-C", config, "start-runner", "-p", "1")
	p.logs(t, proxy.Addr)
	proxy.Restore()
	p.logs(t, "tasks claimed")
	p.stop(t, syscall.SIGTERM)
	if queue, err := testenv.Channel(t, mq.URL).QueueDeclarePassive("swh.test.NoBroker", true, false, false, false, nil); err != nil || queue.Messages != 1 {
		t.Errorf("got %+v, %v, want 1 message", queue, err)
	}
}

// An invalid broker URL is reported without its password.
func TestBadBroker(t *testing.T) {
	t.Parallel()
	database := testenv.Database(t)
	for _, broker := range []string{"amqp://u:s3cret@h:port//", "http://u:s3cret@h/", "redis://u:s3cret@h"} {
		config := configFile(t, fmt.Sprintf("scheduler: {cls: local, db: %q}\ncelery: {task_broker: %q}\n", database, broker))
		for _, args := range [][]string{{"start-runner"}, {"start-runner", "-p", "1"}, {"start-listener"}, {"schedule-recurrent"}} {
			r := ours(t, append([]string{"-C", config}, args...)...)
			if r.code != 1 || !strings.Contains(r.stderr, "celery.task_broker") || strings.Contains(r.stderr, "s3cret") || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("%s %q: exit code %d, want 1 and one line that names celery.task_broker without its password:\n%s", broker, args, r.code, r.stderr)
			}
		}
	}
}
