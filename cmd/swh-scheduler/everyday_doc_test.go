package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// The statements of docs/how-to/everyday.md stop a lister's visits and remove a task type, and change nothing else.
func TestEverydayStatements(t *testing.T) {
	t.Parallel()
	page := string(testenv.Read(t, filepath.Join("..", "..", "docs", "how-to", "everyday.md")))
	statements := func(begin string) string {
		m := regexp.MustCompile("(?s)```sql\n(\\s*" + regexp.QuoteMeta(begin) + ".*?)```").FindStringSubmatch(page)
		if m == nil {
			t.Fatalf("the page has no block %q", begin)
		}
		return m[1]
	}
	dsn := testenv.PythonDatabase(t)
	if r := ours(t, "-d", dsn, "migrate"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	execute(t, dsn, `insert into task_type (type, backend_name, description, default_interval) values ('load-old', 'swh.old', '', '1 day'), ('load-new', 'swh.new', '', '1 day');
		insert into task (type, arguments, next_run, current_interval, status) select type, '{"args": [], "kwargs": {}}', now(), '1 day', 'next_run_not_scheduled' from task_type, generate_series(1, 3);
		insert into task_run (task, backend_id) select id, id::text from task;
		insert into listers (name, instance_name, current_state, updated) values ('gitlab', 'gitlab.example', '{}', now()), ('gitlab', 'other', '{}', now());
		insert into listed_origins (lister_id, url, visit_type, last_update, extra_loader_arguments, enabled, first_seen, last_seen) select id, 'https://' || instance_name || '/' || n, 'new', now(), '{}', true, now(), now() from listers, generate_series(1, 3) n`)
	picked := func() string { return ours(t, "-d", dsn, "origin", "peek-next", "new", "10", "-f", "url").stdout }
	if got := picked(); strings.Count(got, "https://") != 6 {
		t.Fatal(got)
	}

	execute(t, dsn, statements("update listed_origins"))
	if got := picked(); strings.Count(got, "https://other/") != 3 || strings.Contains(got, "gitlab.example") {
		t.Errorf("after the lister was stopped, these are picked:\n%s", got)
	}
	execute(t, dsn, statements("begin;"))
	conn := testenv.Connect(t, dsn)
	if got := testenv.Value[string](t, conn, "select string_agg(distinct type, ' ') || count(*) || (select count(*) from task_run) from task join task_type using (type)"); got != "load-new33" {
		t.Error(got)
	}
}
