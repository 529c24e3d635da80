package migrate_test

import (
	"strings"
	"testing"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

// migrate makes the index of groups anew, under the name by which older programs look for it: they still start.
func TestOlderProgramsFindTheIndexOfGroups(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	pool := testenv.Connect(t, dsn)
	testenv.Exec(t, pool, `create index scheduler_go_task_by_kwargs_owner on task (type, (coalesce(arguments #>> '{kwargs,owner}', '')), next_run)
		where status = 'next_run_not_scheduled' and priority is null`)
	shares := migrate.Options{Shares: map[string]model.Shares{"load-git": {By: "kwargs.owner"}}}
	testenv.Migrate(t, dsn, shares)
	// So does CheckShares of version 1.0.
	made := testenv.Value[bool](t, pool, `select exists (select from pg_index where indexrelid = to_regclass('public.scheduler_go_task_by_kwargs_owner') and indisvalid)`)
	if !made {
		t.Error("an older program with these shares refuses to start")
	}
	definitions := testenv.Column[string](t, pool, "select indexdef from pg_indexes where starts_with(indexname, 'scheduler_go_task_') and indexdef like '%owner%'")
	if len(definitions) != 1 || !strings.Contains(definitions[0], "200") {
		t.Errorf("indexes of groups: %q", definitions)
	}
	if again := testenv.Migrate(t, dsn, shares); !again.Nothing() {
		t.Errorf("again: %+v", again)
	}
}
