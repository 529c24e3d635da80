package daemons_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/daemons"
)

// A runner deletes by itself what ended long ago, once it is in a file of the directory.
func TestRunnerArchives(t *testing.T) {
	t.Parallel()
	r := daemons.Runner{Options: options(t, "start-runner"), Period: time.Minute}
	r.Config.Archive.After = map[string]time.Duration{"default": 24 * time.Hour}
	r.Config.Archive.Directory = t.TempDir()
	store, err := r.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Pool().Exec(t.Context(), `insert into task_type (type, description, backend_name) values ('a', '', 'a');
		insert into task (type, arguments, next_run, status, policy) select 'a', '{}', now() - n * interval '1 day', 'disabled', 'oneshot' from unnest(array[0, 2]) n`); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	left := 2
	for deadline := time.Now().Add(2 * time.Minute); left > 1 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err := store.Pool().QueryRow(t.Context(), "select count(*) from task").Scan(&left); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-ended; err != nil || left != 1 {
		t.Errorf("%d tasks are left, want the one that ended today; %v", left, err)
	}
	files, err := filepath.Glob(filepath.Join(r.Config.Archive.Directory, "tasks-20*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if text, err := os.ReadFile(files[0]); err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), `"runs": []`) {
		t.Errorf("%s, %v", text, err)
	}
}
