package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// An empty database becomes usable, and a second run has nothing to do.
func TestMigrateEmpty(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	store := testenv.OpenLocal(t, dsn)
	if err := store.CheckVersion(t.Context()); !errors.Is(err, migrate.ErrNotMigrated) || !strings.Contains(err.Error(), "swh-scheduler migrate") {
		t.Errorf("before: %v, want ErrNotMigrated and what to run", err)
	}
	planned := testenv.Migrate(t, dsn, migrate.Options{DryRun: true})
	if status := status(t, dsn); !status.Empty() || status.Ready() {
		t.Errorf("a dry run left %+v, want an empty database", status)
	}

	done := testenv.Migrate(t, dsn, migrate.Options{Logger: testLog(t)})
	if !done.CreatedBase || len(done.Applied) == 0 {
		t.Errorf("the first run did %+v, want the schema and migrations", done)
	}
	if diff := cmp.Diff(done, planned); diff != "" {
		t.Errorf("the dry run announced something else (-done +announced):\n%s", diff)
	}
	if again := testenv.Migrate(t, dsn, migrate.Options{}); !again.Nothing() {
		t.Errorf("the second run did %+v, want nothing", again)
	}
	if status := status(t, dsn); !status.Ready() || status.PythonSchemaVersion != migrate.PythonSchemaVersion {
		t.Errorf("after: %+v, want a ready database", status)
	}
	if err := store.CheckVersion(t.Context()); err != nil {
		t.Errorf("after: %v", err)
	}
}

// A dry run announces what a changed configuration makes migrate build, which may take hours.
func TestDryRunAnnouncesWhatTheConfigurationNeeds(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]migrate.Options{
		"shares":            {Shares: map[string]model.Shares{"load-git": {By: model.ShareByLister}}},
		"hosters":           {Hosters: model.Hosters{Default: model.HosterLimit{MaxInFlight: 1}}},
		"shorter cooldowns": {ShorterCooldowns: true},
		"forks":             {Policies: map[string][]model.WeightedPolicy{"git": {{Weight: 1, Forks: 0.1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.Database(t)
			dry := o
			dry.DryRun = true
			planned := testenv.Migrate(t, dsn, dry)
			if planned.Nothing() {
				t.Error("the dry run announced nothing")
			}
			if diff := cmp.Diff(testenv.Migrate(t, dsn, o), planned); diff != "" {
				t.Errorf("the dry run announced something else (-done +announced):\n%s", diff)
			}
			if again := testenv.Migrate(t, dsn, dry); !again.Nothing() {
				t.Errorf("a dry run after it announced %+v, want nothing", again)
			}
		})
	}
}

// An extension that an administrator created before doesn't count against an empty database: roles without
// the right need that.
func TestMigrateAfterInitAdmin(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	testenv.Exec(t, testenv.Connect(t, dsn), `create extension "uuid-ossp"`)
	if done := testenv.Migrate(t, dsn, migrate.Options{}); !done.CreatedBase {
		t.Errorf("did %+v, want the schema made", done)
	}
}

// A role without the rights gets a list of what is missing.
func TestMigrateWithoutRights(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	role := "poor_" + dsn[strings.LastIndex(dsn, "_")+1:]
	testenv.Exec(t, testenv.Connect(t, dsn), "create role "+role+" login")
	t.Cleanup(func() { testenv.Exec(t, testenv.Connect(t, dsn), "drop owned by "+role+"; drop role "+role) })
	poor := dsn + "?user=" + role

	_, err := migrate.Run(t.Context(), poor, migrate.Options{})
	if err == nil || !strings.Contains(err.Error(), "uuid-ossp") || !strings.Contains(err.Error(), "superuser") {
		t.Errorf("empty database: %v, want which extension and who can create it", err)
	}
	migrateOwnOnly := testenv.PythonDatabase(t)
	testenv.Exec(t, testenv.Connect(t, migrateOwnOnly), "grant select on all tables in schema public to "+role)
	t.Cleanup(func() { testenv.Exec(t, testenv.Connect(t, migrateOwnOnly), "drop owned by "+role) })
	_, err = migrate.Run(t.Context(), migrateOwnOnly+"?user="+role, migrate.Options{})
	if err == nil || !strings.Contains(err.Error(), "schema scheduler_go") || !strings.Contains(err.Error(), "right to create") {
		t.Errorf("the Python scheduler's database: %v, want which schema and which right", err)
	}
}

// A database of the Python scheduler gets our objects and keeps its own, with their rows. A removal
// restores the earlier state.
func TestMigratePeersDatabase(t *testing.T) {
	t.Parallel()
	dsn := testenv.PythonDatabase(t)
	conn := testenv.Connect(t, dsn)
	testenv.Exec(t, conn, samples)
	objects, rows := catalogue(t, conn), contents(t, dsn)
	unchanged := func(when string) {
		t.Helper()
		if diff := cmp.Diff(objects, catalogue(t, conn)); diff != "" {
			t.Errorf("%s, the schema public changed:\n%s", when, diff)
		}
		if diff := cmp.Diff(rows, contents(t, dsn)); diff != "" {
			t.Errorf("%s, rows changed:\n%s", when, diff)
		}
	}

	done := testenv.Migrate(t, dsn, migrate.Options{})
	if done.CreatedBase || len(done.Applied) == 0 {
		t.Errorf("did %+v, want migrations only", done)
	}
	unchanged("after migrate")
	if again := testenv.Migrate(t, dsn, migrate.Options{}); !again.Nothing() {
		t.Errorf("the second run did %+v, want nothing", again)
	}

	remove := func(o migrate.RemoveOptions) migrate.Removal {
		t.Helper()
		r, err := migrate.Remove(t.Context(), dsn, o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	planned := remove(migrate.RemoveOptions{DryRun: true})
	if status(t, dsn); len(planned.Removed) != 6 {
		t.Errorf("removal is planned as %q, want the triggers of four tables, an index, and the schema", planned.Removed)
	}
	if removed := remove(migrate.RemoveOptions{Logger: testLog(t)}); !cmp.Equal(removed, planned) {
		t.Errorf("removed %+v, planned was %+v", removed, planned)
	}
	unchanged("after going back")
	if left := texts(t, conn, "select nspname from pg_namespace where nspname = 'scheduler_go'"); len(left) > 0 {
		t.Error("going back left the schema scheduler_go")
	}
	if left := texts(t, conn, "select tgname from pg_trigger where not tgisinternal"); len(left) != 1 {
		t.Errorf("going back left the triggers %v, want the Python scheduler's one", left)
	}
	if left := texts(t, conn, "select relname from pg_class where starts_with(relname, 'scheduler_go')"); len(left) > 0 {
		t.Errorf("going back left the indexes %v", left)
	}
	if again := remove(migrate.RemoveOptions{}); len(again.Removed) != 0 {
		t.Errorf("going back twice removed %q", again.Removed)
	}
	var types struct {
		Result []any
		Error  string
	}
	testenv.StartScript(t, nil, "-W", "ignore", "../db/testdata/peer.py", dsn).Ask(t, map[string]any{"method": "get_task_types", "kwargs": map[string]any{}}, &types)
	if len(types.Result) != 1 || types.Error != "" {
		t.Errorf("after going back, the Python scheduler finds task types %v, want the sample", types)
	}
	testenv.Migrate(t, dsn, migrate.Options{})
	unchanged("after migrate again")
}

// A transaction that has written to a table of the Python scheduler and stays open delays migrate, but not
// later writers of the table.
func TestMigrateLetsWritersPass(t *testing.T) {
	t.Parallel()
	dsn := testenv.PythonDatabase(t)
	testenv.Exec(t, testenv.Connect(t, dsn), samples)
	const write = "update listed_origins set last_seen = now(); update task set priority = priority; update origin_visit_stats set last_visit = last_visit"
	long := testenv.Begin(t, testenv.Connect(t, dsn))
	testenv.Exec(t, long, "lock table listed_origins, task, origin_visit_stats in row exclusive mode")
	waiting, done := make(chan struct{}), make(chan error, 1)
	go func() {
		log := slog.New(slog.NewTextHandler(&onText{text: "waiting for a table", seen: waiting}, nil))
		_, err := migrate.Run(t.Context(), dsn, migrate.Options{Logger: log})
		done <- err
	}()
	select {
	case <-waiting:
	case err := <-done:
		t.Fatalf("migrated (%v) beside a transaction that writes", err)
	}
	others := testenv.Connect(t, dsn)
	for began := time.Now(); time.Since(began) < 3*time.Second; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := others.Exec(ctx, write)
		cancel()
		if err != nil {
			t.Fatalf("another writer waited: %v", err)
		}
	}
	if err := long.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if status, err := migrate.ReadStatus(t.Context(), dsn); err != nil || !status.Ready() {
		t.Errorf("status %+v, %v", status, err)
	}
}

// onText closes seen when the first line with text is written.
type onText struct {
	text string
	seen chan struct{}
	once sync.Once
}

func (o *onText) Write(line []byte) (int, error) {
	if strings.Contains(string(line), o.text) {
		o.once.Do(func() { close(o.seen) })
	}
	return len(line), nil
}

// A database created by an older Python scheduler has a shorter form of the module's name.
func TestMigrateOldModuleName(t *testing.T) {
	t.Parallel()
	dsn := testenv.PythonDatabase(t)
	testenv.Exec(t, testenv.Connect(t, dsn), "update dbmodule set dbmodule = 'scheduler'")
	if done := testenv.Migrate(t, dsn, migrate.Options{}); done.CreatedBase || done.Nothing() {
		t.Errorf("did %+v, want migrations only", done)
	}
	if err := testenv.OpenLocal(t, dsn).CheckVersion(t.Context()); err != nil {
		t.Error(err)
	}
}

// samples are rows for each of the Python scheduler's tables.
const samples = `
	insert into task_type (type, description, backend_name, default_interval) values ('t', 'd', 'b', '1 month 2 days');
	insert into task (type, arguments, next_run, status, current_interval)
	  values ('t', '{"args": [], "kwargs": {}}', '2020-01-01', 'next_run_not_scheduled', '1 day');
	insert into task_run (task, backend_id, metadata) select id, 'x', '{}' from task;
	insert into listers (name, instance_name, current_state, updated) values ('l', 'i', '{}', '2020-01-01');
	insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
	  select id, 'https://example.org/' || n, 'git', '{}', true, '2020-01-01' from listers, generate_series(1, 10) n;
	insert into origin_visit_stats (url, visit_type, last_visit_status) values ('https://example.org/1', 'git', 'failed');
	insert into visit_scheduler_queue_position values ('git', 7);
	insert into scheduler_metrics (lister_id, visit_type, last_update) select id, 'git', '2020-01-01' from listers;`

// migrate changes nothing in an unknown database. Its error has what it found, what it supports and the
// remedy.
func TestMigrateRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string // to a database of the Python scheduler's, or to an empty one
		empty  bool
		says   []string
	}{
		"older": {
			change: "update dbversion set version = 37",
			says:   []string{"version 37", "only version 38", "swh db upgrade"},
		},
		"no version": {
			change: "delete from dbversion",
			says:   []string{"not known", "only version 38", "swh db init"},
		},
		"no table dbversion": {
			change: "drop table dbversion",
			says:   []string{"no table dbversion", "not empty", "table dbmodule", "empty database"},
		},
		"another module": {
			change: "update dbmodule set dbmodule = 'storage:postgresql'",
			says:   []string{`"storage:postgresql"`, `"scheduler:postgresql"`, "another database"},
		},
		"no module": {
			change: "drop table dbmodule",
			says:   []string{"no table dbmodule"},
		},
		"tables missing": {
			change: "drop table scheduler_metrics cascade; drop table task_run cascade",
			says:   []string{"version 38", "task_run, scheduler_metrics"},
		},
		"something else": {
			empty: true, change: "create table invoice (id int)",
			says: []string{"not empty", "table invoice", "empty database"},
		},
		"functions only": {
			empty: true, change: "create function f() returns int language sql as 'select 1'",
			says: []string{"not empty", "function f"},
		},
		"ours without the Python scheduler's": {
			empty: true, change: "create schema scheduler_go",
			says: []string{"scheduler_go", "drop that schema"},
		},
		"ours of a program too old": {
			change: `create schema scheduler_go;
				create table scheduler_go.migrations (version_id bigint, is_applied boolean);
				insert into scheduler_go.migrations values (0, true), (100, true), (598, true)`,
			says: []string{"older swh-scheduler", "migration 598", "from 600 on", `"swh-scheduler migrate" of a version`, `"swh-scheduler migrate --remove"`},
		},
		"ours of a newer program": {
			change: `create schema scheduler_go;
				create table scheduler_go.migrations (version_id bigint, is_applied boolean);
				insert into scheduler_go.migrations values (0, true), (4711, true)`,
			says: []string{"newer swh-scheduler", "migration 4711"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var dsn string
			if c.empty {
				dsn = testenv.Postgres(t)
			} else {
				dsn = testenv.PythonDatabase(t)
			}
			testenv.Exec(t, testenv.Connect(t, dsn), c.change)
			conn := testenv.Connect(t, dsn)
			before, schemas := catalogue(t, conn), texts(t, conn, "select nspname from pg_namespace order by 1")

			_, migrateErr := migrate.Run(t.Context(), dsn, migrate.Options{})
			_, dryErr := migrate.Run(t.Context(), dsn, migrate.Options{DryRun: true})
			_, statusErr := migrate.ReadStatus(t.Context(), dsn)
			for by, err := range map[string]error{
				"migrate": migrateErr, "dry run": dryErr, "status": statusErr,
				"start of a daemon": testenv.OpenLocal(t, dsn).CheckVersion(t.Context()),
			} {
				if !errors.Is(err, migrate.ErrUnsupported) {
					t.Errorf("%s: %v, want ErrUnsupported", by, err)
					continue
				}
				for _, text := range c.says {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%s: %v, want it to say %q", by, err, text)
					}
				}
			}

			if diff := cmp.Diff(before, catalogue(t, conn)); diff != "" {
				t.Errorf("the schema public changed:\n%s", diff)
			}
			if diff := cmp.Diff(schemas, texts(t, conn, "select nspname from pg_namespace order by 1")); diff != "" {
				t.Errorf("schemas changed:\n%s", diff)
			}
		})
	}
}

// Daemons on several machines may migrate at once: one does, and the others wait and find no work.
func TestMigrateConcurrently(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]string{
		"empty": testenv.Postgres(t), "the Python scheduler's": testenv.PythonDatabase(t),
	} {
		t.Run(name, func(t *testing.T) {
			reports := make([]migrate.Report, 6)
			g, ctx := errgroup.WithContext(t.Context())
			for i := range reports {
				g.Go(func() (err error) {
					reports[i], err = migrate.Run(ctx, dsn, migrate.Options{})
					return err
				})
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			busy := 0
			for _, r := range reports {
				if !r.Nothing() {
					busy++
				}
			}
			if busy != 1 {
				t.Errorf("%d of the runs did something, want 1", busy)
			}
		})
	}
}

// A run that waits for another one can be cancelled.
func TestMigrateWaitsUntilCancelled(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	other := testenv.Connect(t, dsn)
	testenv.Exec(t, other, "select pg_advisory_lock(x'7377687363686564'::bigint)")
	ctx, cancel := context.WithCancel(t.Context())
	waiting := &onMessage{text: "waiting for another migration", do: cancel}
	_, err := migrate.Run(ctx, dsn, migrate.Options{Logger: slog.New(waiting)})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it cancelled", err)
	}
	if status := status(t, dsn); !status.Empty() {
		t.Errorf("it left %+v, want an empty database", status)
	}
}

// onMessage is a log handler that calls a function at a message.
type onMessage struct {
	text string
	do   func()
}

func (h *onMessage) Enabled(context.Context, slog.Level) bool { return true }
func (h *onMessage) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *onMessage) WithGroup(string) slog.Handler            { return h }
func (h *onMessage) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, h.text) {
		h.do()
	}
	return nil
}

// The Python scheduler's own commands report the database as being at their version, with nothing to do.
func TestPeersCommandsOnOurDatabase(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	testenv.Migrate(t, dsn, migrate.Options{})
	before := catalogue(t, testenv.Connect(t, dsn))

	config := testenv.File(t, "config.yml", fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", dsn))
	swh := testenv.Swh(t)
	for _, c := range []struct{ command, says string }{
		{"version", "version: 38"},
		{"upgrade", "No migration needed"},
		{"init", "exists at version 38"},
	} {
		cmd := exec.CommandContext(t.Context(), swh, "db", c.command, "scheduler")
		cmd.Env = append(cmd.Environ(), "LC_ALL=C.UTF-8", "SWH_CONFIG_FILENAME="+config)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.says) {
			t.Errorf("swh db %s: %v, want %q in:\n%s", c.command, err, c.says, out)
		}
	}
	if diff := cmp.Diff(before, catalogue(t, testenv.Connect(t, dsn))); diff != "" {
		t.Errorf("the Python scheduler's commands changed the schema:\n%s", diff)
	}
}

func status(t *testing.T, dsn string) migrate.Status {
	t.Helper()
	s, err := migrate.ReadStatus(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// contents returns every row of the Python scheduler's tables.
func contents(t *testing.T, dsn string) map[string][]string {
	t.Helper()
	conn := testenv.Connect(t, dsn)
	rows := map[string][]string{}
	for _, table := range []string{
		"task_type", "task", "task_run", "listers", "listed_origins", "origin_visit_stats",
		"visit_scheduler_queue_position", "scheduler_metrics", "dbversion", "dbmodule",
	} {
		rows[table] = texts(t, conn, "select * from "+table+" order by "+table)
	}
	return rows
}
