package maintenance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/internal/config"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/graphs"
)

// ArchiveOptions returns the options of archiving by the configuration.
func ArchiveOptions(ctx context.Context, store *db.Store, c config.Archive) (graphs.ArchiveOptions, error) {
	o := graphs.ArchiveOptions{Before: make(map[string]time.Time)}
	if err := CheckDirectory("archive.directory", c.Directory); err != nil {
		return o, err
	}
	types, err := store.TaskTypes(ctx)
	for _, tt := range types {
		after, ok := c.After[tt.Type]
		if !ok {
			after = c.After["default"]
		}
		if after > 0 {
			o.Before[tt.Type] = store.Now().Add(-after)
		}
	}
	if c.Directory != "" {
		o.Write = func(tasks []string) error {
			return appendLines(filepath.Join(c.Directory, store.Now().UTC().Format("tasks-2006-01-02.jsonl")), tasks)
		}
	}
	return o, err
}

// CheckDirectory checks that a configured directory exists. key names it in errors; an empty path passes.
func CheckDirectory(key, directory string) error {
	if directory == "" {
		return nil
	}
	info, err := os.Stat(directory)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", directory)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// appendLines appends lines to a file and syncs it, so that they survive a crash of the host. On an error it
// truncates the file to its old size. A line that a crash cut earlier stays a line of its own. It refuses links and
// pipes, which others with access to the directory could use to redirect or block it.
func appendLines(path string, lines []string) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o640)
	if errors.Is(err, syscall.ELOOP) {
		return fmt.Errorf("%s is a symbolic link; archives are written to regular files only", path)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return err
	}
	text := strings.Join(lines, "\n") + "\n"
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, info.Size()-1); err == nil && !bytes.Equal(last, []byte("\n")) {
		text = "\n" + text
	}
	if _, err = file.WriteString(text); err == nil {
		err = file.Sync()
	}
	if err != nil {
		err = errors.Join(err, file.Truncate(info.Size()))
	}
	return err
}

// archiveTime bounds a run of the job: its time for tasks, and as much again for graphs.
const archiveTime = 10 * time.Second

// Archive returns the job that archives tasks.
func Archive(store *db.Store, c config.Archive, log *slog.Logger, reg prometheus.Registerer) Job {
	archived := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "swh_scheduler_runner_archived_total", Help: "Ended tasks and their runs deleted by age, by task type and kind (task, run).",
	}, []string{"task_type", "kind"})
	return Job{Name: "archive", Period: time.Minute, Unconfigured: len(c.After) == 0, Do: func(ctx context.Context) (string, error) {
		what, err := ArchiveOptions(ctx, store, c)
		if err != nil {
			return "", err
		}
		var sum graphs.Archived
		what.Count = func(taskType string, n graphs.Archived) {
			archived.WithLabelValues(taskType, "task").Add(float64(n.Tasks))
			archived.WithLabelValues(taskType, "run").Add(float64(n.Runs))
			sum.Tasks += n.Tasks
			sum.Runs += n.Runs
		}
		err = store.Archive(ctx, what, archiveTime)
		if sum.Tasks == 0 {
			return "", err
		}
		log.Info("archived ended tasks", "tasks", sum.Tasks, "runs", sum.Runs)
		return sum.String(), err
	}}
}
