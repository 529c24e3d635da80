package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The Celery tasks, by their names in Python.
const (
	listTask = "swh.demo.tasks.ListRepositories"
	loadTask = "swh.demo.tasks.LoadGit"
	// saveQueue is where tasks with a priority go.
	saveQueue = "save_code_now:" + loadTask
)

//go:embed worker/swh/demo/*.py
var workerSources embed.FS

// writeWorker unpacks the Python package below dir, and returns the directory
// to put on Python's path.
func writeWorker(dir string) (string, error) {
	if err := os.CopyFS(dir, workerSources); err != nil {
		return "", fmt.Errorf("unpack the worker: %w", err)
	}
	return filepath.Join(dir, "worker"), nil
}

// workerCommand is how production runs a worker.
func workerCommand(python, name string, concurrency int, queues ...string) []string {
	return []string{
		python, "-m", "celery", "--app", "swh.scheduler.celery_backend.config.app",
		"worker", "--pool", "prefork", "--concurrency", fmt.Sprint(concurrency), "--task-events",
		"-Ofair", "--without-gossip", "--without-mingle", "--loglevel", "info",
		"--hostname", name + "@%h", "--queues", strings.Join(queues, ","),
	}
}

// execution is one start of a task, as the worker noted it.
type execution struct {
	ID      string
	Task    string
	Subject string // what is visited or listed
	Queue   string
	Started time.Time
}

// readExecutions returns what the workers noted in the archive directory.
func readExecutions(archive string) ([]execution, error) {
	data, err := os.ReadFile(filepath.Join(archive, "executed.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no task has started yet
	}
	if err != nil {
		return nil, err
	}
	var executions []execution
	for line := range strings.Lines(string(data)) {
		var e struct {
			ID, Task, Subject, Queue string
			Started                  float64 // seconds since 1970
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("a worker's note %q: %w", line, err)
		}
		executions = append(executions, execution{e.ID, e.Task, e.Subject, e.Queue, time.UnixMicro(int64(e.Started * 1e6))})
	}
	return executions, nil
}
