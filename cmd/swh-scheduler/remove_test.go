package main

import (
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// migrate --remove lists the objects that it removes and the data that is lost. It refuses to lose work unless an option
// allows that.
func TestMigrateRemove(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	if r := ours(t, "-d", dsn, "migrate", "--yes"); r.code != 2 || !strings.HasSuffix(r.stderr, "Error: --yes needs --remove\n") {
		t.Errorf("--yes alone: %+v", r)
	}
	const steps = `
  the triggers of table listed_origins: REMOVED
  the triggers of table listers: REMOVED
  the triggers of table origin_visit_stats: REMOVED
  the triggers of table task: REMOVED
  the index scheduler_go_task_with_priority: REMOVED
  the schema scheduler_go: REMOVED
`
	execute(t, dsn, `insert into scheduler_go.work (task_id, queue, task_name, args, kwargs) values (gen_random_uuid(), 'q', 't', '[]', '{}')`)
	const lost = "1 messages are claimed and not sent: their tasks and origins count as scheduled, and would not run"
	if r := ours(t, "-d", dsn, "migrate", "--remove", "--dry-run"); r.code != 0 ||
		!strings.HasSuffix(r.stdout, strings.ReplaceAll(steps, "REMOVED", "would be removed")+"  would be lost: "+lost+"\n") {
		t.Errorf("dry run: %+v", r)
	}
	if r := ours(t, "-d", dsn, "migrate", "--remove"); r.code != 1 || !strings.Contains(r.stderr, lost+"; stop the daemons after they have delivered it, or add --yes\n") {
		t.Errorf("with work: %+v", r)
	}
	if r := ours(t, "-d", dsn, "migrate", "--remove", "--yes"); r.code != 0 ||
		!strings.HasSuffix(r.stdout, strings.ReplaceAll(steps, "REMOVED", "removed")+"  lost: "+lost+"\n") {
		t.Errorf("--yes: %+v", r)
	}
	if r := ours(t, "-d", dsn, "migrate", "--remove"); r.code != 0 || !strings.HasSuffix(r.stdout, "nothing to remove\n") {
		t.Errorf("twice: %+v", r)
	}
}
