package daemons_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/daemons"
	"swh-scheduler/internal/testenv"
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
	testenv.Exec(t, store.Pool(), `insert into task_type (type, description, backend_name) values ('a', '', 'a');
		insert into task (type, arguments, next_run, status, policy) select 'a', '{}', now() - n * interval '1 day', 'disabled', 'oneshot' from unnest(array[0, 2]) n`)
	stop := testenv.Run(t, r.Run)
	testenv.Becomes(t, "tasks that are left: the one that ended today", 1, func() int {
		return testenv.Value[int](t, store.Pool(), "select count(*) from task")
	})
	stop()
	files, err := filepath.Glob(filepath.Join(r.Config.Archive.Directory, "tasks-20*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if text := testenv.Read(t, files[0]); strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), `"runs": []`) {
		t.Errorf("%s", text)
	}
}
