package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// task archive prints what it would archive, and archives it on request. It continues after a line that a crash has cut
// short in the file. Without a configuration, or if it can't write, it deletes nothing.
func TestTaskArchive(t *testing.T) {
	t.Parallel()
	dsn, dir := testenv.Database(t), t.TempDir()
	execute(t, dsn, `insert into task_type (type, description, backend_name) values ('a', '', 'a'), ('b', '', 'b');
		insert into task (id, type, arguments, next_run, status, policy) select n, (array['a', 'b'])[n], '{}', now(), 'disabled', 'oneshot' from generate_series(1, 2) n;
		insert into task_run (task, ended, status) select task, now() - interval '40 days', 'failed' from unnest(array[1, 1, 2]) task`)
	config := func(archive string) string {
		return configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n%s", dsn, archive))
	}
	if r := ours(t, "-C", config(""), "task", "archive"); r.code != 1 || !strings.Contains(r.stderr, "archive.after is missing") {
		t.Errorf("%+v", r)
	}
	for _, directory := range []string{"/nowhere", "/etc/passwd"} { // even if nothing is due
		path := config(fmt.Sprintf("archive: {after: {default: 4000 days}, directory: %q}", directory))
		if r := ours(t, "-C", path, "task", "archive"); r.code != 1 || !strings.HasPrefix(r.stderr, "swh-scheduler: archive.directory: ") || !strings.Contains(r.stderr, directory) {
			t.Errorf("%+v", r)
		}
	}
	path := config(fmt.Sprintf("archive: {after: {default: 30 days, b: 0}, directory: %q}", dir))
	if r := ours(t, "-C", path, "task", "archive", "--dry-run"); r.code != 0 || r.stdout != "task type    tasks    runs\n-----------  -------  ------\na            1        2\n" {
		t.Errorf("%+v", r)
	}
	file := filepath.Join(dir, time.Now().UTC().Format("tasks-2006-01-02.jsonl"))
	if err := os.WriteFile(file, []byte(`{"id": 1, "ty`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := ours(t, "-C", path, "task", "archive", "--output", "json"); r.code != 0 || !strings.Contains(r.stdout, "\"tasks\": 1,\n    \"runs\": 2") {
		t.Errorf("%+v", r)
	}
	text, err := os.ReadFile(file)
	if lines := strings.Split(string(text), "\n"); err != nil || len(lines) != 3 || !strings.HasPrefix(lines[1], `{"id": 1, "runs": [`) {
		t.Errorf("%s, %v", text, err)
	}
	if r := ours(t, "-C", path, "task", "archive", "--dry-run", "--output", "json"); r.code != 0 || r.stdout != "{}\n" {
		t.Errorf("%+v", r)
	}
}
