package graphs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/graphs"
)

// Archive deletes tasks that ended before their type's moment, with their runs, after they are written. All
// others stay: open and young tasks, other types, graphs with such a task, dependencies of open tasks, and
// locked tasks. A locked task delays no other. A dry run counts the same.
func TestArchive(t *testing.T) {
	t.Parallel()
	store := graphStore(t)
	testenv.Exec(t, store.Pool(), `insert into task_type (type, description, backend_name) values ('a', '', 'a'), ('b', '', 'b'), ('kept', '', 'kept')`)
	ended := time.Now().Add(-100 * 24 * time.Hour)
	add := func(id int64, taskType, policy, status string, nextRun time.Time, runs ...time.Time) {
		testenv.Exec(t, store.Pool(), `insert into task (id, type, arguments, next_run, current_interval, status, policy)
			values ($1, $2, '{"args": ["ü"]}', $3, '1 day', $4, $5)`, id, taskType, nextRun, status, policy)
		for _, run := range runs {
			testenv.Exec(t, store.Pool(), "insert into task_run (task, backend_id, scheduled, started, status) values ($1, 'r', $2, $2, 'eventful')", id, run)
		}
	}
	young := time.Now().Add(-time.Hour)
	add(1001, "a", "oneshot", "completed", ended, ended, ended)
	add(1002, "b", "recurring", "disabled", young, ended)
	add(1003, "a", "oneshot", "disabled", ended) // never ran
	add(1004, "a", "oneshot", "completed", ended, ended, young)
	add(1005, "a", "recurring", "completed", ended, ended) // only other programs create such tasks
	add(1006, "a", "oneshot", "next_run_scheduled", ended, ended)
	add(1007, "a", "recurring", "next_run_not_scheduled", ended, ended)
	add(1008, "kept", "oneshot", "completed", ended, ended)
	add(1009, "a", "oneshot", "disabled", young)
	add(1010, "a", "oneshot", "completed", ended, ended) // is locked
	add(1011, "a", "oneshot", "completed", ended, ended) // an open task depends on it
	add(50_000, "a", "oneshot", "completed", ended, ended)
	depends := submitGraph(t, store, graphs.NewTask{DependsOn: existing(1011)})
	done, running := submitGraph(t, store, on(), on(0)), submitGraph(t, store, on(), on(0))
	setStatus(t, store, model.TaskCompleted, done.Tasks[0], running.Tasks[0])
	setStatus(t, store, model.TaskDisabled, done.Tasks[1]) // it never ran
	testenv.Exec(t, store.Pool(), "insert into task_run (task, scheduled, status) values ($1, $3, 'eventful'), ($2, $3, 'eventful')", done.Tasks[0], running.Tasks[0], ended)
	testenv.Exec(t, store.Pool(), "update scheduler_go.graphs set submitted = $1", ended)
	drain(t, store)

	locker := testenv.Begin(t, store.Pool())
	testenv.Exec(t, locker, "select from task where id = 1010 for update")
	sums := map[string]graphs.Archived{}
	var lines []string
	before := time.Now().Add(-30 * 24 * time.Hour)
	o := graphs.ArchiveOptions{
		Before: map[string]time.Time{"a": before, "b": before.Add(-time.Hour), "step": before},
		Count: func(taskType string, n graphs.Archived) {
			sums[taskType] = graphs.Archived{Tasks: sums[taskType].Tasks + n.Tasks, Runs: sums[taskType].Runs + n.Runs}
		},
		Write: func(tasks []string) error {
			lines = append(lines, tasks...)
			return nil
		},
	}
	rows := func() string {
		return fmt.Sprint(testenv.Column[int64](t, store.Pool(), "select id from task order by id"), testenv.Value[int](t, store.Pool(), "select count(*) from task_run"))
	}
	all := rows()
	want := map[string]graphs.Archived{"a": {Tasks: 3, Runs: 3}, "b": {Tasks: 1, Runs: 1}, "step": {Tasks: 2, Runs: 1}}

	dry := o
	dry.DryRun = true
	if err := store.ArchiveAll(t.Context(), dry); err != nil {
		t.Fatal(err)
	}
	planned := map[string]graphs.Archived{"a": {Tasks: 4, Runs: 4}, "b": want["b"], "step": want["step"]} // with the locked one
	if diff := cmp.Diff(planned, sums); diff != "" || len(lines) > 0 || rows() != all {
		t.Errorf("a dry run wrote %d lines and left %s (-want +counted):\n%s", len(lines), rows(), diff)
	}
	clear(sums)
	full := o
	full.Write = func([]string) error { return errors.New("no space left on device") }
	if err := store.ArchiveAll(t.Context(), full); err == nil || len(sums) > 0 || rows() != all {
		t.Errorf("what can't be written was deleted: %v, %v, %s", err, sums, rows())
	}

	if err := store.Archive(t.Context(), o, time.Minute); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, sums); diff != "" {
		t.Errorf("(-want +archived):\n%s", diff)
	}
	kept := []int64{1004, 1005, 1006, 1007, 1008, 1009, 1010, 1011, depends.Tasks[0], running.Tasks[0], running.Tasks[1]}
	slices.Sort(kept)
	if diff := cmp.Diff(kept, testenv.Column[int64](t, store.Pool(), "select id from task order by id")); diff != "" {
		t.Errorf("(-want +left):\n%s", diff)
	}
	written := map[int64]int{}
	for _, line := range lines {
		var task struct {
			ID        int64
			Type      string
			Arguments struct{ Args []string }
			Runs      []struct{ Status string }
		}
		if err := json.Unmarshal([]byte(line), &task); err != nil || strings.Contains(line, "\n") {
			t.Fatal(line, err)
		}
		if task.ID == 1001 && (task.Type != "a" || fmt.Sprint(task.Arguments.Args) != "[ü]" || task.Runs[1].Status != "eventful") {
			t.Errorf("written: %s", line)
		}
		written[task.ID] = len(task.Runs)
	}
	if diff := cmp.Diff(map[int64]int{1001: 2, 1002: 1, 1003: 0, 50_000: 1, done.Tasks[0]: 1, done.Tasks[1]: 0}, written); diff != "" {
		t.Errorf("runs by task (-want +written):\n%s", diff)
	}
	mendGraphs(t, store)
	if got := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.graphs"); got != 2 {
		t.Errorf("%d graphs are left, want the two that run", got)
	}
	checkGraph(t, store, running.ID, completed, ready)

	clear(sums)
	if err := store.Archive(t.Context(), o, time.Minute); err != nil || len(sums) > 0 {
		t.Errorf("archived again within a day: %v, %v", sums, err)
	}
}

// Rows of removed queues, lanes and listers are deleted.
func TestForgetUnused(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	testenv.Exec(t, testenv.Connect(t, dsn), `
		insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'l', '', '{}', now());
		insert into scheduler_go.listings (lister_id, finished) select ('00000000-0000-0000-0000-00000000000' || n)::uuid, now() from generate_series(1, 2) n;
		insert into scheduler_go.share_charges select 'q', 'g', now() - days * interval '1 day', 1, 1 from unnest(array[1, 91]) days;
		insert into scheduler_go.share_history select 'q', 'g', now() - hours * interval '1 hour', 1, 1 from unnest(array[2, 4]) hours;
		insert into scheduler_go.shares (queue, share_group, as_of) select 'q' || days, 'g', now() - days * interval '1 day' from unnest(array[1, 91]) days;
		insert into scheduler_go.lane_sketches select 's' || days, 'l', true, 1, 1, now() - days * interval '1 day' from unnest(array[1, 401]) days;
		insert into scheduler_go.configured_lanes select 's' || days, now() - days * interval '1 day' from unnest(array[1, 8]) days`)
	store, now := testenv.OpenLocal(t, dsn), time.Now()
	if _, err := store.Forget(t.Context(), now, time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"listings", "share_charges", "share_history", "shares", "lane_sketches", "configured_lanes"} {
		if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go."+table); n != 1 {
			t.Errorf("%d rows of %s are left, want 1", n, table)
		}
	}
}

// docs/devel/database.md says of each table of ours what bounds it.
func TestEachTableHasABound(t *testing.T) {
	t.Parallel()
	page := testenv.Read(t, filepath.Join("..", "..", "docs", "devel", "database.md"))
	_, section, _ := strings.Cut(string(page), "\n### How large tables get\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?`) \\| .+ \\|$").FindAllStringSubmatch(section, -1) {
		documented = append(documented, strings.Split(strings.ReplaceAll(row[1], "`", ""), ", ")...)
	}
	slices.Sort(documented)
	tables := testenv.Column[string](t, testenv.OpenLocal(t, testenv.Database(t)).Pool(), "select relname::text from pg_class where relnamespace = 'scheduler_go'::regnamespace and relkind in ('r', 'p', 'm')")
	slices.Sort(tables)
	if diff := cmp.Diff(tables, documented); diff != "" {
		t.Errorf("(-tables +documented):\n%s", diff)
	}
}
