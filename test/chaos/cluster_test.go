package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/throwaway"
)

// queue is a queue of the test.
type queue struct {
	name  string
	kind  string // quorum or classic
	node  int    // its home; a quorum queue is on all
	limit int
}

// queues are the queues of two visit types and two task types, and that of the workers' events.
var queues = []queue{
	{"swh.chaos.Git", "quorum", 0, 150},         // shares
	{"swh.chaos.Hg", "classic", 0, 60},          // the slow lane
	{"express:swh.chaos.Hg", "classic", 0, 100}, // the express lane
	{"swh.chaos.List", "classic", 1, 100},
	{"swh.chaos.Index", "quorum", 1, 100},
	{"save_code_now:swh.chaos.List", "classic", 2, 100},
	{"celeryev.listener", "quorum", 0, 0},
}

const taskTypes = `insert into task_type (type, description, backend_name, default_interval, min_interval, max_interval, backoff_factor, max_queue_length, num_retries, retry_delay) values
	('load-git', '', 'swh.chaos.Git', '1 day', '1 day', '1 day', 1, 150, 5, '1 second'),
	('load-hg', '', 'swh.chaos.Hg', '1 day', '1 day', '1 day', 1, 100, 5, '1 second'),
	('list-chaos', '', 'swh.chaos.List', '1 day', '1 day', '1 day', 1, 100, 5, '1 second'),
	('index-chaos', '', 'swh.chaos.Index', '1 day', '1 day', '1 day', 1, 100, 5, '1 second');
	insert into listers (id, name, instance_name, current_state, updated) values
	('00000000-0000-0000-0000-000000000001', 'github', '', '{}', now()), ('00000000-0000-0000-0000-000000000002', 'gitlab', 'here', '{}', now())`

const configuration = `scheduler: %s
celery: {task_broker: %q}
rabbitmq: {management_url: %q, stats_age: 4 s} # as the nodes collect them each second
queue_full_backoff: 0.5
no_origins_scheduled_backoff: 1
scheduling_policy:
  git: [{policy: oldest_scheduled_first, weight: 1}]
  hg: [{policy: oldest_scheduled_first, weight: 1}]
shares:
  load-git: {by: lister, weights: {github: 50, gitlab: 30}, half_life: 5 min}
lanes:
  load-hg:
  - {name: express, queue: "express:{backend_name}", time_limit: 2 s, slots: 100}
  - {name: slow, time_limit: 10 min, slots: 60}
lost_after: {default: 5 min}
journal:
  brokers: %s
  prefix: chaos
  group_id: chaos
%s`

// access is the access to the RPC servers. The zero value is HTTP without credentials.
type access struct {
	serve  string   // the section rpc_serve of their configuration
	client string   // the text before host:port in a daemon's URL; empty: http://
	env    []string // of the daemons
}

// commands are the daemons, with their numbers. As in production, only the RPC servers have the database, the other
// daemons use it through them, and there are four listeners.
var commands = []struct {
	args   []string
	copies int
}{
	{[]string{"rpc-serve", "--host", "127.0.0.1", "--port"}, 2}, // ports of their own
	{[]string{"start-runner", "--period", "1"}, 2},
	{[]string{"start-runner", "--with-priority", "--period", "1"}, 2},
	{[]string{"schedule-recurrent", "--visit-type", "git", "--visit-type", "hg"}, 2},
	{[]string{"start-listener"}, 4},
	{[]string{"journal-client"}, 2},
}

// child is a process that a fault may end and start again.
type child struct {
	t    *testing.T
	name string
	dir  string // of a worker's module
	argv []string
	env  []string
	log  string // path

	ownClock bool // its clock can be stepped
	clock    clock

	cmd   *exec.Cmd
	from  time.Time     // of the start
	endBy time.Time     // if not zero, it was asked to end, and is killed then
	away  bool          // a fault prevents its start
	runs  int           // starts so far
	pid   atomic.Int64  // of the present process
	done  chan struct{} // closed when it has ended
}

// start starts the process, which dies with the test's own thread, which starts it.
func (c *child) start() {
	c.t.Helper()
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	c.cmd = exec.Command(c.argv[0], c.argv[1:]...)
	c.cmd.Dir, c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = c.dir, append(os.Environ(), c.env...), log, log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Ptrace: c.ownClock}
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	if c.ownClock {
		if c.clock, err = takeClock(c.cmd.Process.Pid); err != nil {
			c.t.Fatal(err)
		}
	}
	done := make(chan struct{})
	c.done = done
	c.from, c.endBy = time.Now(), time.Time{}
	c.runs++
	c.pid.Store(int64(c.cmd.Process.Pid))
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait()
		close(done)
	}(c.cmd)
}

// signal signals the process and its children.
func (c *child) signal(s syscall.Signal) { _ = syscall.Kill(-c.cmd.Process.Pid, s) }

// kill ends the process and its children at once.
func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	<-c.done
}

// stop ends the process with SIGTERM, and kills it if that takes too long.
func (c *child) stop() {
	c.signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(35 * time.Second):
		c.t.Errorf("%s has not stopped after 35 s", c.name)
		c.kill()
	}
}

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// daemon is one of our daemons, with its own proxies to its services.
type daemon struct {
	*child
	database []*testenv.Toxic
	broker   []*testenv.Toxic
	api      *testenv.Toxic
	metrics  string // host:port

	configure func() // writes its configuration, for the present access
}

// cluster has all processes.
type cluster struct {
	t        *testing.T
	dir      string
	broker   *testenv.BrokerCluster
	database *testenv.DatabasePair
	kafka    *throwaway.KafkaCluster
	pool     *pgxpool.Pool // the test's own
	program  string        // the daemons' first program
	access   access
	config   string   // without proxies
	servers  []string // addresses of the RPC servers
	daemons  []*daemon
	workers  []*child
	notes    string // path of the workers' notes
	faults   []fault
	harmed   harmed // the possible losses by faults
	port     int    // the next that may be free
}

// buildProgram builds the program of the present code.
func buildProgram(t *testing.T, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "swh-scheduler")
	if err := testenv.BuildProgram(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// newCluster starts the services and the daemons. The calling goroutine must be locked to its thread.
func newCluster(t *testing.T, dir, program string, how access) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: dir, program: program, access: how, notes: filepath.Join(dir, "notes"), port: 10_000}
	c.kafka = testenv.KafkaCluster(t, 3, nil)
	c.makeTopic()
	c.broker = testenv.RabbitMQCluster(t, 3, brokerSettings...)
	for _, q := range queues {
		c.broker.Nodes[q.node].Declare(q.name, amqp.Table{"x-queue-type": q.kind})
	}
	if disks() {
		c.database = testenv.PostgresPairOnDisks(t, diskMiB)
	} else {
		c.database = testenv.PostgresPair(t)
	}
	c.faults = c.allFaults()
	var err error
	if c.pool, err = pgxpool.New(t.Context(), c.database.DSN()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.pool.Close)
	c.config = c.writeConfig("direct", ofDatabase(c.database.DSN()), c.broker.URL(), c.broker.Nodes[0].ManagementURL)
	if out, err := exec.Command(c.program, "-C", c.config, "migrate", "--door").CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v\n%s", err, out)
	}
	if _, err := c.pool.Exec(t.Context(), taskTypes); err != nil {
		t.Fatal(err)
	}
	if _, err := c.pool.Exec(t.Context(), history); err != nil {
		t.Fatal(err)
	}
	for _, command := range commands {
		for n := range command.copies {
			c.addDaemon(command.args, n+1)
		}
	}
	for n, k := range workerKinds {
		c.addWorker(n, k)
	}
	return c
}

func ofDatabase(dsn string) (scheduler string) {
	return fmt.Sprintf("{cls: postgresql, db: %q}", dsn)
}

func (c *cluster) writeConfig(name, scheduler, broker, management string) (path string) {
	c.t.Helper()
	brokers, err := json.Marshal(c.kafka.Brokers)
	if err != nil {
		c.t.Fatal(err)
	}
	path = filepath.Join(c.dir, name+".yml")
	if err := os.WriteFile(path, fmt.Appendf(nil, configuration, scheduler, broker, management, brokers, c.access.serve), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// addDaemon starts a daemon with its own proxies. It prefers another node of the broker than the daemon before it.
func (c *cluster) addDaemon(args []string, copy int) {
	c.t.Helper()
	n := len(c.daemons)
	d := &daemon{metrics: c.freeAddress()}
	hosts, proxy := c.servers, testenv.Proxy
	if args[0] == "rpc-serve" {
		hosts, proxy = c.database.Hosts(), testenv.DatabaseProxy
	}
	var ways, urls []string
	for _, host := range hosts {
		way := proxy(c.t, host)
		d.database, ways = append(d.database, way), append(ways, way.Addr)
	}
	var scheduler func() string
	if args[0] == "rpc-serve" {
		scheduler = func() string { return ofDatabase(c.database.DSN(ways...)) }
		address := c.freeAddress()
		_, port, _ := net.SplitHostPort(address)
		c.servers, args = append(c.servers, address), append(slices.Clone(args), port)
	} else {
		address := testenv.Balance(c.t, time.Minute, ways...).Addr
		scheduler = func() string {
			return fmt.Sprintf("{cls: remote, url: %q}", cmp.Or(c.access.client, "http://")+address)
		}
	}
	for i := range c.broker.Nodes {
		through, way := testenv.Through(c.t, c.broker.Nodes[(n+i)%len(c.broker.Nodes)].URL, testenv.Proxy)
		d.broker, urls = append(d.broker, way), append(urls, through)
	}
	management, api := testenv.Through(c.t, c.broker.Nodes[n%len(c.broker.Nodes)].ManagementURL, testenv.Proxy)
	d.api = api
	name := fmt.Sprintf("%s %d", args[0], copy)
	if slices.Contains(args, "--with-priority") {
		name = fmt.Sprintf("%s with priority %d", args[0], copy)
	}
	file := strings.ReplaceAll(name, " ", "-")
	var config string
	d.configure = func() { config = c.writeConfig(file, scheduler(), strings.Join(urls, ";"), management) }
	d.configure()
	d.child = &child{
		t: c.t, name: name, log: filepath.Join(c.dir, file+".log"),
		argv: append([]string{c.program, "-C", config, "--metrics-addr", d.metrics}, args...),
		env:  append([]string{testenv.ProgramEnv}, c.access.env...), ownClock: ownClocks,
	}
	d.start()
	c.daemons = append(c.daemons, d)
	c.t.Cleanup(d.kill)
}

// freeAddress returns an address without a listener, another one each time, below the ports of outgoing connections.
func (c *cluster) freeAddress() string {
	c.t.Helper()
	for ; c.port < 11_000; c.port++ {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", c.port)); err == nil {
			defer func() { _ = l.Close() }()
			c.port++
			return l.Addr().String()
		}
	}
	c.t.Fatal("no free port")
	return ""
}

// awaitReady waits until all daemons are ready.
func (c *cluster) awaitReady(w *watcher) {
	c.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for _, d := range c.daemons {
		for !w.ready(c.t.Context(), d) {
			if time.Now().After(deadline) {
				log, _ := os.ReadFile(d.log)
				c.t.Fatalf("%s is not ready; its log ends:\n%s", d.name, log[max(0, len(log)-2000):])
			}
			<-time.After(200 * time.Millisecond)
		}
	}
}
