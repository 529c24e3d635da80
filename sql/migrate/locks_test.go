package migrate_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

// Migrations get the lock of a table under autovacuum: PostgreSQL cancels the autovacuum after others have
// waited for deadlock_timeout.
func TestMigrateCancelsAutovacuum(t *testing.T) {
	t.Parallel()
	dsn := testenv.PostgresServer(t, "autovacuum_naptime=1s", "deadlock_timeout=2s")
	testenv.Migrate(t, dsn, migrate.Options{})
	conn := testenv.Connect(t, dsn)
	for _, statement := range []string{
		"drop schema scheduler_go cascade", samples,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
		 select id, 'https://example.org/big/' || n, 'git', '{}', true, '2020-01-01' from listers, generate_series(1, 100000) n`,
		// A page takes 100 ms, so that the vacuum outlasts the test.
		`alter table listed_origins set (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1,
		 autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0)`,
		"delete from listed_origins where url < 'https://example.org/big/5'",
	} {
		testenv.Exec(t, conn, statement)
	}
	testenv.Becomes(t, "autovacuum works on listed_origins", true, func() bool {
		return len(texts(t, conn, "select 'yes' from pg_stat_progress_vacuum where relid = 'listed_origins'::regclass and datname = current_database()")) > 0
	})

	var log strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := migrate.Run(ctx, dsn, migrate.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}); err != nil {
		t.Errorf("beside an autovacuum: %v\n%s", err, &log)
	}
}

// While Migrate or Remove waits for one of the Python scheduler's tables, it holds no lock on another that
// writers would wait for. It logs the table and the holder of the lock.
func TestOneTableLockedAtATime(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(ctx context.Context, dsn string, log *slog.Logger) error{
		"migrate": func(ctx context.Context, dsn string, log *slog.Logger) error {
			_, err := migrate.Run(ctx, dsn, migrate.Options{Logger: log})
			return err
		},
		"remove": func(ctx context.Context, dsn string, log *slog.Logger) error {
			_, err := migrate.Remove(ctx, dsn, migrate.RemoveOptions{Logger: log})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.PythonDatabase(t)
			if name == "remove" {
				testenv.Migrate(t, dsn, migrate.Options{})
			}
			holder, conn := testenv.Connect(t, dsn+"?application_name=lister"), testenv.Connect(t, dsn)
			tx := testenv.Begin(t, holder)
			testenv.Exec(t, tx, "lock table origin_visit_stats in row exclusive mode")
			message, done := make(chan string, 100), make(chan error, 1)
			go func() { done <- do(t.Context(), dsn, slog.New(slog.NewTextHandler(lines(message), nil))) }()
			for waited := 0; waited < 2; {
				select {
				case line := <-message:
					if strings.Contains(line, "waiting for a table") {
						waited++
						if !strings.Contains(line, "table origin_visit_stats, held by lister of role postgres (process ") {
							t.Errorf("it doesn't say what it waits for: %s", line)
						}
					}
				case err := <-done:
					t.Fatalf("done (%v) beside a transaction that writes", err)
				case <-time.After(5 * time.Millisecond): // polls often, as Migrate waits for 1.5 s
				}
				for _, both := range texts(t, conn, `select h.relation::regclass, h.mode from pg_locks w join pg_locks h on h.pid = w.pid
					where not w.granted and w.relation = 'origin_visit_stats'::regclass and w.database = (select oid from pg_database where datname = current_database())
					  and h.granted and h.mode <> 'AccessShareLock' and h.relation <> w.relation
					  and h.relation in (select oid from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r')`) {
					t.Fatalf("it holds %s while it waits for origin_visit_stats", both)
				}
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// lines is a writer that sends what is written.
type lines chan<- string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// A migration that is interrupted between two of ours continues at the next run.
func TestMigrateGoesOn(t *testing.T) {
	t.Parallel()
	dsn := testenv.PythonDatabase(t)
	tx := testenv.Begin(t, testenv.Connect(t, dsn))
	testenv.Exec(t, tx, "lock table origin_visit_stats in row exclusive mode")
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := migrate.Run(ctx, dsn, migrate.Options{Logger: slog.New(&onMessage{text: "waiting for a table", do: cancel})}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := status(t, dsn)
	done := testenv.Migrate(t, dsn, migrate.Options{})
	if len(before.Applied) == 0 || len(done.Applied) == 0 || !slices.Equal(done.Applied, before.Pending) || !status(t, dsn).Ready() {
		t.Errorf("after %v it applied %v, %v were pending", before.Applied, done.Applied, before.Pending)
	}
}

// Remove drops the objects of an interrupted migration, as no work is lost.
func TestRemoveAfterInterruptedMigration(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"task", "listed_origins", "origin_visit_stats"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.PythonDatabase(t)
			conn := testenv.Connect(t, dsn)
			objects := catalogue(t, conn)
			tx := testenv.Begin(t, testenv.Connect(t, dsn))
			testenv.Exec(t, tx, "lock table "+table+" in row exclusive mode")
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := migrate.Run(ctx, dsn, migrate.Options{Logger: slog.New(&onMessage{text: "waiting for a table", do: cancel})}); !errors.Is(err, context.Canceled) {
				t.Errorf("interrupted: %v", err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			r, err := migrate.Remove(t.Context(), dsn, migrate.RemoveOptions{})
			if err != nil || len(r.Lost) > 0 || len(r.Removed) == 0 {
				t.Errorf("%+v, %v", r, err)
			}
			if diff := cmp.Diff(objects, catalogue(t, conn)); diff != "" {
				t.Errorf("the schema public changed:\n%s", diff)
			}
		})
	}
}

// Remove refuses to lose work unless the option asks for it.
func TestRemoveRefusesToLoseWork(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]string{
		"2 messages are claimed and not sent: their tasks and origins count as scheduled": `
			insert into scheduler_go.work (task_id, queue, task_name, args, kwargs)
			select gen_random_uuid(), 'q', 't', '[]', '{}' from generate_series(1, 2)`,
		"1 messages of shares and lanes are underway": `
			insert into scheduler_go.work (task_id, state, queue, home, share_group, cost, task_name, args, kwargs)
			values (gen_random_uuid(), 'sent', 'q', 'q', 'g', 1, 't', '[]', '{}')`,
		"1 tasks of graphs wait for others": `
			insert into scheduler_go.graph_tasks (task, graph, name, any_result, dependencies) select id, 1, 'n', false, 1 from task;
			update task set next_run = scheduler_go.never()`,
		"1 failed visits are held back": "insert into scheduler_go.held_visits values (gen_random_uuid(), 'u', 'git', now())",
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.PythonDatabase(t)
			testenv.Migrate(t, dsn, migrate.Options{})
			testenv.Exec(t, testenv.Connect(t, dsn), samples+change)
			before := catalogueOf(t, testenv.Connect(t, dsn), "scheduler_go")
			_, err := migrate.Remove(t.Context(), dsn, migrate.RemoveOptions{})
			if !errors.Is(err, migrate.ErrWouldLose) || !strings.Contains(err.Error(), says) {
				t.Fatalf("got %v, want it refused, with %q", err, says)
			}
			if after := catalogueOf(t, testenv.Connect(t, dsn), "scheduler_go"); len(after) != len(before) || !status(t, dsn).Ready() {
				t.Errorf("refused, but %d objects are left of %d, %+v", len(after), len(before), status(t, dsn))
			}
			r, err := migrate.Remove(t.Context(), dsn, migrate.RemoveOptions{Lose: true})
			if err != nil || len(r.Lost) != 1 || !strings.Contains(r.Lost[0], says) {
				t.Errorf("with Lose: %+v, %v", r, err)
			}
		})
	}

	t.Run("daemons", func(t *testing.T) {
		t.Parallel()
		dsn := testenv.Database(t)
		store := testenv.OpenLocal(t, dsn)
		if err := store.CheckVersion(t.Context()); err != nil { // opens a connection
			t.Fatal(err)
		}
		if _, err := migrate.Remove(t.Context(), dsn, migrate.RemoveOptions{}); !errors.Is(err, migrate.ErrWouldLose) || !strings.Contains(err.Error(), "connections of this program are open") {
			t.Errorf("beside a daemon: %v, want it refused", err)
		}
	})
}

// After a removal that is interrupted between two tables, our daemons refuse the database, as triggers are
// missing. The next run continues.
func TestRemoveGoesOn(t *testing.T) {
	t.Parallel()
	dsn := testenv.PythonDatabase(t)
	conn := testenv.Connect(t, dsn)
	objects := catalogue(t, conn)
	testenv.Migrate(t, dsn, migrate.Options{})
	tx := testenv.Begin(t, testenv.Connect(t, dsn))
	testenv.Exec(t, tx, "lock table origin_visit_stats in row exclusive mode")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := migrate.Remove(ctx, dsn, migrate.RemoveOptions{Logger: slog.New(&onMessage{text: "waiting for a table", do: cancel})})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "table origin_visit_stats, held by") {
		t.Errorf("interrupted: %v, want what it waited for", err)
	}
	left := texts(t, conn, "select distinct tgrelid::regclass::text from pg_trigger where tgname like 'scheduler_go%' and tgrelid::regclass::text not like 'scheduler_go.%' order by 1")
	if strings.Join(left, " ") != "(origin_visit_stats) (task)" {
		t.Errorf("triggers are left on %v, want those removed that come before origin_visit_stats", left)
	}
	_, migrateErr := migrate.Run(t.Context(), dsn, migrate.Options{})
	for by, err := range map[string]error{"migrate": migrateErr, "a daemon": testenv.OpenLocal(t, dsn).CheckVersion(t.Context())} {
		if !errors.Is(err, migrate.ErrUnsupported) || !strings.Contains(err.Error(), "swh-scheduler migrate --remove") {
			t.Errorf("%s: %v, want the database refused", by, err)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		t.Fatal(err)
	}
	if _, err := migrate.Remove(t.Context(), dsn, migrate.RemoveOptions{Lose: true}); err != nil { // the connection that CheckVersion left
		t.Error(err)
	}
	if diff := cmp.Diff(objects, catalogue(t, conn)); diff != "" {
		t.Errorf("the schema public changed:\n%s", diff)
	}
}
