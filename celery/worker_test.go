package celery_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

// worker is a real Celery worker that runs testdata/tasks.py.
type worker struct {
	node string
	log  *testenv.Buffer
	cmd  *exec.Cmd
	exit chan error
}

// startWorker starts a worker and waits until it answers a ping.
func startWorker(t testing.TB, brokerURL string, queues []string, arguments ...string) *worker {
	t.Helper()
	w := &worker{node: "worker@" + strings.ToLower(t.Name()), log: &testenv.Buffer{}, exit: make(chan error, 1)}
	w.cmd = exec.Command(testenv.Python(t), append([]string{
		"-m", "celery", "--app", "tasks", "worker", "--hostname", w.node,
		"--queues", strings.Join(queues, ","), "--concurrency", "1", "--loglevel", "info",
	}, arguments...)...)
	w.cmd.Dir = "testdata"
	w.cmd.Env = append(os.Environ(), "TEST_BROKER="+brokerURL, "TEST_QUEUES="+strings.Join(queues, ","), "PYTHONDONTWRITEBYTECODE=1")
	w.cmd.Stdout, w.cmd.Stderr = w.log, w.log
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { w.exit <- w.cmd.Wait() }()
	t.Cleanup(func() {
		w.stop()
		if t.Failed() {
			t.Logf("worker's log:\n%s", w.log)
		}
	})
	control := celery.NewControl(parsed.Broker(t, brokerURL), celery.ControlOptions{Timeout: 500 * time.Millisecond})
	testenv.Becomes(t, "the worker answers", nil, func() error {
		replies, err := control.Ping(deadline(t), celery.Destination{Nodes: []string{w.node}})
		if err == nil && len(replies) == 0 {
			err = fmt.Errorf("no reply yet:\n%s", w.log)
		}
		return err
	})
	return w
}

// stop ends the worker with SIGTERM, and kills it if it still runs after three seconds.
func (w *worker) stop() {
	_ = syscall.Kill(w.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-w.exit:
	case <-time.After(3 * time.Second): // it waits for its tasks
	}
	_ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL)
}
