package runner_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/runner"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/postgres"
)

// world is a database with tasks and a broker for one runner, ours or the Python scheduler's.
type world struct {
	dsn    string
	broker testenv.Broker
	store  *db.Store
	python string // the Python scheduler's command
	file   string // of the configuration
	celery config.Celery
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, "")
}

// newWorldWith makes a world with more settings in the section celery.
func newWorldWith(t *testing.T, settings string) *world {
	t.Helper()
	w := &world{dsn: testenv.PythonDatabase(t), broker: testenv.RabbitMQ(t), python: testenv.Swh(t)}
	w.file = testenv.File(t, "scheduler.yml", fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q, %s}\n", w.dsn, w.broker.URL, settings))
	c, _, err := config.Load(w.file)
	if err != nil {
		t.Fatal(err)
	}
	w.celery = c.Celery
	testenv.Migrate(t, w.dsn, migrate.Options{})
	w.store = testenv.Open(t, w.dsn, postgres.Options{Command: "test"}).With(db.Rules{Route: w.celery.Route()})
	for _, statement := range fixture {
		testenv.Exec(t, w.store.Pool(), statement)
	}
	return w
}

// fixture has tasks in every state a runner looks at: other statuses, dates to
// come, priorities, types with and without a limit (one that the Python scheduler's stale figures
// can't overrun).
var fixture = []string{
	`insert into task_type (type, description, backend_name, max_queue_length) values
		('list-a', '', 'swh.lister.a.tasks.Full', 20),
		('list-b', '', 'swh.lister.b.tasks.Full', null),
		('load-git', '', 'swh.loader.git.tasks.Update', 1000),
		('other', '', 'not.a.swh.task', 0)`,
	`insert into task (type, arguments, next_run, current_interval, status, policy, priority)
	 select type, jsonb_build_object('args', jsonb_build_array(n, n || '.50'::text), 'kwargs', jsonb_build_object('url', 'https://x/' || n, 'big', 1180591620717411303424 + n, 'f', 1.10)),
	        '2026-01-01T00:00Z'::timestamptz + n * interval '1 second', '1 day', status, policy, priority
	 from unnest(array['list-a', 'list-b', 'load-git', 'other']) type,
	      unnest(enum_range(null::task_status)) status,
	      unnest(enum_range(null::task_policy)) policy,
	      (select unnest(enum_range(null::task_priority)) union all select null) p(priority),
	      generate_series(1, 3) n`,
	`insert into task (type, arguments, next_run, current_interval, status) values
		('load-git', '{"args": [], "kwargs": {}}', '2100-01-01', '1 day', 'next_run_not_scheduled')`,
}

// state returns what a runner leaves: tasks, and runs without the columns that must differ.
func (w *world) state(t *testing.T) []string {
	t.Helper()
	return testenv.Column[string](t, w.store.Pool(), `
		select t.id || ' ' || t.status || ' ' || t.next_run || ' ' || t.retries_left from task t
		union all
		select r.task || ' ' || r.status || ' ' || (r.backend_id is not null) || ' ' || (r.scheduled between now() - interval '5 min' and now())
			|| ' ' || coalesce(r.started::text, '-') || ' ' || coalesce(r.ended::text, '-') || ' ' || coalesce(r.metadata::text, '-')
		from task_run r order by 1`)
}

var queues = func() (names []string) {
	for _, backend := range []string{"swh.lister.a.tasks.Full", "swh.lister.b.tasks.Full", "swh.loader.git.tasks.Update", "not.a.swh.task", "celery", "routed", "others"} {
		names = append(names, backend, "save_code_now:"+backend)
	}
	return names
}()

// messages empties the runners' queues and checks that each message belongs to a run.
func (w *world) messages(t *testing.T) map[string][]string {
	t.Helper()
	return w.drain(t, queues, func(id string) {
		if runs := testenv.Value[int](t, w.store.Pool(), "select count(*) from task_run where backend_id = $1", id); runs != 1 {
			t.Errorf("message %s belongs to %d runs", id, runs)
		}
	})
}

// bodies empties queues.
func (w *world) bodies(t *testing.T, queues []string) map[string][]string {
	t.Helper()
	return w.drain(t, queues, func(string) {})
}

// drain empties queues and returns the bodies by queue, sorted, because the fixtures have ties.
func (w *world) drain(t *testing.T, queues []string, check func(id string)) map[string][]string {
	t.Helper()
	got := w.inOrder(t, queues, check)
	for _, bodies := range got {
		slices.Sort(bodies)
	}
	return got
}

// inOrder is drain with the bodies in order of arrival.
func (w *world) inOrder(t *testing.T, queues []string, check func(id string)) map[string][]string {
	t.Helper()
	got := make(map[string][]string)
	w.take(t, queues, func(queue string, d amqp.Delivery) {
		got[queue] = append(got[queue], fmt.Sprintf("%v %s", d.Headers["task"], d.Body))
		check(d.CorrelationId)
	})
	return got
}

// take empties queues. They may be missing.
func (w *world) take(t *testing.T, queues []string, each func(queue string, d amqp.Delivery)) {
	t.Helper()
	conn, err := amqp.Dial(w.broker.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, queue := range queues {
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		for {
			d, ok, err := ch.Get(queue, true)
			if err != nil || !ok { // no such queue, or empty
				break
			}
			each(queue, d)
		}
	}
}

func (w *world) runPeer(t *testing.T, args ...string) {
	t.Helper()
	if err := w.tryPeer(t, args...); err != nil {
		t.Fatal(err)
	}
}

// tryPeer is runPeer for goroutines, which may not end the test.
func (w *world) tryPeer(t *testing.T, args ...string) error {
	cmd := exec.CommandContext(t.Context(), w.python, append([]string{"scheduler", "start-runner"}, args...)...)
	cmd.Env = append(os.Environ(), testenv.EndsConnections(), "SWH_CONFIG_FILENAME="+w.file)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the Python scheduler's runner: %w\n%s", err, out)
	}
	return nil
}

// unheard gives up work that nothing else ends.
func (w *world) unheard(t *testing.T) *maintenance.GiveUpWork {
	t.Helper()
	return &maintenance.GiveUpWork{Store: w.store, Broker: inspectorOf(t, w.broker), Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
}

func (w *world) runOurs(t *testing.T, o runner.Options) (claimed int) {
	t.Helper()
	claimed, err := w.tryOurs(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return claimed
}

// tryOurs is runOurs for goroutines, which may not end the test.
func (w *world) tryOurs(t *testing.T, o runner.Options) (claimed int, err error) {
	address, err := celery.ParseBroker(w.broker.URL, false, nil)
	if err != nil {
		return 0, err
	}
	publisher := celery.NewPublisher(address, celery.PublisherOptions{Sending: w.celery.Sending})
	defer publisher.Close()
	inspector := celery.NewQueueInspector(address, w.broker.ManagementURL, celery.InspectorOptions{})
	defer inspector.Close()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	d := dispatch.NewDeliverer(w.store, publisher, log, prometheus.NewRegistry())
	o.Store, o.Log, o.Reg = w.store, log, prometheus.NewRegistry()
	o.Slots = dispatch.NewSlots(w.store, inspector, d.Wake)
	done := make(chan struct{})
	var claimErr error
	go func() {
		defer close(done)
		claimed, claimErr = runner.New(o).Drain(t.Context())
	}()
	_, err = d.DrainUntil(t.Context(), done)
	<-done
	return claimed, errors.Join(err, claimErr)
}

// On the same tasks our runner leaves the same rows and messages as the Python scheduler's, with each combination
// of its options.
func TestRunnerLeavesWhatThePeerLeaves(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		settings string
		args     []string
		options  runner.Options
	}{
		"all types":                        {"", nil, runner.Options{}},
		"with priority, some with a route": {"task_routes: {not.*: {queue: routed, priority: 3}}", []string{"--with-priority"}, runner.Options{WithPriority: true}},
		"named types, some with a route": {"task_routes: {swh.lister.*: {queue: routed, priority: 3}}, task_default_queue: others",
			[]string{"--task-type", "list-b", "--task-type", "other"}, runner.Options{TaskTypes: []string{"list-b", "other"}}},
		"patterns": {"", []string{"--task-type-pattern", "li", "--task-type-pattern", "lo"}, runner.Options{TaskTypePatterns: []string{"li", "lo"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			theirs, ours := newWorldWith(t, tc.settings), newWorldWith(t, tc.settings)
			theirs.runPeer(t, tc.args...)
			if n := ours.runOurs(t, tc.options); n == 0 {
				t.Fatal("nothing was claimed")
			}
			if diff := cmp.Diff(theirs.state(t), ours.state(t)); diff != "" {
				t.Errorf("rows (-peer +ours):\n%s", diff)
			}
			if diff := cmp.Diff(theirs.messages(t), ours.messages(t)); diff != "" {
				t.Errorf("messages (-peer +ours):\n%s", diff)
			}
		})
	}
}

// Concurrent runners of both programs give each task one run and one message.
func TestRunnersAtOnceSendEachTaskOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	testenv.Exec(t, w.store.Pool(), `insert into task (type, arguments, next_run, current_interval, status, priority)
		select 'list-b', '{"args": [], "kwargs": {}}', '2026-01-01', '1 day', 'next_run_not_scheduled', case when n % 3 = 0 then 'low'::task_priority end
		from generate_series(1, 3000) n`)
	counts := make(chan int)
	const runners = 6
	for i := range runners {
		go func() {
			n, err := w.tryOurs(t, runner.Options{WithPriority: i%2 == 0})
			if err != nil {
				t.Error(err)
			}
			counts <- n
		}()
	}
	claimed := 0
	for range runners {
		claimed += <-counts
	}
	var runs, tasks int
	if err := w.store.Pool().QueryRow(t.Context(), "select count(*), count(distinct task) from task_run").Scan(&runs, &tasks); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for _, messages := range w.messages(t) {
		sent += len(messages)
	}
	if claimed < 3000 || runs != claimed || tasks != claimed || sent != claimed {
		t.Errorf("%d claimed, %d runs of %d tasks, %d messages", claimed, runs, tasks, sent)
	}
}

// A runner stops claiming while too many messages are outgoing, and continues when there is room. So tasks are not
// marked as scheduled long before they are sent.
func TestRunnerWaitsForDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	exec := func(statement string) {
		t.Helper()
		testenv.Exec(t, w.store.Pool(), statement)
	}
	exec(`truncate task cascade`)
	exec(`insert into task (type, arguments, next_run, current_interval, status)
		select 'list-b', '{"args": [], "kwargs": {}}', '2026-01-01', '1 day', 'next_run_not_scheduled' from generate_series(1, 25000)`)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	r := runner.New(runner.Options{
		Store: w.store, Log: log, Reg: prometheus.NewRegistry(), Period: time.Hour,
		Slots: dispatch.NewSlots(w.store, inspectorOf(t, w.broker), func() {}),
	})
	stop := testenv.Run(t, r.Run)
	waiting := func() int {
		t.Helper()
		return testenv.Value[int](t, w.store.Pool(), "select count(*) from scheduler_go.work where state = 'outgoing'")
	}
	for _, want := range []int{dispatch.MaxClaim, dispatch.MaxClaim, 5000} {
		testenv.Becomes(t, "outgoing messages", want, waiting)
		exec("delete from scheduler_go.work") // as delivery does
	}
	stop()
}

// Beside a Python runner, ours sends each task that it claims once, with its own run. Together they claim every
// task. The Python runner may end before the broker has its last messages, which are then lost.
func TestRunnerBesideThePeers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	testenv.Exec(t, w.store.Pool(), `insert into task (type, arguments, next_run, current_interval, status)
		select 'list-b', '{"args": [], "kwargs": {}}', '2026-01-01', '1 day', 'next_run_not_scheduled' from generate_series(1, 15000)`)
	peer := make(chan error, 1)
	go func() { peer <- w.tryPeer(t) }()
	for begun := false; !begun; { // the Python scheduler writes the runs of 10,000 tasks before it sends them
		begun = testenv.Value[bool](t, w.store.Pool(), "select exists (select from task_run)")
		select {
		case err := <-peer:
			t.Fatalf("the Python scheduler's runner ended before it was seen to begin: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	claimed := w.runOurs(t, runner.Options{})
	if err := <-peer; err != nil {
		t.Fatal(err)
	}
	claimed += w.runOurs(t, runner.Options{})
	var unscheduled, runs, tasks int
	if err := w.store.Pool().QueryRow(t.Context(), `select
		(select count(*) from task where status = 'next_run_not_scheduled' and next_run < now() and priority is null),
		count(*), count(distinct task) from task_run`).Scan(&unscheduled, &runs, &tasks); err != nil {
		t.Fatal(err)
	}
	sent := make(map[string]int) // messages by task id
	ours := 0
	w.take(t, queues, func(_ string, d amqp.Delivery) {
		sent[d.CorrelationId]++
		if strings.HasPrefix(fmt.Sprint(d.Headers["origin"]), fmt.Sprintf("gen%d@", os.Getpid())) {
			ours++
		}
	})
	for id, n := range sent {
		if n != 1 {
			t.Errorf("%d messages have the id %s", n, id)
		}
	}
	ofRuns := testenv.Value[int](t, w.store.Pool(), "select count(*) from task_run where backend_id = any($1)", slices.Collect(maps.Keys(sent)))
	if unscheduled != 0 || tasks < 15000 || ours != claimed || ofRuns != len(sent) {
		t.Errorf("%d tasks left; %d tasks have runs; %d messages of %d claimed tasks; %d messages belong to %d runs", unscheduled, tasks, ours, claimed, len(sent), ofRuns)
	}
	if claimed == 0 || runs <= claimed {
		t.Errorf("%d of %d runs are ours: the runners did not work beside each other", claimed, runs)
	}
	t.Logf("ours claimed %d of %d tasks; the Python scheduler, which doesn't look, sent %d of them too", claimed, tasks, runs-tasks)
}
