package main

import (
	"fmt"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// All connections to PostgreSQL fall silent while runners and the recurrent scheduler send; new ones work. All daemons
// continue within 45 s. Ready messages are sent, even those that silent transactions have locked.
func TestDaemonsGoOnAfterSilence(t *testing.T) {
	t.Parallel()
	const tasks, origins, bound = 20_000, 500, 45 * time.Second
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	dsnThrough, way := testenv.Through(t, dsn, testenv.Proxy)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\nqueue_full_backoff: 0.1\nno_origins_scheduled_backoff: 0.5\n",
		dsnThrough, mq.URL, mq.ManagementURL))
	conn := testenv.Connect(t, dsn)
	exec := func(statement string, args ...any) {
		t.Helper()
		testenv.Exec(t, conn, statement, args...)
	}
	addTasks := func(n int) {
		t.Helper()
		exec(`insert into task (type, arguments, next_run, status, policy, priority)
			select 'load-git', '{"args": [], "kwargs": {}}', now(), 'next_run_not_scheduled', 'oneshot', case when n % 4 = 0 then 'normal'::task_priority end
			from generate_series(1, $1::int) n`, n)
	}
	addOrigins := func(prefix string) {
		t.Helper()
		exec(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			select id, 'https://example.org/' || $1::text || n, 'svn', '{}', true, now() from listers, generate_series(1, $2::int) n`, prefix, origins)
	}
	exec("insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.load.git', null), ('load-svn', '', 'swh.load.svn', null)")
	exec("insert into listers (id, name, instance_name, current_state, updated) values (gen_random_uuid(), 'gitea', '', '{}', now())")
	addTasks(tasks)
	addOrigins("before/")
	for _, args := range [][]string{{"start-runner", "--period", "1"}, {"start-runner", "--with-priority", "--period", "1"}, {"schedule-recurrent", "--visit-type", "svn"}} {
		start(t, append([]string{"-C", config}, args...)...).logs(t, "started")
	}
	unsent := func() int {
		t.Helper()
		return testenv.Value[int](t, conn, `select (select count(*) from scheduler_go.work where state = 'outgoing') + (select count(*) from task where status = 'next_run_not_scheduled')
			+ (select count(*) from listed_origins l where not exists (select from origin_visit_stats s where s.url = l.url and s.last_scheduled is not null))`)
	}
	testenv.Becomes(t, "some are sent", true, func() bool { return unsent() <= tasks*3/4 })
	way.Silence(false)
	silent, left := time.Now(), unsent()
	addTasks(100)
	addOrigins("after/")
	// On a busy machine, sending all takes longer.
	for n, progress := unsent(), silent; n > 0; pause(100 * time.Millisecond) {
		if now := unsent(); now < n {
			n, progress = now, time.Now()
		}
		if time.Since(progress) > bound {
			t.Fatalf("%d were left when the connections fell silent; %d are, and none was sent for %s", left, n, bound)
		}
	}
	t.Logf("%d were left when the connections fell silent; all were sent %s later", left, time.Since(silent).Round(time.Second))
}
