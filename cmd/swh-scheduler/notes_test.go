package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// notedWorker is a Celery worker that writes a note for each task that it runs.
type notedWorker struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}
	file string
}

// note is a worker's note about a task.
type note struct {
	ID     string
	Args   []json.RawMessage
	Kwargs json.RawMessage
}

// startNotedWorker starts a worker by a command line of Celery, to which it adds the notes.
func startNotedWorker(t *testing.T, cmd *exec.Cmd) *notedWorker {
	t.Helper()
	modules, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	w := &notedWorker{t: t, cmd: cmd, done: make(chan struct{}), file: testenv.File(t, "notes", "")} // it exists before the first task runs
	cmd.Args = append(cmd.Args, "--include", "notes")
	cmd.Env = append(cmd.Env, "TEST_NOTES="+w.file, "PYTHONPATH="+modules)
	cmd.Stderr = t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.done)
		_ = cmd.Wait() // our signal ended it
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-w.done
	})
	return w
}

// stop stops the worker and waits for its running tasks. Tasks that it had not begun are in their queues again.
func (w *notedWorker) stop() {
	w.t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Fatal(err)
	}
	select {
	case <-w.done:
	case <-time.After(patience):
		w.t.Fatal("the worker does not end")
	}
}

// pause suspends the worker until the returned function is called.
func (w *notedWorker) pause() (resume func()) {
	w.t.Helper()
	signal := func(s syscall.Signal) {
		w.t.Helper()
		if err := syscall.Kill(-w.cmd.Process.Pid, s); err != nil {
			w.t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	return func() { w.t.Helper(); signal(syscall.SIGCONT) }
}

// notes returns the notes of all tasks so far, in order.
func (w *notedWorker) notes() (all []note) {
	w.t.Helper()
	text := testenv.Read(w.t, w.file)
	for line := range bytes.Lines(text) {
		var n note
		if err := json.Unmarshal(line, &n); err != nil {
			w.t.Fatalf("%v: %s", err, line)
		}
		all = append(all, n)
	}
	return all
}
