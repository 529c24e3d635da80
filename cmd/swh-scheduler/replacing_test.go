package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/testenv"
	ports "swh-scheduler/internal/testenv/throwaway"
)

// startPeers starts a daemon of the Python scheduler. stop ends it as systemd does.
func startPeers(t *testing.T, config string, args ...string) (stop func()) {
	t.Helper()
	return startPython(t, config, testenv.Swh(t), append([]string{"scheduler"}, args...)...)
}

func startPython(t *testing.T, config, program string, args ...string) (stop func()) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = environment("SWH_CONFIG_FILENAME="+config, "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // our signal ended it
	}()
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience): // killing it would lose work
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	t.Cleanup(stop)
	return stop
}

// replacement is a scheduler whose daemons are replaced one by one, and the work that it has received.
type replacement struct {
	t       *testing.T
	config  string
	conn    *pgx.Conn
	mq      testenv.Broker
	lister  *testenv.Script                         // testdata/lister.py
	produce func(partition int32, values ...[]byte) // writes to the journal

	tasks, origins, days int
}

const replacingLister = "00000000-0000-0000-0000-000000000001"

func (r *replacement) exec(statement string) {
	r.t.Helper()
	testenv.Exec(r.t, r.conn, statement)
}

func (r *replacement) count(query string) int {
	r.t.Helper()
	return testenv.Value[int](r.t, r.conn, query)
}

// startLister starts a Python RPC client.
func (r *replacement) startLister() {
	r.t.Helper()
	r.lister = testenv.StartScript(r.t, environment("PYTHONDONTWRITEBYTECODE=1"), filepath.Join("testdata", "lister.py"))
}

// list creates tasks of two types, a quarter of them with a priority, and records origins. It calls the servers in turn.
func (r *replacement) list(tasks, origins int, servers []string) {
	r.t.Helper()
	type task struct {
		Type     string `json:"type"`
		Number   int    `json:"number"`
		Priority string `json:"priority"`
	}
	job := struct {
		Servers []string `json:"servers"`
		Lister  string   `json:"lister"`
		Tasks   []task   `json:"tasks"`
		Origins []string `json:"origins"`
	}{servers, replacingLister, []task{}, []string{}}
	for n := range tasks {
		job.Tasks = append(job.Tasks, task{[]string{"echo", "echo-too"}[n%2], r.tasks + n, []string{"", "", "", "", "", "", "high", "low"}[n%8]})
	}
	for n := range origins {
		job.Origins = append(job.Origins, fmt.Sprintf("https://x/%d", r.origins+n))
	}
	r.tasks, r.origins = r.tasks+tasks, r.origins+origins
	var wrong int
	if r.lister.Ask(r.t, job, &wrong); wrong > 0 {
		r.t.Fatalf("%d tasks are not as they were made", wrong)
	}
}

// work creates tasks and listed origins, and writes visits of further origins to the journal. It waits until all are
// run, sent and recorded.
func (r *replacement) work(step string, origins int, servers ...string) {
	r.t.Helper()
	const visited = 20
	r.list(40, origins, servers)
	for partition := range int32(2) {
		var values [][]byte
		for origin := int(partition); origin < visited; origin += 2 {
			values = append(values, visitRecord(r.t, origin, r.days, "full"))
		}
		r.produce(partition, values...)
	}
	r.days++
	testenv.Becomes(r.t, step+": completed tasks, scheduled origins, recorded visits", [3]int{r.tasks, r.origins, visited * r.days}, func() [3]int {
		return [3]int{
			r.count("select count(*) from task where status = 'completed'"),
			r.count("select count(*) from origin_visit_stats where last_scheduled is not null"),
			r.count("select coalesce(sum(successive_visits), 0)::int from origin_visit_stats where last_visit is not null"),
		}
	})
	if r.origins > 0 { // the Python scheduler marks origins before it sends them
		awaitMessages(r.t, r.mq.URL, "swh.test.LoadGit", r.origins)
	}
}

// startPeersRunners starts the Python scheduler's runners, one with priority and one without.
func (r *replacement) startPeersRunners(more ...string) (stop func()) {
	r.t.Helper()
	command := append([]string{"start-runner", "--period", "1"}, more...)
	stopRunner, stopPriority := startPeers(r.t, r.config, command...), startPeers(r.t, r.config, append(command, "--with-priority")...)
	return func() {
		stopRunner()
		stopPriority()
	}
}

func (r *replacement) startPeersJournalClient() (stop func()) {
	r.t.Helper()
	return startPython(r.t, r.config, testenv.Python(r.t), filepath.Join("testdata", "journal_client.py"), r.config)
}

// start starts one of our daemons.
func (r *replacement) start(args ...string) *process {
	r.t.Helper()
	return start(r.t, append([]string{"-C", r.config}, args...)...)
}

// stop stops our daemons.
func (r *replacement) stop(daemons ...*process) {
	r.t.Helper()
	for _, p := range daemons {
		p.stop(r.t, syscall.SIGTERM)
	}
}

// startReplacement prepares a database that the Python scheduler created. Its daemons' configuration has the given
// scheduler section, without braces.
func startReplacement(t *testing.T, dsn string, mq testenv.Broker, scheduler string) *replacement {
	t.Helper()
	// If a consumer ends without leaving the group, Kafka waits for the session's time.
	section := journalSection(t, "  consumer_settings: {session.timeout.ms: 6000, heartbeat.interval.ms: 1000}\n")
	conn := testenv.Connect(t, dsn)
	r := &replacement{t: t, conn: conn, mq: mq, produce: journalTopic(t, section), config: configFile(t, fmt.Sprintf(`scheduler: {%s}
celery: {task_broker: %q}
rabbitmq: {management_url: %q}
no_origins_scheduled_backoff: 1
scheduling_policy: {git: [{policy: oldest_scheduled_first, weight: 1}]}
`, scheduler, mq.URL, mq.ManagementURL)+section)}
	r.exec(`insert into task_type (type, description, backend_name, default_interval, num_retries) values
			('echo', '', 'swh.test.Echo', '1 day', 3), ('echo-too', '', 'swh.test.Echo', '1 day', 3);
		insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.test.LoadGit', null);
		insert into listers (id, name, instance_name, current_state, updated) values ('` + replacingLister + `', 'github', '', '{}', now())`)
	r.startLister()
	return r
}

// docs/how-to/replace.md works step by step on a database that the Python scheduler created. Both schedulers' daemons
// run in turn, and in parallel where the page says so. Each task runs once, each origin is sent once, and each visit is
// recorded once.
func TestReplacingThePythonDaemons(t *testing.T) {
	t.Parallel()
	dsn, mq := testenv.PythonDatabase(t), testenv.RabbitMQ(t)
	r := startReplacement(t, dsn, mq, fmt.Sprintf("cls: postgresql, db: %q", dsn))
	worker := startWorker(t, mq.URL, "worker@replacing", "swh.test.Echo,save_code_now:swh.test.Echo")

	stopPeersRunners := r.startPeersRunners()
	stopPeersListener := startPeers(t, r.config, "start-listener")
	stopPeersJournalClient := r.startPeersJournalClient()
	peers, stopPeersServer := stoppablePythonServer(t, "scheduler", dsn)
	r.work("the Python scheduler's alone", 0, peers)

	// Before the replacement, migrate runs beside the Python scheduler's daemons.
	if r := ours(t, "-C", r.config, "migrate"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	if r := ours(t, "-C", r.config, "--option", "rpc_serve.open=true", "config", "check"); r.code != 0 {
		t.Fatal(r.stdout, r.stderr)
	}
	r.work("the Python scheduler's on the prepared database", 0, peers)

	// In parallel: runners on different task types, and the other daemons on all of them.
	listener, journal := r.start("start-listener"), r.start("journal-client")
	listener.logs(t, "reading queue")
	journal.logs(t, "partitions assigned")
	ourURL, server := ourStoppableServer(t, dsn)
	stopPeersRunners()
	stopPeersRunners = r.startPeersRunners("--task-type", "echo")
	runner, priority := r.start("start-runner", "--period", "1", "--task-type", "echo-too"), r.start("start-runner", "--period", "1", "--task-type", "echo-too", "--with-priority")
	r.work("both at once", 0, peers, ourURL)

	stopPeersListener()
	stopPeersJournalClient()
	stopPeersServer()
	r.work("all ours but for a runner", 0, ourURL)
	stopPeersRunners()
	r.stop(runner, priority)
	runner, priority = r.start("start-runner", "--period", "1"), r.start("start-runner", "--period", "1", "--with-priority")
	recurrent := r.start("schedule-recurrent", "--visit-type", "git")
	r.work("ours alone", 30, ourURL)

	// Back to the Python scheduler.
	r.stop(runner, priority, recurrent, listener, journal, server)
	doors.stop(t)
	if n := r.count("select count(*) from scheduler_go.work where state = 'outgoing'"); n > 0 {
		t.Errorf("%d messages are still outgoing", n)
	}
	stopPeersListener = startPeers(t, r.config, "start-listener")
	stopPeersRunners = r.startPeersRunners()
	stopPeersRecurrent := startPeers(t, r.config, "schedule-recurrent", "--visit-type", "git")
	r.startPeersJournalClient()
	peers, _ = stoppablePythonServer(t, "scheduler", dsn)
	r.work("the Python scheduler's again", 30, peers)
	if removed := ours(t, "--database", dsn, "migrate", "--remove"); removed.code != 0 {
		t.Errorf("migrate --remove: %+v", removed)
	}
	r.work("the Python scheduler's, with nothing of ours left", 30, peers)

	// From here on, nothing is sent or run.
	stopPeersRunners()
	stopPeersRecurrent()
	stopPeersListener()
	worker.stop()
	r.checkAll(mq, worker.notes())
}

// checkAll fails unless each task ran once, each origin was sent once, and no message is left in a queue.
func (r *replacement) checkAll(mq testenv.Broker, notes []note) {
	r.t.Helper()
	r.checkTasks(notes)
	channel := testenv.Channel(r.t, mq.URL)
	for _, queue := range []string{"swh.test.Echo", "save_code_now:swh.test.Echo"} {
		if left := testenv.Take(r.t, channel, queue); len(left) > 0 {
			r.t.Errorf("%d messages are left in queue %s", len(left), queue)
		}
	}
	r.checkOrigins(testenv.Take(r.t, channel, "swh.test.LoadGit"))
}

// As in production, only the RPC server has the database; all daemons share one file with cls: remote. The schedulers
// replace each other four times, in the order of docs/how-to/replace.md. The Python daemons also use our RPC server.
// Each task runs once, each origin is sent once, and each visit is recorded once.
func TestReplacingOnAnRPCServer(t *testing.T) {
	t.Parallel()
	dsn, mq := testenv.PythonDatabase(t), testenv.RabbitMQ(t)
	free, err := ports.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprint(free[0])
	url := "http://127.0.0.1:" + port + "/"
	r := startReplacement(t, dsn, mq, fmt.Sprintf("cls: remote, url: %q", url))
	worker := startWorker(t, mq.URL, "worker@replacing", "swh.test.Echo,save_code_now:swh.test.Echo")
	startAll := func() (stop func()) {
		t.Helper()
		stops := []func(){r.startPeersRunners(), startPeers(t, r.config, "start-listener"), startPeers(t, r.config, "schedule-recurrent", "--visit-type", "git"), r.startPeersJournalClient()}
		return func() {
			for _, stop := range stops {
				stop()
			}
		}
	}
	peersServer := func() (stop func()) {
		t.Helper()
		_, stop = stoppablePythonServer(t, "scheduler", dsn, port)
		return stop
	}
	stopServer := peersServer()
	stopPeers := startAll()
	r.work("the Python scheduler's alone", 30, url)
	for _, round := range []string{"first", "second"} {
		openDoor(t, dsn)
		stopServer()
		server := start(t, "-d", dsn, "rpc-serve", "--host", "127.0.0.1", "--port", port)
		server.logs(t, "msg=listening")
		r.work(round+": the Python daemons on our RPC server", 30, url)
		stopPeers()
		daemons := []*process{r.start("start-runner", "--period", "1"), r.start("start-runner", "--period", "1", "--with-priority"), r.start("start-listener"), r.start("schedule-recurrent", "--visit-type", "git"), r.start("journal-client")}
		r.work(round+": ours alone", 30, url)
		r.stop(daemons...)
		if n := r.count("select count(*) from scheduler_go.work where state = 'outgoing'"); n > 0 {
			t.Errorf("%s: %d messages are still outgoing", round, n)
		}
		stopPeers = startAll()
		r.work(round+": the Python daemons on our RPC server again", 30, url)
		r.stop(server)
		stopServer = peersServer()
		r.work(round+": the Python scheduler's again", 30, url)
	}
	stopPeers()
	worker.stop()
	r.checkAll(mq, worker.notes())
}

// checkTasks fails unless each task has one run and a worker noted it once.
func (r *replacement) checkTasks(notes []note) {
	r.t.Helper()
	// A late event may make the Python scheduler's listener set a run back to started. Its end remains.
	runs := testenv.Column[string](r.t, r.conn, `select r.backend_id || ' of ' || (t.arguments -> 'args' ->> 0) || case when r.ended is not null and r.status in ('eventful', 'started') then '' else ', which did not end well' end
		from task t left join task_run r on r.task = t.id`)
	ran := make([]string, len(notes))
	tasks := map[string]bool{}
	for i, note := range notes {
		if len(note.Args) != 1 {
			r.t.Fatalf("task %s has arguments %s", note.ID, note.Args)
		}
		ran[i] = note.ID + " of " + string(note.Args[0])
		tasks[string(note.Args[0])] = true
	}
	slices.Sort(runs)
	slices.Sort(ran)
	if !slices.Equal(runs, ran) || len(tasks) != r.tasks || len(runs) != r.tasks {
		r.t.Errorf("%d tasks; runs that workers did not note: %q; notes without a run: %q", r.tasks, without(runs, ran), without(ran, runs))
	}
}

// checkOrigins fails unless one visit of each origin was sent.
func (r *replacement) checkOrigins(visits []amqp.Delivery) {
	r.t.Helper()
	var want, sent []string
	ids := map[string]bool{}
	for n := range r.origins {
		want = append(want, fmt.Sprintf("https://x/%d", n))
	}
	for _, visit := range visits {
		var kwargs struct{ URL string }
		if err := json.Unmarshal(visit.Body, &[]any{new(any), &kwargs, new(any)}); err != nil {
			r.t.Fatalf("%v: %s", err, visit.Body)
		}
		sent = append(sent, kwargs.URL)
		ids[visit.CorrelationId] = true
	}
	slices.Sort(want)
	slices.Sort(sent)
	if !slices.Equal(want, sent) || len(ids) != len(want) {
		r.t.Errorf("%d origins, sent with %d task ids; not sent: %q; sent beside: %q", r.origins, len(ids), without(want, sent), without(sent, want))
	}
}

// without returns the multiset difference of two lists.
func without(all, others []string) (more []string) {
	left := map[string]int{}
	for _, s := range others {
		left[s]++
	}
	for _, s := range all {
		if left[s]--; left[s] < 0 {
			more = append(more, s)
		}
	}
	return more
}
