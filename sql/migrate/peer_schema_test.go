package migrate_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

// sql/base/used.txt lists the facts of the Python scheduler's own database and of ours, whose functions
// have other texts. SWH_TEST_UPDATE=1 writes it.
func TestUsedSchemaIsThePythonSchedulers(t *testing.T) {
	t.Parallel()
	python, ours := testenv.PythonDatabase(t), testenv.Postgres(t)
	testenv.Migrate(t, ours, migrate.Options{})
	facts := func(dsn string) []string {
		facts, err := migrate.PeerFacts(t.Context(), testenv.Connect(t, dsn))
		if err != nil {
			t.Fatal(err)
		}
		return facts
	}
	want := append(facts(python), facts(ours)...)
	slices.Sort(want)
	text := strings.Join(slices.Compact(want), "\n") + "\n"
	const file = "../base/used.txt"
	if os.Getenv("SWH_TEST_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if used, err := os.ReadFile(file); err != nil || string(used) != text {
		t.Errorf("%s is not what the databases have (%v); SWH_TEST_UPDATE=1 writes it:\n%s", file, err, text)
	}
}

// A later version of the Python scheduler's schema is accepted if the used parts are unchanged. Otherwise
// the error lists the differences.
func TestLaterPythonSchemas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ change, says string }{
		"only the number":    {"", ""},
		"more":               {"alter table task add note text, add size int not null default 0; create table news (id int); alter type task_priority add value 'urgent'", ""},
		"a column renamed":   {"alter table listed_origins rename last_update to updated", "column listed_origins.last_update is missing"},
		"a column's type":    {"alter table origin_visit_stats alter successive_visits type bigint", `"column origin_visit_stats.successive_visits integer" is now "column origin_visit_stats.successive_visits bigint"`},
		"a required column":  {"alter table task add owner text not null", "column task.owner is new and has no default"},
		"a column required":  {"alter table task_run alter metadata set not null", `now "column task_run.metadata jsonb required"`},
		"a value renamed":    {"alter type task_run_status rename value 'lost' to 'gone'", "value task_run_status lost is missing"},
		"a key dropped":      {"drop index listers_name_instance_name_idx", "unique listers (name, instance_name) is missing"},
		"a trigger dropped":  {"drop trigger update_task_on_task_end on task_run", "trigger CREATE TRIGGER update_task_on_task_end"},
		"a function changed": {"create or replace function swh_scheduler_mktemp_task() returns void language sql as 'select'", "function swh_scheduler_mktemp_task() is another"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.PythonDatabase(t)
			testenv.Exec(t, testenv.Connect(t, dsn), c.change)
			testenv.Exec(t, testenv.Connect(t, dsn), "insert into dbversion values (39, now(), 'upgraded')")
			s, err := migrate.ReadStatus(t.Context(), dsn)
			if c.says == "" {
				if err != nil || s.PythonSchemaVersion != 39 {
					t.Fatalf("%+v, %v", s, err)
				}
				testenv.Migrate(t, dsn, migrate.Options{})
				if err := testenv.OpenLocal(t, dsn).CheckVersion(t.Context()); err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "version 39") {
				t.Errorf("%v, want it to say %q", err, c.says)
			}
		})
	}
}

// This program works with a newer schema of ours that declares itself compatible, and refuses one that
// doesn't.
func TestNewerSchemaOfOurs(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	testenv.Exec(t, testenv.Connect(t, dsn), "insert into scheduler_go.migrations (version_id, is_applied) values (4711, true); alter table scheduler_go.work add new_column text")
	if err := testenv.OpenLocal(t, dsn).CheckVersion(t.Context()); err != nil {
		t.Error(err)
	}
	if s := status(t, dsn); !slices.Equal(s.Newer, []int64{4711}) || !s.Ready() {
		t.Errorf("%+v", s)
	}
	if r := testenv.Migrate(t, dsn, migrate.Options{}); !r.Nothing() {
		t.Errorf("%+v", r)
	}
	testenv.Exec(t, testenv.Connect(t, dsn), "update scheduler_go.compatible set since = 4711")
	if err := testenv.OpenLocal(t, dsn).CheckVersion(t.Context()); err == nil || !strings.Contains(err.Error(), "newer swh-scheduler") {
		t.Error(err)
	}
}
