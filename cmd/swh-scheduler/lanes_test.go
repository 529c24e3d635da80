package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"swh-scheduler/celery"
	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// laneRoom is a scheduler of loaders with real services and workers. By default it has an express and a slow lane.
type laneRoom struct {
	t      *testing.T
	dsn    string
	pool   *pgxpool.Pool
	broker testenv.Broker
	topic  string
	config string
	tries  string // file to which workers write the tasks that they begin
}

const (
	laneGit = "swh.test.lanes.Git" // its limits are one second in the express lane and 30 s in the slow one
	laneHg  = "swh.test.lanes.Hg"  // its limits are minutes
)

func newLaneRoom(t *testing.T) *laneRoom {
	t.Helper()
	return newLoaderRoom(t, `scheduling_policy: {git: [{policy: oldest_scheduled_first, weight: 1}]}
lanes:
  load-git:
  - {name: express, queue: "express:{backend_name}", time_limit: 1 s, slots: 60}
  - {name: slow, time_limit: 30 s, slots: 30}
  load-hg:
  - {name: express, queue: "express:{backend_name}", time_limit: 5 min, slots: 1}
  - {name: slow, time_limit: 15 min, slots: 1}
`)
}

// newLoaderRoom returns a laneRoom with other keys in its configuration.
func newLoaderRoom(t *testing.T, keys string) *laneRoom {
	t.Helper()
	section := journalSection(t, "")
	_, rest, _ := strings.Cut(section, "prefix: ")
	prefix, _, _ := strings.Cut(rest, "\n")
	r := &laneRoom{
		t: t, dsn: testenv.Database(t), broker: testenv.RabbitMQ(t), topic: prefix + ".origin_visit_status",
		tries: filepath.Join(t.TempDir(), "tries"),
	}
	r.config = configFile(t, fmt.Sprintf(`scheduler: {cls: postgresql, db: %q}
celery: {task_broker: %q}
rabbitmq: {management_url: %q}
queue_full_backoff: 0.1
no_origins_scheduled_backoff: 0.5
`, r.dsn, r.broker.URL, r.broker.ManagementURL)+keys+section)
	r.pool = testenv.Open(t, r.dsn).Pool()
	r.exec(`insert into task_type (type, description, backend_name, max_queue_length, num_retries, retry_delay) values
			('load-git', '', $1, 100, 2, '1 day'), ('load-hg', '', $2, 100, 2, '1 day')`, laneGit, laneHg)
	r.exec(`insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'gitea', '', '{}', now())`)
	return r
}

func (r *laneRoom) exec(statement string, args ...any) {
	r.t.Helper()
	testenv.Exec(r.t, r.pool, statement, args...)
}

func (r *laneRoom) count(from string, args ...any) int {
	r.t.Helper()
	return testenv.Value[int](r.t, r.pool, "select count(*) from "+from, args...)
}

// none waits until a query returns no row.
func (r *laneRoom) none(what, from string) {
	r.t.Helper()
	testenv.Becomes(r.t, what, 0, func() int { return r.count(from) })
}

// list adds listed origins, with arguments for their loader.
func (r *laneRoom) list(kind string, n int, arguments string) {
	r.t.Helper()
	r.exec(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
		select '00000000-0000-0000-0000-000000000001', 'https://visit/' || $1::text || '/' || n, 'git', $3::jsonb, true, now() from generate_series(1, $2::int) n`,
		kind, n, arguments)
}

// addTasks adds one-shot tasks.
func (r *laneRoom) addTasks(taskType, kind string, n int, arguments string) {
	r.t.Helper()
	r.exec(`insert into task (type, arguments, next_run, status, policy, retries_left)
		select $4, jsonb_build_object('args', '[]'::jsonb, 'kwargs', $3::jsonb || jsonb_build_object('url', 'https://task/' || $1::text || '/' || n)),
			now(), 'next_run_not_scheduled', 'oneshot', 2 from generate_series(1, $2::int) n`, kind, n, arguments, taskType)
}

// remember stores the duration of earlier work, in seconds, so that the same work is expected to take as long.
func (r *laneRoom) remember(taskType, urls string, seconds float64) {
	r.t.Helper()
	r.exec(`insert into scheduler_go.lane_memory (memory, seconds, before, at_least, behind, recorded)
		select hashtextextended($1::text || ' ' || replace($2::text, '*', n::text), 0), $3, 0, false, 0, now() from generate_series(1, 10) n`, taskType, urls, seconds)
}

// startWorker starts a real worker. The returned function kills it with its child processes.
func (r *laneRoom) startWorker(node string, concurrency int, queues ...string) (kill func()) {
	r.t.Helper()
	testenv.ListenerQueue(r.t, r.broker.URL)
	list := strings.Join(queues, ",")
	cmd := exec.Command(testenv.Python(r.t), "-m", "celery", "--app", "laneworker", "worker",
		"--hostname", node, "--queues", list, "--concurrency", fmt.Sprint(concurrency), "--loglevel", "warning")
	cmd.Dir = "testdata"
	cmd.Env = append(os.Environ(), "TEST_BROKER="+r.broker.URL, "TEST_QUEUES="+list, "TEST_TRIES="+r.tries, "TEST_TOPIC="+r.topic,
		"TEST_KAFKA="+strings.Join(testenv.Kafka(r.t), ","), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stdout, cmd.Stderr = r.t.Output(), r.t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	kill = func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}
	r.t.Cleanup(kill)
	return kill
}

// try is the start of a task by a worker.
type try struct {
	ID, Root, Queue, URL string
	Hard, Soft           float64
}

// triesOf returns all tries by URL, in order.
func (r *laneRoom) triesOf() map[string][]try {
	r.t.Helper()
	text := testenv.Read(r.t, r.tries)
	all := map[string][]try{}
	for line := range bytes.Lines(text) {
		var t try
		if err := json.Unmarshal(line, &t); err != nil {
			r.t.Fatalf("%v: %s", err, line)
		}
		all[t.URL] = append(all[t.URL], t)
	}
	return all
}

// waysToEnd are the ways in which work ends, by the kind in its URL: the journal's result for the visit, and the end of
// the task's run.
var waysToEnd = map[string]struct {
	arguments string
	visits    int
	tasks     int
	visit     string // status of the last visit; "" if there is none
	run       string
	error     string // in the run's metadata; "" if there is none
	moves     bool   // it times out in the express lane
}{
	"quick":    {arguments: `{}`, visits: 10, tasks: 4, visit: "successful", run: "eventful"},
	"known":    {arguments: `{"seconds": 3}`, visits: 2, visit: "successful", run: "eventful"},
	"raised":   {arguments: `{"seconds": 6}`, visits: 1, tasks: 1, visit: "successful", run: "eventful", moves: true},
	"reported": {arguments: `{"seconds": 6, "at_limit": "reported"}`, visits: 1, tasks: 1, visit: "successful", run: "eventful", moves: true},
	"unnamed":  {arguments: `{"seconds": 6, "at_limit": "unnamed"}`, visits: 1, tasks: 1, visit: "successful", run: "eventful", moves: true},
	"ignored":  {arguments: `{"seconds": 6, "at_limit": "ignored"}`, visits: 1, tasks: 1, visit: "successful", run: "eventful", moves: true},
	"forever":  {arguments: `{"seconds": 60}`, visits: 1, tasks: 1, visit: "failed", run: "failed", error: "billiard.exceptions.SoftTimeLimitExceeded: SoftTimeLimitExceeded()", moves: true},
	"failed":   {arguments: `{"ends": "failed"}`, visits: 2, tasks: 1, visit: "failed", run: "failed", error: "ValueError: no such repository"},
	"killed":   {arguments: `{"ends": "killed"}`, visits: 1, tasks: 1, run: "failed", error: "billiard.exceptions.WorkerLostError"},
	// Its worker is killed in the slow lane.
	"known-killed": {arguments: `{"ends": "killed"}`, visits: 1, tasks: 1, run: "failed", error: "billiard.exceptions.WorkerLostError"},
}

// Real workers with real time limits run visits and tasks. Quick ones end in the express lane; slow ones time out there
// and run again in the slow lane, without a failure. A failure, a time-out in the last lane, and a lost worker count as
// failures. A task of a graph waits for the end in the last lane.
func TestLanesOnRealWorkers(t *testing.T) {
	t.Parallel()
	r := newLaneRoom(t)
	for kind, way := range waysToEnd {
		r.list(kind, way.visits, way.arguments)
		r.addTasks("load-git", kind, way.tasks, way.arguments)
	}
	for kind := range waysToEnd {
		seconds := 0.5 // visits that were learnt before don't count: tasks go to the express lane
		if strings.HasPrefix(kind, "known") {
			seconds = 400
			r.remember("load-git", "https://visit/"+kind+"/*", seconds)
		}
		r.remember("load-git", "https://task/"+kind+"/*", seconds)
	}
	r.remember("load-git", "https://graph/slow/*", 0.5)
	graph := configFile(t, `tasks:
- {name: slow, type: load-git, kwargs: {url: "https://graph/slow/1", seconds: 6}}
- {name: after, type: load-git, kwargs: {url: "https://graph/after"}, depends_on: [slow]}
`)
	if r := ours(t, "-C", r.config, "task", "graph", "submit", graph); r.code != 0 {
		t.Fatal(r.stderr)
	}
	r.startWorker("express@lanes", 3, "express:"+laneGit)
	r.startWorker("slow@lanes", 6, laneGit)
	awaitWorkers(r.t, r.broker.URL, "express@lanes", "slow@lanes")
	for _, args := range [][]string{{"start-listener"}, {"journal-client"}, {"schedule-recurrent", "--visit-type", "git"}} {
		start(t, append([]string{"-C", r.config}, args...)...).logs(t, "started")
	}
	r.none("origins that were not sent", `listed_origins l where not exists (
		select from origin_visit_stats s where s.url = l.url and s.visit_type = l.visit_type and s.last_scheduled is not null)`)
	start(t, "-C", r.config, "start-runner", "--period", "1").logs(t, "started")
	r.none("tasks that were not sent", "task where next_run <= now() and status = 'next_run_not_scheduled'")
	r.none("work underway", "scheduler_go.work where lane_set is not null")
	r.none("failed visits that are kept back", "scheduler_go.held_visits")
	r.none("dependents that did not run", "task where arguments -> 'kwargs' ->> 'url' = 'https://graph/after' and status <> 'completed'")
	expected := r.visitsToKnow()
	for deadline := time.Now().Add(patience); r.count("origin_visit_stats where last_visit is not null") < expected; pause(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d visits are known, want %d\n%s", r.count("origin_visit_stats where last_visit is not null"), expected, r.unknownVisits())
		}
	}
	r.checkTries()
	r.checkVisits()
	r.checkRuns()
	r.checkStatus()
}

// visitsToKnow returns how many origins have a visit in the journal.
func (r *laneRoom) visitsToKnow() (n int) {
	for _, way := range waysToEnd {
		if way.visit != "" {
			n += way.visits + way.tasks
		}
	}
	return n + 2 // two of the graph
}

// unknownVisits returns the work without a recorded visit.
func (r *laneRoom) unknownVisits() string {
	r.t.Helper()
	var text strings.Builder
	for url, tries := range r.triesOf() {
		if r.count("origin_visit_stats where last_visit is not null and url = $1", url) == 0 {
			fmt.Fprintf(&text, "%s: tries %+v\n", url, tries)
		}
	}
	return text.String()
}

// checkTries fails unless each task and visit was tried in the expected lanes. On a busy machine a quick visit may be
// slow.
func (r *laneRoom) checkTries() {
	r.t.Helper()
	expressEnds := 0
	for url, tries := range r.triesOf() {
		kind := strings.Split(url, "/")[3]
		first, last := tries[0], tries[len(tries)-1]
		if len(tries) > 2 || first.Root != first.ID || len(tries) == 2 && (first.Queue != "express:"+laneGit || last.Queue != laneGit || last.Root != first.ID || last.ID == first.ID) {
			r.t.Errorf("%s: tries %+v", url, tries)
		}
		for _, try := range tries {
			soft, hard := 1.0, 2.0
			if try.Queue == laneGit {
				soft, hard = 30, 33
			}
			if try.Soft != soft || try.Hard != hard {
				r.t.Errorf("%s: limits %v and %v in %s", url, try.Soft, try.Hard, try.Queue)
			}
		}
		if strings.HasPrefix(kind, "known") && len(tries) != 1 || waysToEnd[kind].moves && last.Queue != laneGit {
			r.t.Errorf("%s: tries %+v", url, tries)
		}
		if kind == "quick" && last.Queue == "express:"+laneGit {
			expressEnds++
		}
		if waysToEnd[kind].moves && len(tries) != 2 {
			r.t.Errorf("%s: %d tries", url, len(tries))
		}
	}
	if expressEnds < 3 {
		r.t.Errorf("%d quick visits ended in the express lane", expressEnds)
	}
}

// checkVisits fails unless the stats of each origin contain exactly one visit.
func (r *laneRoom) checkVisits() {
	r.t.Helper()
	for kind, way := range waysToEnd {
		want := way.visits
		if way.visit != "" {
			want += way.tasks
		}
		good := r.count(`origin_visit_stats where url ~ ('^https://(visit|task)/' || $1::text || '/')
			and coalesce(last_visit_status::text, '') = $2 and next_position_offset = 4 and (last_visit is null) = ($2 = '') and successive_visits = 1`, kind, way.visit)
		if good != want {
			state := testenv.Value[string](r.t, r.pool, "select string_agg(s::text, E'\n') from origin_visit_stats s where url ~ ('/' || $1::text || '/')", kind)
			r.t.Errorf("%d of %d visits of kind %s ended as they should, %q:\n%s", good, want, kind, way.visit, state)
		}
	}
}

// checkRuns fails unless each task has one run with the expected end. Only a failure may use a retry.
func (r *laneRoom) checkRuns() {
	r.t.Helper()
	for kind, way := range waysToEnd {
		rows, err := r.pool.Query(r.t.Context(), `select t.status::text, t.retries_left, r.status::text, coalesce(r.metadata ->> 'error', ''), coalesce(r.metadata -> 'timed_out', '[]')::text,
				r.started is not null and r.ended is not null, r.backend_id, t.arguments -> 'kwargs' ->> 'url'
			from task t join task_run r on r.task = t.id where t.arguments -> 'kwargs' ->> 'url' like 'https://task/' || $1::text || '/%'`, kind)
		if err != nil {
			r.t.Fatal(err)
		}
		n, tries := 0, r.triesOf()
		for rows.Next() {
			var status, run, message, timedOut, id, url string
			var retries int
			var complete bool
			if err := rows.Scan(&status, &retries, &run, &message, &timedOut, &complete, &id, &url); err != nil {
				r.t.Fatal(err)
			}
			n++
			wantStatus, wantRetries := "completed", 2
			if way.run == "failed" {
				wantStatus, wantRetries = "next_run_not_scheduled", 1
			}
			if kind == "forever" { // a time-out in the last lane is a failure
				wantStatus, wantRetries = "disabled", 0
			}
			wantTimedOut := "[]"
			if len(tries[url]) == 2 {
				wantTimedOut = `["express"]`
			}
			if status != wantStatus || run == "eventful" && retries < 2 || run == "failed" && retries != wantRetries || run != way.run || !complete ||
				timedOut != wantTimedOut || !strings.HasPrefix(message, way.error) || len(tries[url]) > 0 && tries[url][len(tries[url])-1].ID != id {
				r.t.Errorf("%s: %s with %d retries, run %s %s %q, complete: %v", url, status, retries, run, timedOut, message, complete)
			}
		}
		if err := rows.Err(); err != nil || n != way.tasks {
			r.t.Errorf("%d runs of kind %s, want %d: %v", n, kind, way.tasks, err)
		}
	}
	if n := r.count(`task_run after join task a on a.id = after.task and a.arguments -> 'kwargs' ->> 'url' = 'https://graph/after'
		join task s on s.arguments -> 'kwargs' ->> 'url' = 'https://graph/slow/1' join task_run slow on slow.task = s.id
		where slow.status = 'eventful' and after.scheduled >= slow.ended`); n != 1 {
		r.t.Error("a task of a graph did not wait for the end of the one it depends on")
	}
}

// checkStatus fails unless `lanes status` prints these results.
func (r *laneRoom) checkStatus() {
	r.t.Helper()
	result := ours(r.t, "-C", r.config, "lanes", "status", "load-git", "--output", "json")
	var lanes []laneStatus
	if err := json.Unmarshal([]byte(result.stdout), &lanes); err != nil || len(lanes) != 2 {
		r.t.Fatalf("%v: %s%s", err, result.stdout, result.stderr)
	}
	for _, lane := range lanes {
		if lane.Consumers == nil || *lane.Consumers == 0 {
			r.t.Errorf("lane %s is read, and lanes status says %v", lane.Lane, lane.Consumers)
		}
	}
	moved, ended := 0, map[string]int{}
	for _, tries := range r.triesOf() {
		moved += len(tries) - 1
		ended[tries[len(tries)-1].Queue]++
	}
	express, slow := lanes[0], lanes[1]
	if express.TimedOut != moved || express.SlowSentExpress != moved || express.Ended != ended[express.Queue] || slow.TimedOut != 2 || slow.Ended != ended[slow.Queue]-2 {
		r.t.Errorf("%d moved, %v ended; `lanes status` says %+v", moved, ended, lanes)
	}
}

// A killed worker sends no events. Its work is given up once it can't return: a run is lost, and a visit becomes
// eligible again. Messages that it had not begun run on the next worker.
func TestLanesOfKilledWorkers(t *testing.T) {
	t.Parallel()
	r := newLaneRoom(t)
	r.remember("load-hg", "https://task/slow/*", 400)
	const forLong = `{"seconds": 3600}`
	r.addTasks("load-hg", "express", 1, forLong)
	r.addTasks("load-hg", "slow", 1, forLong)
	kill := r.startWorker("first@lanes", 2, "express:"+laneHg, laneHg)
	awaitWorkers(r.t, r.broker.URL, "first@lanes")
	for _, args := range [][]string{{"start-listener"}, {"start-runner", "--period", "1"}} {
		start(t, append([]string{"-C", r.config}, args...)...).logs(t, "started")
	}
	r.none("work that has not begun", "(select 2 - count(started) as n from scheduler_go.work where lane_set is not null) w where n > 0")
	kill()
	// Waiting messages take the free slots of the lanes.
	r.addTasks("load-hg", "next", 2, `{}`)
	r.startWorker("second@lanes", 2, "express:"+laneHg, laneHg)
	r.none("work that is not done", "task where arguments -> 'kwargs' ->> 'url' like '%next%' and status <> 'completed'")

	store := testenv.Open(t, r.dsn)
	broker := parsed.Broker(t, r.broker.URL)
	inspector := celery.NewQueueInspector(broker, r.broker.ManagementURL, celery.InspectorOptions{})
	defer inspector.Close()
	m := maintenance.GiveUpWork{Store: store, Broker: inspector, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, step := range []struct {
		after time.Duration
		left  string
	}{{14 * time.Minute, "express,slow"}, {17 * time.Minute, "slow"}, {29 * time.Minute, ""}} {
		// The listener has read all events; set its time to the future.
		testenv.Exec(t, r.pool, "update scheduler_go.event_queues set complete = now() + interval '1 hour'")
		if _, err := m.GiveUp(t.Context(), time.Now().Add(step.after)); err != nil {
			t.Fatal(err)
		}
		if left := testenv.Value[string](t, r.pool, "select coalesce(string_agg(lane_name, ',' order by lane), '') from scheduler_go.work"); left != step.left {
			t.Errorf("after %s work is underway in %q, want %q", step.after, left, step.left)
		}
	}
	later := time.Now().Add(time.Hour)
	var silent []ledger.SilentRun
	_, err := store.EachSilentRun(t.Context(), db.SilentRunSweep{Before: map[string]time.Time{"load-hg": later}, AtMost: time.Minute}, func(some []ledger.SilentRun) (int, error) {
		silent = append(silent, some...)
		return 0, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := store.LoseRuns(t.Context(), silent, later); err != nil || n != 2 {
		t.Errorf("%d runs are lost, want 2: %v", n, err)
	}
	if n := r.count("task t join task_run r on r.task = t.id where r.status = 'lost' and t.status = 'next_run_not_scheduled' and t.retries_left = 1"); n != 2 {
		t.Errorf("%d tasks are to be tried again, want 2", n)
	}
}
