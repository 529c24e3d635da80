package migrate_test

import (
	"slices"
	"testing"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

// A later run drops an invalid index, whose concurrent creation was cut off by the server's end, even if
// the run doesn't need the index. It reports the index.
func TestMigrateDropsInvalidIndexes(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	invalid := func() int {
		return testenv.Value[int](t, store.Pool(), "select count(*) from pg_index x join pg_class c on c.oid = x.indexrelid where not x.indisvalid and c.relname not like 'pg_%'")
	}
	testenv.Exec(t, store.Pool(), `insert into task_type (type, description, backend_name) values ('step', '', 'swh.test.Step')`)
	for name, of := range map[string]struct {
		write   string // a transaction that the creation waits for
		options migrate.Options
	}{
		"cooldowns": {"lock table scheduler_go.candidates in row exclusive mode", migrate.Options{ShorterCooldowns: true}},
		"shares":    {"lock table task in row exclusive mode", migrate.Options{Shares: map[string]model.Shares{"step": {By: "kwargs.url"}}}},
	} {
		tx := testenv.Begin(t, store.Pool())
		testenv.Exec(t, tx, of.write)
		done := make(chan error, 1)
		go func() {
			_, err := migrate.Run(t.Context(), dsn, of.options)
			done <- err
		}()
		testenv.Becomes(t, name+": the creation of an index waits", 1, func() int {
			return testenv.Value[int](t, store.Pool(), "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like 'create index concurrently%'")
		})
		testenv.Exec(t, store.Pool(), "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query like 'create index concurrently%'")
		if err := <-done; err == nil {
			t.Errorf("%s: no error, though the session was cut off", name)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := invalid(); n == 0 {
			t.Fatalf("%s: no index is left invalid", name)
		}
		planned := testenv.Migrate(t, dsn, migrate.Options{DryRun: true})
		report := testenv.Migrate(t, dsn, migrate.Options{})
		if n := invalid(); n != 0 || len(report.Dropped) != 1 || report.Nothing() || !slices.Equal(planned.Dropped, report.Dropped) {
			t.Errorf("%s: %d indexes are invalid after %+v; announced was %+v", name, n, report, planned)
		}
		if again := testenv.Migrate(t, dsn, migrate.Options{}); !again.Nothing() {
			t.Errorf("%s: the next run did %+v", name, again)
		}
	}
}
