package chaos

import (
	"context"
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
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"swh-scheduler/internal/services"
	"swh-scheduler/internal/testenv"
)

// queue is a queue of the test.
type queue struct {
	name  string
	kind  string // quorum or classic
	node  int    // its home; a quorum queue is on all
	limit int
}

// queues are those of two visit types and two task types, and of the workers' events.
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
	('load-git', '', 'swh.chaos.Git', '1 day', '1 day', '1 day', 1, 150, 0, '1 day'),
	('load-hg', '', 'swh.chaos.Hg', '1 day', '1 day', '1 day', 1, 100, 0, '1 day'),
	('list-chaos', '', 'swh.chaos.List', '1 day', '1 day', '1 day', 1, 100, 0, '1 day'),
	('index-chaos', '', 'swh.chaos.Index', '1 day', '1 day', '1 day', 1, 100, 0, '1 day');
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
journal:
  brokers: %s
  prefix: chaos
  group_id: chaos
`

// commands are the daemons; each runs twice. As in production, only the RPC servers have the
// database, and the other daemons reach it through them.
var commands = [][]string{
	{"rpc-serve", "--host", "127.0.0.1", "--port"}, // a port of its own
	{"start-runner", "--period", "1"},
	{"start-runner", "--with-priority", "--period", "1"},
	{"schedule-recurrent", "--visit-type", "git", "--visit-type", "hg"},
	{"start-listener"},
	{"journal-client"},
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
	runs  int           // starts so far
	pid   atomic.Int64  // of the present process
	done  chan struct{} // closed when it has ended
}

// start starts the process, which dies with the thread that starts it: the test's own.
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

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// daemon is one of ours, with ways of its own to its services.
type daemon struct {
	*child
	database []*testenv.Toxic
	broker   []*testenv.Toxic
	api      *testenv.Toxic
	metrics  string // host:port
}

// cluster is all that runs.
type cluster struct {
	t        *testing.T
	dir      string
	broker   *testenv.BrokerCluster
	database *testenv.DatabasePair
	kafka    *services.KafkaCluster
	pool     *pgxpool.Pool // the test's own
	program  string
	config   string   // without proxies
	servers  []string // addresses of the RPC servers
	daemons  []*daemon
	workers  []*child
	notes    string // path of what workers note
	port     int    // the next that may be free
}

// newCluster starts the services and the daemons. The calling goroutine must be locked to
// its thread.
func newCluster(t *testing.T, dir string) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: dir, program: filepath.Join(dir, "swh-scheduler"), notes: filepath.Join(dir, "notes"), port: 10_000}
	if err := testenv.BuildProgram(c.program); err != nil {
		t.Fatal(err)
	}
	c.kafka = testenv.KafkaCluster(t, 3, nil)
	c.makeTopic("chaos.origin_visit_status")
	c.broker = testenv.RabbitMQCluster(t, 3)
	for _, q := range queues {
		c.broker.Nodes[q.node].Declare(q.name, amqp.Table{"x-queue-type": q.kind})
	}
	c.database = testenv.PostgresPair(t)
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
	for _, args := range commands {
		for range 2 {
			c.addDaemon(args)
		}
	}
	c.addWorker(0, "quorum")
	c.addWorker(1, "classic")
	return c
}

func (c *cluster) makeTopic(topic string) {
	c.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.kafka.Brokers...))
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 4, 3, nil, topic); err != nil {
		c.t.Fatal(err)
	}
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
	if err := os.WriteFile(path, fmt.Appendf(nil, configuration, scheduler, broker, management, brokers), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// addDaemon starts a daemon with proxies of its own. It prefers another node of the
// broker than the daemon before it.
func (c *cluster) addDaemon(args []string) {
	c.t.Helper()
	n := len(c.daemons)
	d := &daemon{metrics: c.freeAddress()}
	hosts := c.servers
	if args[0] == "rpc-serve" {
		hosts = c.database.Hosts()
	}
	var ways, urls []string
	for _, host := range hosts {
		way := testenv.Proxy(c.t, host)
		d.database, ways = append(d.database, way), append(ways, way.Addr)
	}
	var scheduler string
	if args[0] == "rpc-serve" {
		scheduler = ofDatabase(c.database.DSN(ways...))
		address := c.freeAddress()
		_, port, _ := net.SplitHostPort(address)
		c.servers, args = append(c.servers, address), append(slices.Clone(args), port)
	} else {
		scheduler = fmt.Sprintf("{cls: remote, url: %q}", "http://"+testenv.Balance(c.t, time.Minute, ways...).Addr)
	}
	for i := range c.broker.Nodes {
		through, way := testenv.Through(c.t, c.broker.Nodes[(n+i)%len(c.broker.Nodes)].URL, testenv.Proxy)
		d.broker, urls = append(d.broker, way), append(urls, through)
	}
	management, api := testenv.Through(c.t, c.broker.Nodes[n%len(c.broker.Nodes)].ManagementURL, testenv.Proxy)
	d.api = api
	name := fmt.Sprintf("%s %d", args[0], n%2+1)
	if slices.Contains(args, "--with-priority") {
		name = fmt.Sprintf("%s with priority %d", args[0], n%2+1)
	}
	file := strings.ReplaceAll(name, " ", "-")
	config := c.writeConfig(file, scheduler, strings.Join(urls, ";"), management)
	d.child = &child{
		t: c.t, name: name, log: filepath.Join(c.dir, file+".log"),
		argv: append([]string{c.program, "-C", config, "--metrics-addr", d.metrics}, args...),
		env:  []string{testenv.ProgramEnv}, ownClock: ownClocks,
	}
	d.start()
	c.daemons = append(c.daemons, d)
	c.t.Cleanup(d.kill)
}

// concurrency is how many tasks a worker runs at once.
const concurrency = 6

// addWorker starts a Celery worker of the queues of a kind: with Celery, one whose home is
// away keeps a worker from all of its queues.
func (c *cluster) addWorker(n int, kind string) {
	c.t.Helper()
	kinds := map[string]string{}
	var names []string
	for _, q := range queues {
		if q.limit > 0 && q.kind == kind {
			kinds[q.name], names = q.kind, append(names, q.name)
		}
	}
	list, err := json.Marshal(kinds)
	if err != nil {
		c.t.Fatal(err)
	}
	module, err := filepath.Abs("testdata")
	if err != nil {
		c.t.Fatal(err)
	}
	name := fmt.Sprintf("worker %d", n+1)
	urls := []string{c.broker.Nodes[n].URL, c.broker.Nodes[n+1].URL, c.broker.Nodes[(n+2)%3].URL}
	w := &child{
		t: c.t, name: name, log: filepath.Join(c.dir, fmt.Sprintf("worker-%d.log", n+1)), dir: module,
		argv: []string{testenv.Python(c.t), "-m", "celery", "--app", "chaosworker", "worker", "--hostname", fmt.Sprintf("w%d@chaos", n+1),
			"--queues", strings.Join(names, ","), "--concurrency", fmt.Sprint(concurrency), "--loglevel", "warning", "--without-mingle", "--without-gossip"},
		env: []string{"TEST_BROKER=" + strings.Join(urls, ";"), "TEST_QUEUES=" + string(list), "TEST_NOTES=" + c.notes,
			"TEST_TOPIC=chaos.origin_visit_status", "TEST_KAFKA=" + strings.Join(c.kafka.Brokers, ","), "PYTHONDONTWRITEBYTECODE=1"},
	}
	w.start()
	c.workers = append(c.workers, w)
	c.t.Cleanup(w.kill)
}

// freeAddress returns an address that nobody listens on, another one each time, below the
// ports of outgoing connections.
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

// keepWorkers starts workers that have ended, as systemd does, ten seconds after their last
// start: Celery gives up where a queue's home node is away. It leaves out those that are
// stopped.
func (c *cluster) keepWorkers(stopped func(*child) bool) {
	c.t.Helper()
	for _, w := range c.workers {
		if !w.endBy.IsZero() && time.Now().After(w.endBy) {
			w.kill()
		}
		if w.ended() && !stopped(w) && time.Since(w.from) > 10*time.Second {
			if w.endBy.IsZero() {
				c.t.Logf("%s ended by itself", w.name)
			}
			w.start()
		}
	}
}
