package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"swh-scheduler/internal/testenv"
)

// graphRoom is a database, a broker and a configuration, with task types for the steps of graphs. The queue of each type
// holds stepLimit messages.
type graphRoom struct {
	t      *testing.T
	dsn    string
	pool   *pgxpool.Pool
	broker testenv.Broker
	config string
}

// withBroker returns the configuration with another URL of the broker.
func (r *graphRoom) withBroker(url string) (config string) {
	r.t.Helper()
	text := testenv.Read(r.t, r.config)
	return configFile(r.t, strings.Replace(string(text), strconv.Quote(r.broker.URL), strconv.Quote(url), 1))
}

const stepLimit = 100

// patience is how long a test waits for a state on a busy machine.
const patience = 90 * time.Second

func newGraphRoom(t *testing.T) *graphRoom {
	t.Helper()
	dsn, broker := testenv.Database(t), testenv.RabbitMQ(t)
	pool := testenv.Open(t, dsn).Pool()
	r := &graphRoom{t: t, dsn: dsn, pool: pool, broker: broker, config: configFile(t, fmt.Sprintf(
		"scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n",
		dsn, broker.URL, broker.ManagementURL))}
	testenv.Exec(t, pool, `insert into task_type
			(type, description, backend_name, default_interval, min_interval, max_interval, backoff_factor, max_queue_length)
		values ('step', '', 'swh.test.graph.Step', '1 day', '1 day', '1 day', 1, $1),
		       ('fail', '', 'swh.test.graph.Fail', '1 day', '1 day', '1 day', 1, $1)`, stepLimit)
	return r
}

// overRPC returns the room with commands that use our RPC server.
func (r *graphRoom) overRPC() *graphRoom {
	remote := *r
	remote.config = configFile(r.t, fmt.Sprintf("scheduler: {cls: remote, url: %q}\n", ourServer(r.t, r.dsn)))
	return &remote
}

// onBoth runs a test with a database and with an RPC server.
func onBoth(t *testing.T, do func(t *testing.T, r *graphRoom)) {
	t.Parallel()
	t.Run("database", func(t *testing.T) { do(t, newGraphRoom(t)) })
	t.Run("server", func(t *testing.T) { do(t, newGraphRoom(t).overRPC()) })
}

// run runs a command that must succeed, and returns its output.
func (r *graphRoom) run(args ...string) string {
	r.t.Helper()
	result := ours(r.t, append([]string{"-l", "error", "-C", r.config}, args...)...)
	if result.code != 0 || result.stderr != "" {
		r.t.Fatalf("%q: exit code %d\n%s", args, result.code, result.stderr)
	}
	return result.stdout
}

// runJSON is run for a command with --output json.
func (r *graphRoom) runJSON(into any, args ...string) {
	r.t.Helper()
	text := r.run(append(args, "--output", "json")...)
	if err := json.Unmarshal([]byte(text), into); err != nil {
		r.t.Fatalf("%q: %v\n%s", args, err, text)
	}
}

type submittedGraph struct {
	Graph int64
	Tasks map[string]int64
}

// submit submits a graph in YAML.
func (r *graphRoom) submit(text string) submittedGraph {
	r.t.Helper()
	return r.send(text, "submit")
}

// send runs a command of task graph with a graph in YAML as input.
func (r *graphRoom) send(text string, command ...string) (s submittedGraph) {
	r.t.Helper()
	path := testenv.File(r.t, "graph.yml", text)
	r.runJSON(&s, append(append([]string{"task", "graph"}, command...), path)...)
	return s
}

// await waits until a graph has the given counts of states.
func (r *graphRoom) await(graph int64, want map[string]int) {
	r.t.Helper()
	r.awaitFor(patience, graph, want)
}

func (r *graphRoom) awaitFor(patience time.Duration, graph int64, want map[string]int) {
	r.t.Helper()
	var report struct{ States map[string]int }
	for end := time.Now().Add(patience); ; pause(200 * time.Millisecond) {
		r.runJSON(&report, "task", "graph", "status", strconv.FormatInt(graph, 10))
		reached := true
		for state, n := range want {
			reached = reached && report.States[state] == n
		}
		if reached {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("graph %d stands at %v, want %v", graph, report.States, want)
		}
	}
}

func (r *graphRoom) count(query string, args ...any) int {
	r.t.Helper()
	return testenv.Value[int](r.t, r.pool, query, args...)
}

// startWorker runs a real Celery worker for the steps until the test ends.
func (r *graphRoom) startWorker() *notedWorker {
	r.t.Helper()
	testenv.ListenerQueue(r.t, r.broker.URL)
	cmd := exec.Command(testenv.Python(r.t), "-m", "celery", "--app", "graphworker", "worker",
		"--hostname", "worker@graphs", "--queues", "swh.test.graph.Step,swh.test.graph.Fail", "--concurrency", "2", "--loglevel", "warning")
	cmd.Dir = "testdata"
	cmd.Env = append(os.Environ(), "TEST_BROKER="+r.broker.URL, "PYTHONDONTWRITEBYTECODE=1")
	return startNotedWorker(r.t, cmd)
}

// inOrder fails unless each run was sent once, after all dependencies of its task had ended.
func (r *graphRoom) inOrder() {
	r.t.Helper()
	early := r.count(`select count(*) from scheduler_go.graph_edges e
		join task_run r on r.task = e.task
		join task_run d on d.task = e.depends_on
		where e.task <> e.depends_on and (d.ended is null or r.scheduled < d.ended)`)
	again := r.count(`select count(*) from (select task from task_run group by task having count(*) > 1) x`)
	if early > 0 || again > 0 {
		r.t.Errorf("%d dependencies had not ended when the task was sent; %d tasks were sent again", early, again)
	}
}

// ranOnceInOrder fails unless the worker ran each run once, after all dependencies of its task, and nothing else.
func (r *graphRoom) ranOnceInOrder(w *notedWorker) {
	r.t.Helper()
	place := make(map[string]int) // position of a run, by the id of its message
	for i, n := range w.notes() {
		if _, twice := place[n.ID]; twice {
			r.t.Errorf("message %s ran twice", n.ID)
		}
		place[n.ID] = i
	}
	runs := testenv.Column[string](r.t, r.pool, "select backend_id from task_run")
	for _, id := range runs {
		if _, ran := place[id]; !ran {
			r.t.Errorf("message %s never ran", id)
		}
	}
	if len(place) != len(runs) {
		r.t.Errorf("%d messages ran, for %d runs", len(place), len(runs))
	}
	pairs := testenv.Column[string](r.t, r.pool, `select d.backend_id || ' ' || r.backend_id from scheduler_go.graph_edges e
		join task_run r on r.task = e.task join task_run d on d.task = e.depends_on where e.task <> e.depends_on`)
	for _, pair := range pairs {
		before, after, _ := strings.Cut(pair, " ")
		if place[before] > place[after] {
			r.t.Errorf("message %s ran before %s", after, before)
		}
	}
	r.t.Logf("%d runs of %d dependencies in %s: each ran once, after what it depends on", len(runs), len(pairs),
		testenv.Value[time.Duration](r.t, r.pool, "select max(ended) - min(scheduled) from task_run").Round(time.Second))
}

// wideSize is the size of the design's examples, or SWH_TEST_GRAPH_SIZE: 10000 is the promised size. The default is
// smaller.
func wideSize(t *testing.T) int {
	t.Helper()
	text := os.Getenv("SWH_TEST_GRAPH_SIZE")
	if text == "" {
		return 300
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// wide returns one task, n tasks that depend on it, and one that depends on all of these.
func wide(n int) string {
	var b, all strings.Builder
	b.WriteString("name: wide\ntasks:\n- {name: first, type: step}\n")
	for i := range n {
		fmt.Fprintf(&b, "- {name: n%d, type: step, depends_on: [first]}\n", i)
		fmt.Fprintf(&all, "n%d,", i)
	}
	fmt.Fprintf(&b, "- {name: last, type: step, depends_on: [%s]}\n", strings.TrimSuffix(all.String(), ","))
	return b.String()
}

// The design's graphs run on a real broker, real workers, two listeners and both runners: a chain, a diamond, fan-out,
// fan-in, a task that depends on itself, and a failure.
func TestGraphsOnRealServices(t *testing.T) {
	t.Parallel()
	r := newGraphRoom(t)
	worker := r.startWorker()
	for _, args := range [][]string{
		{"start-runner", "--period", "1"}, {"start-runner", "--period", "1", "--with-priority"},
		{"start-listener"}, {"start-listener"},
	} {
		p := start(t, append([]string{"-C", r.config}, args...)...)
		p.logs(t, "msg=started")
	}
	n := wideSize(t)

	many := r.submit(wide(n))
	chain := "tasks:\n- {name: c0, type: step}\n"
	for i := range 9 {
		chain += fmt.Sprintf("- {name: c%d, type: step, depends_on: [c%d]}\n", i+1, i)
	}
	line := r.submit(chain)
	diamond := r.submit(`tasks:
- {name: bottom, type: step, depends_on: [left, right]}
- {name: left, type: step, depends_on: [top]}
- {name: right, type: step, depends_on: [top], args: ["{{ task.top.id }}"], kwargs: {of: "after {{ task.top.id }}"}}
- {name: top, type: step}
`)
	failing := r.submit(`tasks:
- {name: bad, type: fail}
- {name: good, type: step}
- {name: needs, type: step, depends_on: [good, bad]}
- {name: needs-that, type: step, depends_on: [needs]}
- {name: report, type: step, depends_on: [needs-that, good], requires: all-resolved}
- {name: clean-up, type: step, depends_on: [good, {task: needs-that, on: failed}]}
- {name: without-good, type: step, depends_on: [{task: good, on: failed}]}
`)
	manual := r.submit(`tasks:
- {name: build, type: step}
- {name: approve, type: step, depends_on: [approve, build]}
- {name: publish, type: step, depends_on: [approve]}
`)
	// This graph's task waits for tasks of other graphs.
	after := r.submit(fmt.Sprintf("tasks:\n- {name: after, type: step, depends_on: [%d, %d]}\n", line.Tasks["c9"], diamond.Tasks["bottom"]))

	// The first tasks of the others wait for a slot behind the n tasks of this graph.
	r.awaitFor(testenv.Patience+time.Duration(n)*30*time.Millisecond, line.Graph, map[string]int{"completed": 10})
	r.await(diamond.Graph, map[string]int{"completed": 4})
	// The worker received the task's number alone, and within a text.
	handed := fmt.Sprintf(`[%d] {"of": "after %[1]d"}`, diamond.Tasks["top"])
	if !slices.ContainsFunc(worker.notes(), func(n note) bool { return fmt.Sprintf("%s %s", n.Args, n.Kwargs) == handed }) {
		t.Errorf("no task was handed %s", handed)
	}
	r.await(after.Graph, map[string]int{"completed": 1})
	r.await(failing.Graph, map[string]int{"completed": 3, "failed": 1, "dependency": 2, "skipped": 1})
	r.await(manual.Graph, map[string]int{"completed": 1, "waiting": 2})
	testenv.Becomes(t, "the join of many is completed", 1, func() int {
		sent := r.count(`select count(*) from task_run r join task t on t.id = r.task
			where t.type = 'step' and r.status = 'scheduled' and not exists (
				select from scheduler_go.work o where o.state = 'outgoing' and o.task_id::text = r.backend_id)`)
		// Two are running, and as many may have ended without a recorded event.
		if sent > 2*stepLimit {
			t.Errorf("%d messages are in a queue for %d", sent, stepLimit)
		}
		return r.count(`select count(*) from task where id = $1 and status = 'completed'`, many.Tasks["last"])
	})
	r.await(many.Graph, map[string]int{"completed": n + 2})

	// The graph is extended while it waits.
	more := r.send("{tasks: [{name: sign, type: step, depends_on: [approve]}], add_dependencies: {publish: [sign]}, remove_dependencies: {publish: [approve]}}",
		"extend", strconv.FormatInt(manual.Graph, 10))
	if more.Graph != manual.Graph || len(more.Tasks) != 1 {
		t.Errorf("extended: %+v", more)
	}
	if text := r.run("task", "graph", "release", strconv.FormatInt(manual.Tasks["approve"], 10)); !strings.Contains(text, "approve") {
		t.Errorf("release says %q", text)
	}
	r.await(manual.Graph, map[string]int{"completed": 4})
	r.inOrder()
	r.ranOnceInOrder(worker)

	// An operator repairs and retries the failed task, and its dependents run.
	testenv.Exec(t, r.pool, "update task set type = 'step' where id = $1", failing.Tasks["bad"])
	r.run("task", "graph", "retry", strconv.FormatInt(failing.Graph, 10))
	r.await(failing.Graph, map[string]int{"completed": 6, "skipped": 1})
}

// An error in a graph names the task, and nothing is stored.
func TestGraphSubmitRefuses(t *testing.T) { onBoth(t, graphSubmitRefuses) }

func graphSubmitRefuses(t *testing.T, r *graphRoom) {
	recurring := r.count(`insert into task (type, arguments, next_run, current_interval, status)
		values ('step', '{}', now(), '1 day', 'next_run_not_scheduled') returning id`)
	for text, want := range map[string]string{
		"tasks: [{name: a, type: nope}]":                                              `task "a": unknown task type: "nope"`,
		"tasks: [{name: a, type: step, depends_on: [b]}]":                             `task "a" depends on "b", which is not in the graph`,
		"tasks: [{name: a, type: step, depends_on: [12345]}]":                         `task "a" depends on task 12345, which is not there`,
		"tasks: [{name: a, type: step, depends_on: [" + fmt.Sprint(recurring) + "]}]": "which is recurring and never ends",
		"tasks: [": "neither JSON nor YAML",
	} {
		path := testenv.File(t, "graph.yml", text)
		for _, options := range [][]string{nil, {"--dry-run"}} {
			result := ours(t, slices.Concat([]string{"-C", r.config, "task", "graph", "submit"}, options, []string{path})...)
			if result.code != 1 || !strings.Contains(result.stderr, want) || !strings.Contains(result.stderr, path) || result.stdout != "" {
				t.Errorf("%s: exit code %d, want 1 and %q:\n%s", text, result.code, want, result.stderr)
			}
		}
	}
	for args, want := range map[string]string{
		"submit nowhere.yml": "No such file",
		"status 7":           "there is no graph 7",
		"cancel 7":           "there is no graph 7",
		"retry 7":            "there is no graph 7",
		"show 7":             "there is no graph 7",
		"status x":           "'x' is not the number of a graph",
		"release 0":          "'0' is not the number of a task",
		"release 12345":      "task 12345 is in no graph",
		"list --limit 0":     "0 is not positive",
	} {
		result := ours(t, append([]string{"-C", r.config, "task", "graph"}, strings.Fields(args)...)...)
		if result.code == 0 || !strings.Contains(result.stderr, want) {
			t.Errorf("task graph %s: exit code %d, want an error with %q:\n%s", args, result.code, want, result.stderr)
		}
	}
	stored := r.count("select (select count(*) from scheduler_go.graphs) + (select count(*) from task)")
	if stored != 1 {
		t.Errorf("%d rows were stored", stored-1)
	}
}

// The Python scheduler's runners start no task that waits, and its clients can read and list it. They start the tasks
// that it depends on.
func TestPythonSchedulerLeavesWaitingTasksAlone(t *testing.T) {
	t.Parallel()
	r := newGraphRoom(t)
	s := r.submit(`tasks:
- {name: first, type: step}
- {name: second, type: step, depends_on: [first]}
- {name: urgent, type: step, priority: high, depends_on: [first]}
`)
	peer := func(args ...string) string {
		t.Helper()
		result := command(t, testenv.Swh(t), environment("SWH_CONFIG_FILENAME="+r.config), append([]string{"scheduler"}, args...)...)
		if result.code != 0 {
			t.Fatalf("the Python scheduler's %q: exit code %d\n%s", args, result.code, result.stderr)
		}
		return result.stdout
	}
	if text := peer("task", "list"); !strings.Contains(text, "Found 3 tasks") || strings.Count(text, "9999-01-01") != 2 {
		t.Errorf("the Python scheduler lists:\n%s", text)
	}
	if text := peer("task", "list-pending", "step", "--before", "9990-01-01"); !strings.Contains(text, "Found 1 step tasks") {
		t.Errorf("the Python scheduler takes for pending:\n%s", text)
	}
	peer("start-runner")
	peer("start-runner", "--with-priority")
	sent := testenv.Column[int64](t, r.pool, "select task from task_run")
	if !slices.Equal(sent, []int64{s.Tasks["first"]}) {
		t.Errorf("the Python scheduler's runners sent %v, want only %d", sent, s.Tasks["first"])
	}
	if text := peer("task", "list", "--list-runs", "-i", strconv.FormatInt(s.Tasks["second"], 10)); !strings.Contains(text, "next_run_not_scheduled") {
		t.Errorf("the Python scheduler shows the waiting task as:\n%s", text)
	}
}

// Pictures are well-formed, whatever the names.
func TestGraphShow(t *testing.T) { onBoth(t, graphShow) }

func graphShow(t *testing.T, r *graphRoom) {
	s := r.submit(`name: "<&\""
tasks:
- {name: "a \"quoted\" <name> \\ with & all", type: step}
- {name: b, type: step, depends_on: [b, "a \"quoted\" <name> \\ with & all"]}
`)
	graph := strconv.FormatInt(s.Graph, 10)
	dot := r.run("task", "graph", "show", graph)
	if dot != r.run("task", "graph", "show", "--dot", graph) || !strings.Contains(dot, "n0 -> n1 [") || !strings.Contains(dot, "n1 -> n1 [") || !strings.Contains(dot, `a \"quoted\" <name> \\ with & all`) {
		t.Errorf("DOT:\n%s", dot)
	}
	svg := xml.NewDecoder(strings.NewReader(r.run("task", "graph", "show", "--svg", graph)))
	for {
		if _, err := svg.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if result := ours(t, "-C", r.config, "task", "graph", "show", "--dot", "--svg", graph); result.code != 2 {
		t.Errorf("with --dot and --svg: exit code %d", result.code)
	}
	var list []struct{ Graph, Tasks, Waiting, Ready int }
	r.runJSON(&list, "task", "graph", "list")
	if len(list) != 1 || list[0].Tasks != 2 || list[0].Waiting != 1 || list[0].Ready != 1 {
		t.Errorf("list: %+v", list)
	}
	if result := ours(t, "-C", r.config, "task", "graph", "release", fmt.Sprint(s.Tasks["b"])); result.code != 1 || !strings.Contains(result.stderr, "still waits for task") {
		t.Errorf("release: exit code %d, %s", result.code, result.stderr)
	}
	if text := r.run("task", "graph", "cancel", graph); !strings.Contains(text, "2 never to run") {
		t.Errorf("cancel says %q", text)
	}
	if text := r.run("task", "graph", "status", graph); !strings.Contains(text, "2 of 2 tasks have ended") || !strings.Contains(text, "Cancelled:") {
		t.Errorf("status:\n%s", text)
	}
	if text := r.run("task", "graph", "retry", graph); !strings.Contains(text, "1 waiting, 1 ready") {
		t.Errorf("retry says %q", text)
	}
	if text := r.run("task", "graph", "release", "--force", fmt.Sprint(s.Tasks["b"])); text != fmt.Sprintf("Released task %d (b of graph %s)\n", s.Tasks["b"], graph) {
		t.Errorf("release --force says %q", text)
	}
}
