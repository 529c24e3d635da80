package main

import (
	"fmt"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// Task types come from a running worker's tasks, or from a file. Existing ones don't change.
func TestTaskTypeRegister(t *testing.T) {
	t.Parallel()
	mq, dsn := testenv.RabbitMQ(t), testenv.PythonDatabase(t)
	const node = "worker@register"
	startWorker(t, mq.URL, node, "swh.test.Echo")
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\n", dsn, mq.URL))
	execute(t, dsn, `insert into task_type (type, backend_name, description) values ('fail', 'swh.other.Fail', 'Mine')`)
	register := func(args ...string) result {
		t.Helper()
		return ours(t, append([]string{"-C", config, "task-type", "register", "--pattern", node}, args...)...)
	}
	const all = `select string_agg(concat_ws(' ', type, backend_name, default_interval, min_interval, max_interval, backoff_factor, max_queue_length, num_retries, retry_delay), ', ' order by type) from task_type`

	if r := register("-p", "nope", "--plugins", "what"); r.code != 2 || !strings.Contains(r.stderr, "Error: Those provided plugins are unknown: nope, what.\nAvailable ones are: ") || !strings.Contains(r.stderr, "test") {
		t.Errorf("%+v", r)
	}
	r := register("-p", "test")
	if r.code != 0 || r.stdout != "" || !strings.Contains(r.stderr, `another backend name" type=fail`) {
		t.Errorf("%+v", r)
	}
	want := "echo swh.test.Echo 2 days 2 days 2 days 1 1000, fail swh.other.Fail 1000, reject swh.test.Reject 2 days 2 days 2 days 1 1000, " +
		"retry swh.test.Retry 2 days 2 days 2 days 1 1000, sleep swh.test.Sleep 2 days 2 days 2 days 1 1000"
	if got := value(t, dsn, all); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if r := ours(t, "-C", config, "task-type", "register", "--pattern", "nobody@*", "--timeout", "0.3"); r.code != 1 || !strings.Contains(r.stderr, "no worker replied") {
		t.Errorf("%+v", r)
	}

	execute(t, dsn, "delete from task_type")
	file := configFile(t, `
list-x-full: {backend_name: swh.x.Full}
load-x:
  backend_name: swh.x.Load
  description: Loads
  default_interval: 64 days
  min_interval: 12:30:00
  max_interval: 2 weeks
  backoff_factor: 1.5
  max_queue_length: 5
  num_retries: 3
  retry_delay: 90
`)
	for range 2 {
		if r := register("--file", file); r.code != 0 || r.stdout != "" {
			t.Errorf("%+v", r)
		}
	}
	want = "list-x-full swh.x.Full 90 days 90 days 90 days 1 1000, load-x swh.x.Load 64 days 12:30:00 14 days 1.5 5 3 00:01:30"
	if got := value(t, dsn, all); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	bad := configFile(t, "a: {backend_nam: x}\nb: {backend_name: swh.b, default_interval: soon, num_retries: -1}\nc: 5\n")
	r = register("--file", bad)
	for _, want := range []string{
		bad + ":1:5: a.backend_nam is not a field of a task type (did you mean backend_name?)", ":1:4: a lacks backend_name",
		"b.default_interval must be a duration", "b.num_retries must be a whole number of at least 0", "c must be a mapping",
	} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("no %q in\n%s", want, r.stderr)
		}
	}
	if r.code != 1 || value(t, dsn, "select count(*)::text from task_type") != "2" {
		t.Errorf("exit code %d, want 1, and nothing registered", r.code)
	}
}

// Without workers, task-type register adds the known task types with the settings of their packages, and logs which and
// why. The broker may be missing from the file, or silent.
func TestTaskTypeRegisterWithoutWorkers(t *testing.T) {
	t.Parallel()
	dsn := testenv.PythonDatabase(t)
	broker := map[string]string{
		"names no broker":    "",
		"no worker replied":  fmt.Sprintf("celery: {task_broker: %q}\n", testenv.RabbitMQ(t).URL),
		"connection refused": "celery: {task_broker: 'amqp://guest:guest@127.0.0.1:1//'}\n",
	}
	for why, celery := range broker {
		execute(t, dsn, "delete from task_type")
		r := ours(t, "-C", configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n%s", dsn, celery)), "task-type", "register", "--timeout", "0.3")
		if r.code != 0 || !strings.Contains(r.stderr, why) || !strings.Contains(r.stderr, "swh.lister 7.4.0") {
			t.Errorf("%s: %+v", why, r)
		}
		const some = `select string_agg(concat_ws(' ', type, backend_name, default_interval, min_interval, max_interval, max_queue_length), ', ' order by type) from task_type
			where type in ('list-npm-full', 'list-npm-incremental', 'load-git', 'load-svn')`
		want := "list-npm-full swh.lister.npm.tasks.NpmListerTask 7 days 7 days 7 days 1000, list-npm-incremental swh.lister.npm.tasks.NpmIncrementalListerTask 2 days 2 days 2 days 1000, " +
			"load-git swh.loader.git.tasks.UpdateGitRepository 2 days 2 days 2 days 1000, load-svn swh.loader.svn.tasks.DumpMountAndLoadSvnRepository 2 days 2 days 2 days 1000"
		if got := value(t, dsn, some); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", why, got, want)
		}
	}
	execute(t, dsn, "delete from task_type")
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", dsn))
	if r := ours(t, "-C", config, "task-type", "register", "-p", "loader.arch", "-p", "loader.git-checkout"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	if got := value(t, dsn, "select string_agg(type || ' ' || description, ', ') from task_type"); got != "load-arch Celery task swh.loader.package.arch.tasks.LoadArch" {
		t.Errorf("of loader.arch: %s", got)
	}
	if r := ours(t, "-C", config, "task-type", "register", "-p", "nope"); r.code != 2 || !strings.Contains(r.stderr, "lister.npm, ") {
		t.Errorf("%+v", r)
	}
}
