package main

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
	ports "swh-scheduler/internal/testenv/throwaway"
)

// doorServers are RPC servers on fixed ports, so that a test can restart them.
type doorServers struct {
	t         *testing.T
	dsn       string
	addresses []string
	processes []*process
}

// startDoorServers starts n RPC servers on a database whose door is open.
func startDoorServers(t *testing.T, dsn string, n int) *doorServers {
	t.Helper()
	openDoor(t, dsn)
	free, err := ports.FreePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	s := &doorServers{t: t, dsn: dsn, processes: make([]*process, n)}
	for i, port := range free {
		s.addresses = append(s.addresses, net.JoinHostPort("127.0.0.1", fmt.Sprint(port)))
		s.start(i)
	}
	return s
}

func (s *doorServers) start(i int) {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(s.addresses[i])
	s.processes[i] = start(s.t, "-d", s.dsn, "rpc-serve", "--host", "127.0.0.1", "--port", port)
	s.processes[i].logs(s.t, "msg=listening")
}

func (s *doorServers) signal(i int, signal syscall.Signal) {
	s.t.Helper()
	if err := s.processes[i].cmd.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}

// addReady adds n ready one-shot tasks of a type.
func addReady(t *testing.T, dsn string, n int) {
	t.Helper()
	execute(t, dsn, fmt.Sprintf(`insert into task (type, arguments, next_run, status, policy)
		select 'load-git', '{"args": [], "kwargs": {}}', now(), 'next_run_not_scheduled', 'oneshot' from generate_series(1, %d) n`, n))
}

// Two runners use two RPC servers behind a balancer, which are killed and stopped during deliveries. Each task has one
// run, and no message is lost. Only messages in progress at a broken connection are sent again: the other runner may
// take them over.
func TestRPCServersAreKilledWhileDaemonsSend(t *testing.T) {
	t.Parallel()
	const tasks = 20_000
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	execute(t, dsn, "insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.load', null)")
	servers := startDoorServers(t, dsn, 2)
	balancer := testenv.Balance(t, time.Minute, servers.addresses...)
	config := remoteConfig(t, "http://"+balancer.Addr, mq, "")
	addReady(t, dsn, tasks)
	for range 2 {
		start(t, "-C", config, "start-runner", "--period", "1").logs(t, "msg=started")
	}
	conn := testenv.Connect(t, dsn)
	unsent := func() int {
		t.Helper()
		return testenv.Value[int](t, conn, `select (select count(*) from scheduler_go.work where state = 'outgoing') + (select count(*) from task where status = 'next_run_not_scheduled')`)
	}
	signals := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM}
	for round, signal := range signals {
		left := unsent()
		testenv.Becomes(t, "some more are sent", true, func() bool { return unsent() < max(left-1000, 1) })
		i := round % 2
		servers.signal(i, signal)
		servers.processes[i].wait(t)
		servers.start(i)
	}
	testenv.Becomes(t, "unsent tasks", 0, unsent)
	ids := taskIDs(t, mq.URL, "swh.load")
	again := 0
	for _, n := range ids {
		again += n - 1
	}
	if runs := testenv.Value[int](t, conn, "select count(distinct task) from task_run"); len(ids) != tasks || runs != tasks {
		t.Errorf("%d tasks have runs, and messages with %d ids were sent, want %d of each", runs, len(ids), tasks)
	}
	if most := 2 * len(signals) * inHandAtMost; again > most {
		t.Errorf("%d messages were sent again, want %d at most", again, most)
	}
	t.Logf("%d of %d messages were sent again", again, tasks)
}

// If an RPC server falls silent, as after a loss of power, daemons use the other one within 45 s.
func TestDaemonsGoOnWithoutASilentRPCServer(t *testing.T) {
	t.Parallel()
	const bound = 45 * time.Second
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	execute(t, dsn, "insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.load', null)")
	servers := startDoorServers(t, dsn, 2)
	balancer := testenv.Balance(t, time.Minute, servers.addresses...)
	start(t, "-C", remoteConfig(t, "http://"+balancer.Addr, mq, ""), "start-runner", "--period", "1").logs(t, "msg=started")
	conn := testenv.Connect(t, dsn)
	sent := func() int {
		t.Helper()
		return len(testenv.Column[string](t, conn, "select backend_id from task_run r where not exists (select from scheduler_go.work w where w.state = 'outgoing' and w.task_id::text = r.backend_id)"))
	}
	addReady(t, dsn, 100)
	testenv.Becomes(t, "messages sent", 100, sent)
	servers.signal(0, syscall.SIGSTOP)
	silent := time.Now()
	addReady(t, dsn, 100)
	testenv.Becomes(t, "messages sent beside a silent server", 200, sent)
	if took := time.Since(silent); took > bound {
		t.Errorf("the daemon went on after %s, want %s at most", took, bound)
	}
	servers.signal(0, syscall.SIGCONT)
}

// Idle daemons stay ready behind a balancer that cuts idle connections. A task with priority is sent at once.
func TestIdleDaemonsBehindABalancer(t *testing.T) {
	t.Parallel()
	const idle = 20 * time.Second
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	execute(t, dsn, "insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.load', null)")
	servers := startDoorServers(t, dsn, 2)
	balancer := testenv.Balance(t, idle, servers.addresses...)
	config := remoteConfig(t, "http://"+balancer.Addr, mq, "")
	daemons := []*watched{
		startWatched(t, "-C", config, "start-runner", "--period", "1", "--with-priority"),
		startWatched(t, "-C", config, "start-listener"),
		startWatched(t, "-C", config, "schedule-recurrent", "--visit-type", "git"),
	}
	daemons[2].logs(t, "scheduling recurrent visits") // the daemon is ready before its loops run
	for _, d := range daemons {
		d.becomes(t, "/readyz", 200, "ready")
	}
	for end := time.Now().Add(2*idle + idle/2); time.Now().Before(end); pause(time.Second) {
		for _, d := range daemons {
			if status, text := d.get(t, "/readyz"); status != 200 {
				t.Fatalf("a daemon that is idle: %d %s", status, text)
			}
		}
	}
	execute(t, dsn, `insert into task (type, arguments, next_run, status, policy, priority) values ('load-git', '{"args": [], "kwargs": {}}', now(), 'next_run_not_scheduled', 'oneshot', 'high')`)
	began := time.Now()
	awaitMessages(t, mq.URL, "save_code_now:swh.load", 1)
	t.Logf("%d connections were cut; the task was in its queue within %s", balancer.Cuts(), time.Since(began).Round(time.Millisecond))
}

// If the RPC server refuses a daemon's credentials, the daemon waits and logs that without the password. It begins once
// they are accepted.
func TestDaemonsShowCredentialsAtTheDoor(t *testing.T) {
	t.Parallel()
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	openDoor(t, dsn)
	serve := func(password string) string {
		p := start(t, "-C", configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: '%s'}\nrpc_serve: {username: daemon, password: %q}\n", dsn, password)),
			"rpc-serve", "--host", "127.0.0.1", "--port", "0")
		return testenv.Host(t, p.serverURL(t))
	}
	address := serve("s3cret")
	for url, want := range map[string]string{
		"http://" + address:                    "refuses the credentials in scheduler.url (HTTP status 401)",
		"http://daemon:wr0ng@" + address + "/": "refuses the credentials in scheduler.url (HTTP status 401)",
		"http://daemon:s3cret@" + address:      "msg=started",
	} {
		p := start(t, "-C", remoteConfig(t, url, mq, ""), "start-runner", "--period", "1")
		p.logs(t, want)
		if strings.Contains(p.log(), "s3cret") || strings.Contains(p.log(), "wr0ng") {
			t.Errorf("the log has a password:\n%s", p.log())
		}
		p.stop(t, syscall.SIGTERM)
	}
}

// If the RPC server restarts with other credentials, a running daemon isn't ready and logs the refusal without a
// password. Once they match again, it goes on. A new password of the door's role has no effect.
func TestCredentialsChangeWhileADaemonRuns(t *testing.T) {
	t.Parallel()
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	execute(t, dsn, "insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.load', null)")
	openDoor(t, dsn)
	free, err := ports.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprint(free[0])
	serve := func(password string) *process {
		t.Helper()
		p := start(t, "-C", configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\nrpc_serve: {username: daemon, password: %q}\n", dsn, password)),
			"rpc-serve", "--host", "127.0.0.1", "--port", port)
		p.logs(t, "msg=listening")
		return p
	}
	server := serve("s3cret")
	d := startWatched(t, "-C", remoteConfig(t, "http://daemon:s3cret@127.0.0.1:"+port, mq, ""), "start-runner", "--period", "1")
	d.logs(t, "msg=started")
	sent := 0
	sends := func() {
		t.Helper()
		addReady(t, dsn, 1)
		sent++
		awaitMessages(t, mq.URL, "swh.load", sent)
		d.becomes(t, "/readyz", 200, "ready")
	}
	sends()
	server.stop(t, syscall.SIGTERM)
	server = serve("another")
	d.logs(t, "refuses the credentials in scheduler.url (HTTP status 401)")
	d.becomes(t, "/readyz", 503, "waiting for ")
	server.stop(t, syscall.SIGTERM)
	serve("s3cret")
	sends()
	if r := ours(t, "-d", dsn, "migrate", "--door"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	sends()
	if log := d.log(); strings.Contains(log, "s3cret") || strings.Contains(log, "another\"") {
		t.Errorf("the log has a password:\n%s", log)
	}
}
