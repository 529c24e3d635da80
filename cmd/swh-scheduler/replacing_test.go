package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/testenv"
)

// startPeers starts a daemon of the peer's; stop ends it as systemd would.
func startPeers(t *testing.T, config string, args ...string) (stop func()) {
	t.Helper()
	cmd := exec.Command(filepath.Join(filepath.Dir(testenv.Python(t)), "swh"), append([]string{"scheduler"}, args...)...)
	cmd.Env = environment("SWH_CONFIG_FILENAME="+config, "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // ended by our signal
	}()
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	t.Cleanup(stop)
	return stop
}

// docs/replacing.md, step by step: the peer's daemons and ours in turn, and at the
// same time where that is said to do, on a database that the peer made, with a real
// worker. Every task runs once and every origin is sent once.
func TestReplacingThePythonDaemons(t *testing.T) {
	t.Parallel()
	dsn, mq := testenv.PeerDatabase(t), testenv.RabbitMQ(t)
	config := configFile(t, fmt.Sprintf(`scheduler: {cls: postgresql, db: %q}
celery: {task_broker: %q}
rabbitmq: {management_url: %q}
no_origins_scheduled_backoff: 1
scheduling_policy: {git: [{policy: oldest_scheduled_first, weight: 1}]}
`, dsn, mq.URL, mq.ManagementURL))
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	exec := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	count := func(query string) (n int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	exec(`insert into task_type (type, description, backend_name, default_interval, num_retries) values ('echo', '', 'swh.test.Echo', '1 day', 3);
		insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.test.LoadGit', null);
		insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'github', '', '{}', now())`)
	startWorker(t, mq.URL, "worker@replacing", "swh.test.Echo")

	tasks, origins := 0, 0
	// work adds tasks and origins, and waits until they have been run and sent.
	work := func(step string, visits bool) {
		t.Helper()
		exec(fmt.Sprintf(`insert into task (type, arguments, next_run, status, policy)
			select 'echo', jsonb_build_object('args', jsonb_build_array(%d + n), 'kwargs', '{}'::jsonb), now(), 'next_run_not_scheduled', 'oneshot' from generate_series(1, 40) n`, tasks))
		tasks += 40
		if visits {
			exec(fmt.Sprintf(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
				select '00000000-0000-0000-0000-000000000001', 'https://x/' || (%d + n), 'git', '{}', true, now() from generate_series(1, 30) n`, origins))
			origins += 30
		}
		for deadline := time.Now().Add(2 * time.Minute); ; pause(100 * time.Millisecond) {
			done := count("select count(*) from task where status = 'completed'")
			marked := count("select count(*) from origin_visit_stats where last_scheduled is not null")
			if done == tasks && marked == origins {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d of %d tasks are completed, %d of %d origins scheduled", step, done, tasks, marked, origins)
			}
		}
	}
	ourListener := func() *process { return start(t, "-C", config, "start-listener") }
	stop := func(p *process) { p.stop(t, syscall.SIGTERM, 30*time.Second) }

	stopPeersRunner := startPeers(t, config, "start-runner", "--period", "1")
	stopPeersListener := startPeers(t, config, "start-listener")
	work("the peer's alone", false)

	// Before: migrate, while they work.
	if r := ours(t, "-C", config, "migrate"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	if r := ours(t, "-C", config, "config", "check"); r.code != 0 {
		t.Fatal(r.stdout, r.stderr)
	}
	work("the peer's on the prepared database", false)

	listener := ourListener()
	listener.logs(t, "reading queue")
	work("both listeners at once", false)
	stopPeersListener()
	work("our listener, the peer's runner", false)
	stopPeersRunner()
	runner := start(t, "-C", config, "start-runner", "--period", "1")
	recurrent := start(t, "-C", config, "schedule-recurrent", "--visit-type", "git")
	work("ours alone", true)

	// And back.
	stop(runner)
	stop(recurrent)
	stop(listener)
	if n := count("select count(*) from scheduler_go.outbox"); n > 0 {
		t.Errorf("%d messages are left in the outbox", n)
	}
	startPeers(t, config, "start-listener")
	startPeers(t, config, "start-runner", "--period", "1")
	startPeers(t, config, "schedule-recurrent", "--visit-type", "git")
	work("the peer's again", true)
	exec("drop schema scheduler_go cascade")
	work("the peer's, with nothing of ours left", true)

	if runs := count("select count(*) from task_run"); runs != tasks {
		t.Errorf("%d tasks have %d runs", tasks, runs)
	}
	// The peer's listener may turn the status of a run back to started, by an event
	// that comes late; its end stays.
	if ended := count("select count(*) from task_run where ended is not null and status in ('eventful', 'started')"); ended != tasks {
		t.Errorf("%d of %d runs have ended well", ended, tasks)
	}
	// The peer marks origins before it sends them.
	sent := 0
	for deadline := time.Now().Add(time.Minute); sent < origins && time.Now().Before(deadline); pause(100 * time.Millisecond) {
		for _, n := range taskIDs(t, mq.URL, "swh.test.LoadGit") {
			sent += n
		}
	}
	if sent != origins {
		t.Errorf("%d visits were sent for %d origins", sent, origins)
	}
}
