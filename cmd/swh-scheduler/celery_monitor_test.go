package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

// startWorker starts a real Celery worker with the tasks of package celery's tests, and waits until it answers.
func startWorker(t *testing.T, brokerURL, node, queue string) *notedWorker {
	t.Helper()
	return startWorkerOf(t, "tasks", nil, brokerURL, node, queue)
}

// startWorkerOf starts a worker with a module of package celery's tests and more variables of the environment.
func startWorkerOf(t *testing.T, module string, more []string, brokerURL, node, queue string) *notedWorker {
	t.Helper()
	testenv.ListenerQueue(t, brokerURL)
	cmd := exec.Command(testenv.Python(t), "-m", "celery", "--app", module, "worker",
		"--hostname", node, "--queues", queue, "--concurrency", "1", "--loglevel", "info")
	cmd.Dir = filepath.Join("..", "..", "celery", "testdata")
	cmd.Env = append(os.Environ(), "TEST_BROKER="+brokerURL, "TEST_QUEUES="+queue, "PYTHONDONTWRITEBYTECODE=1")
	cmd.Env = append(cmd.Env, more...)
	w := startNotedWorker(t, cmd)
	awaitWorkers(t, brokerURL, node)
	return w
}

// awaitWorkers waits until all workers answer.
func awaitWorkers(t *testing.T, brokerURL string, nodes ...string) {
	t.Helper()
	broker := parsed.Broker(t, brokerURL)
	control := celery.NewControl(broker, celery.ControlOptions{Timeout: 500 * time.Millisecond})
	testenv.Becomes(t, "the workers answer", nil, func() error {
		replies, err := control.Ping(t.Context(), celery.Destination{Nodes: nodes})
		if err == nil && len(replies) < len(nodes) {
			err = fmt.Errorf("%d of %d", len(replies), len(nodes))
		}
		return err
	})
}

// celery-monitor prints the running tasks of real workers, with the Python scheduler's output.
func TestCeleryMonitor(t *testing.T) {
	t.Parallel()
	mq := testenv.RabbitMQ(t)
	const node, queue = "worker@monitor", "swh.test.Sleep"
	startWorker(t, mq.URL, node, queue)
	config := configFile(t, "scheduler: {cls: postgresql, db: dbname=unused}\ncelery: {task_broker: \""+mq.URL+"\"}\n")
	monitor := func(args ...string) result {
		t.Helper()
		return ours(t, append([]string{"-C", config, "celery-monitor"}, args...)...)
	}

	if r := monitor("ping-workers"); r.code != 0 || r.stdout != "" || !strings.Contains(r.stderr, node) {
		t.Errorf("ping: %+v", r)
	}
	for _, pattern := range []string{"worker@other", "*@other"} {
		if r := monitor("--timeout", "0.5", "--pattern", pattern, "ping-workers"); r.code != 1 || !strings.Contains(r.stderr, "no worker replied") {
			t.Errorf("ping of %s: %+v", pattern, r)
		}
	}
	// Without a running task both commands print the same.
	for _, format := range []string{"pretty", "csv"} {
		args := []string{"celery-monitor", "--pattern", "worker@*", "--timeout", "1", "list-running", "--format", format}
		peer := command(t, testenv.Swh(t), environment("SWH_CONFIG_FILENAME="+config), append([]string{"scheduler"}, args...)...)
		if r := monitor(args[1:]...); r.code != peer.code || r.stdout != peer.stdout {
			t.Errorf("list-running --format %s:\npeer %+v\nours %+v", format, peer, r)
		}
	}
	if r := monitor("--timeout", "0", "ping-workers"); r.code != 2 || !strings.Contains(r.stderr, "--timeout") {
		t.Errorf("time-out of 0: %+v", r)
	}

	broker := parsed.Broker(t, mq.URL)
	publisher := celery.NewPublisher(broker, celery.PublisherOptions{})
	defer publisher.Close()
	for _, err := range publisher.Publish(t.Context(), []celery.TaskMessage{{
		ID: "00000000-0000-0000-0000-000000000001", Name: "swh.test.Sleep", Queue: queue,
		Args: json.RawMessage("[60]"), Kwargs: json.RawMessage("{}"),
	}}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var r result
	for end := time.Now().Add(patience); r.stdout == "" && time.Now().Before(end); {
		r = monitor("--pattern", node, "list-running")
	}
	if want := regexp.MustCompile(`^worker@monitor: swh\.test\.Sleep\(60\) \[for \d+\.\d{6}s, pid=\d+\]\n$`); r.code != 0 || !want.MatchString(r.stdout) {
		t.Errorf("list-running: %+v", r)
	}
	r = monitor("--pattern", node, "list-running", "--format", "csv")
	if want := regexp.MustCompile(`^worker,name,args,kwargs,duration,worker_pid\r\nworker@monitor,swh\.test\.Sleep,\[60\],\{\},\d+\.\d+,\d+\r\n$`); r.code != 0 || !want.MatchString(r.stdout) {
		t.Errorf("list-running as CSV: %+v", r)
	}
}
