package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"swh-scheduler/internal/testenv"
)

// concurrency is the number of tasks that a worker runs at once.
const concurrency = 6

// workerKind is a kind of Celery worker. With Celery, a queue without its home node keeps a worker from all of its
// queues.
type workerKind struct {
	queues   []string
	acksLate bool // task_acks_late: RabbitMQ redelivers the tasks of a dead worker
}

var workerKinds = []workerKind{
	{[]string{"swh.chaos.Git", "swh.chaos.Index"}, true},
	{[]string{"swh.chaos.List", "express:swh.chaos.Hg", "save_code_now:swh.chaos.List"}, false},
	{[]string{"swh.chaos.Hg"}, true}, // the slow lane alone
}

const slowLane = 2 // of workerKinds

// addWorker starts a Celery worker.
func (c *cluster) addWorker(n int, kind workerKind) {
	c.t.Helper()
	quorum := map[string]bool{}
	for _, q := range queues {
		if slices.Contains(kind.queues, q.name) {
			quorum[q.name] = q.kind == "quorum"
		}
	}
	list, err := json.Marshal(quorum)
	if err != nil {
		c.t.Fatal(err)
	}
	module, err := filepath.Abs("testdata")
	if err != nil {
		c.t.Fatal(err)
	}
	var urls []string
	for i := range c.broker.Nodes {
		urls = append(urls, c.broker.Nodes[(n+i)%len(c.broker.Nodes)].URL)
	}
	w := &child{
		t: c.t, name: fmt.Sprintf("worker %d", n+1), log: filepath.Join(c.dir, fmt.Sprintf("worker-%d.log", n+1)), dir: module,
		argv: []string{testenv.Python(c.t), "-m", "celery", "--app", "chaosworker", "worker", "--hostname", fmt.Sprintf("w%d@chaos", n+1),
			"--queues", strings.Join(kind.queues, ","), "--concurrency", fmt.Sprint(concurrency), "--loglevel", "warning", "--without-mingle", "--without-gossip"},
		env: []string{"TEST_BROKER=" + strings.Join(urls, ";"), "TEST_QUEUES=" + string(list), "TEST_NOTES=" + c.notes,
			"TEST_TOPIC=" + topic, "TEST_KAFKA=" + strings.Join(c.kafka.Brokers, ","), "PYTHONDONTWRITEBYTECODE=1"},
	}
	if kind.acksLate {
		w.env = append(w.env, "TEST_ACKS_LATE=1")
	}
	w.start()
	c.workers = append(c.workers, w)
	c.t.Cleanup(w.kill)
}

// keepWorkers restarts ended workers, as systemd does, ten seconds after their last start: Celery gives up if a
// queue's home node is down. It leaves out workers that a fault keeps stopped.
func (c *cluster) keepWorkers() {
	c.t.Helper()
	for _, w := range c.workers {
		if !w.endBy.IsZero() && time.Now().After(w.endBy) && !w.ended() {
			w.kill()
		}
		if w.ended() && !w.away && time.Since(w.from) > 10*time.Second {
			if w.endBy.IsZero() {
				c.t.Logf("%s ended by itself", w.name)
			}
			w.start()
		}
	}
}

// scaleDown makes workers end after their tasks. They stay stopped until scaleUp.
func scaleDown(workers ...*child) {
	for _, w := range workers {
		w.away = true
		w.retire()
	}
}

// scaleUp has keepWorkers start workers again.
func scaleUp(workers ...*child) {
	for _, w := range workers {
		w.away = false
	}
}

// retire sends SIGTERM to a worker's parent process only, so that the others end their tasks.
func (c *child) retire() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	c.endBy = time.Now().Add(time.Minute)
}

// running returns the processes of a worker that run a task.
func (c *cluster) running(w *child) (pids []int) {
	text, err := os.ReadFile(c.notes)
	if err != nil {
		return nil
	}
	busy, err := busyProcesses(text)
	if err != nil {
		c.t.Error(err)
	}
	for _, pid := range w.children() {
		if busy[pid] {
			pids = append(pids, pid)
		}
	}
	return pids
}

// busyProcesses returns the processes with more starts than ends in the workers' notes.
func busyProcesses(notes []byte) (map[int]bool, error) {
	busy := map[int]bool{}
	err := eachNote(notes, func(x execution) { busy[x.PID] = x.What == "begin" })
	return busy, err
}

// children returns the ids of the processes that a process has started.
func (c *child) children() (pids []int) {
	pid := c.pid.Load()
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for child := range strings.FieldsSeq(string(text)) {
		if id, err := strconv.Atoi(child); err == nil {
			pids = append(pids, id)
		}
	}
	return pids
}
