package migrate_test

import (
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/candidates"
	"swh-scheduler/sql/migrate"
)

// beforeSquash are the numbers of the migrations that the squashed ones replace.
var beforeSquash = []int64{
	350, 370, 380, 390, 400, 410, 420, 430, 440, 450, 490, 500, 510, 520, 530, 540, 555, 560, 561, 562, 565, 570, 575, 580, 585, 590, 598, 600,
}

// workInEveryState is one row of each state of the ledger, a waiting task of a graph, and a held failed
// visit.
const workInEveryState = `
	insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, settled, share_group, cost,
	  lane_set, lane, memory, lister, first, behind, hosters)
	select gen_random_uuid(), state, 'q', 'q', 't', '[1]', '{"b": 1, "a": 1.0}', case when state = 'settled' then now() end, 'g', 1,
	       'load-git', 0, 42, 'gitea', true, 0, '{gitea/a}'
	from unnest('{backlog,outgoing,sent,settled}'::text[]) state;
	insert into scheduler_go.graph_tasks (task, graph, name, any_result, dependencies) select id, 1, 'n', false, 1 from task;
	update task set next_run = scheduler_go.never();
	insert into scheduler_go.held_visits values (gen_random_uuid(), 'https://a', 'git', now());`

// sinceDropped creates the objects that only the migrations before the squash create.
const sinceDropped = `
	create function scheduler_go.settle_graph_tasks(bigint, bigint, timestamptz) returns bigint language sql as 'select 1::bigint';
	update scheduler_go.compatible set since = 520;`

// migratedBefore is a database with work in every state, with so many of the migrations before the squash
// recorded as applied. It has the objects of the squashed ones, and of none after them.
func migratedBefore(t *testing.T, n int) string {
	t.Helper()
	dsn := testenv.Database(t)
	conn := testenv.Connect(t, dsn)
	testenv.Exec(t, conn, `
		alter table scheduler_go.migrations set schema public;
		drop schema scheduler_go cascade;
		create schema scheduler_go;
		comment on schema scheduler_go is 'What the Go swh-scheduler adds; may be dropped to go back to the Python one';
		alter table migrations set schema scheduler_go`)
	files, _ := filepath.Glob("../migrations/*.sql")
	for _, file := range files {
		if version, _ := strconv.ParseInt(filepath.Base(file)[:5], 10, 64); version <= slices.Max(beforeSquash) {
			testenv.Exec(t, conn, string(testenv.Read(t, file)))
		}
	}
	if err := candidates.BuildAll(t.Context(), conn, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	testenv.Exec(t, conn, samples+workInEveryState+sinceDropped+"delete from scheduler_go.migrations where version_id > 0")
	testenv.Exec(t, conn, "insert into scheduler_go.migrations (version_id, is_applied) select v, true from unnest($1::bigint[]) v", beforeSquash[:n])
	return dsn
}

// ownRows returns every row of our tables, without the list of migrations, new tables and new columns.
func ownRows(t *testing.T, dsn string) map[string][]string {
	t.Helper()
	conn, rows := testenv.Connect(t, dsn), map[string][]string{}
	for _, table := range testenv.Column[string](t, conn, "select oid::regclass::text from pg_class where relnamespace = 'scheduler_go'::regnamespace and relkind = 'r' and relname not in ('migrations', 'compatible', 'door')") {
		columns := testenv.Value[string](t, conn, `select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
			where attrelid = $1::text::regclass and attnum > 0 and not attisdropped and attname <> all(coalesce($2::text[], '{}'))`, table, newColumns[table])
		rows[table] = texts(t, conn, "select "+columns+" from "+table+" r order by r::text")
	}
	return rows
}

// newColumns are columns that migrations after the squash added, by table.
var newColumns = map[string][]string{"scheduler_go.refusing_hosters": {"seconds", "ended"}, "scheduler_go.hoster_claims": {"paced"}, "scheduler_go.candidate_changes": {"listed"}, "scheduler_go.freshness": {"news", "wait"}}

// A database with all migrations before the squash lacks only the later ones, which make it equal to a new
// one. Its work in flight doesn't change.
func TestMigratedBeforeTheSquash(t *testing.T) {
	t.Parallel()
	dsn, empty := migratedBefore(t, len(beforeSquash)), testenv.Database(t)
	objects, rows := catalogueOf(t, testenv.Connect(t, empty), "scheduler_go"), ownRows(t, dsn)
	since := []string{"00610_older_programs.sql", "00620_work_room.sql", "00621_note_listed_origins.sql", "00622_note_visit_stats.sql",
		"00623_changes_of_visits.sql", "00624_drain.sql", "00625_check_candidates.sql", "00630_sessions.sql", "00645_ended_past.sql", "00646_failures.sql", "00647_running.sql", "00648_visit_turns.sql", "00653_graph_states.sql", "00654_door_comment.sql", "00657_figures.sql", "00663_failed_past.sql", "00670_hints.sql", "00680_hosters_that_refuse.sql", "00690_full_listings.sql", "00700_news_quality.sql", "00720_pace_of_hosters.sql", "00740_lister_weights.sql", "00741_quality_of_hints.sql", "00750_lean_triggers.sql", "00760_work_of_hosters.sql", "00770_outgoing_work.sql", "00780_outgoing_due.sql", "00790_graph_deadlines.sql"}
	if s := status(t, dsn); !slices.Equal(s.Pending, since) || len(s.Newer) > 0 {
		t.Errorf("%+v, want it to lack %v", s, since)
	}
	if done := testenv.Migrate(t, dsn, migrate.Options{}); !slices.Equal(done.Applied, since) {
		t.Errorf("did %+v, want %v", done, since)
	}
	if n := testenv.Value[int](t, testenv.Connect(t, dsn), "select since from scheduler_go.compatible"); n != 570 {
		t.Errorf("programs from %d on can work with it, want 570", n)
	}
	if err := testenv.OpenLocal(t, dsn).CheckVersion(t.Context()); err != nil {
		t.Error(err)
	}
	after := ownRows(t, dsn)
	maps.DeleteFunc(after, func(table string, content []string) bool { // the new tables
		_, before := rows[table]
		return !before && len(content) == 0
	})
	if diff := cmp.Diff(rows, after); diff != "" {
		t.Errorf("rows changed:\n%s", diff)
	}
	if diff := cmp.Diff(objects, catalogueOf(t, testenv.Connect(t, dsn), "scheduler_go")); diff != "" {
		t.Errorf("objects changed:\n%s", diff)
	}
	testenv.Exec(t, testenv.Connect(t, dsn), "insert into scheduler_go.migrations (version_id, is_applied) values (4711, true)")
	if s := status(t, dsn); !s.Ready() || !slices.Equal(s.Newer, []int64{4711}) {
		t.Errorf("with a newer program's migration: %+v", s)
	}
}

// A database with only some of the migrations before the squash is refused, and its work doesn't change.
// The error has the remedy: a removal, then a new start.
func TestMigratedToBeforeTheSquash(t *testing.T) {
	t.Parallel()
	dsn := migratedBefore(t, len(beforeSquash)-1)
	rows := ownRows(t, dsn)
	_, migrateErr := migrate.Run(t.Context(), dsn, migrate.Options{})
	for by, err := range map[string]error{"migrate": migrateErr, "a daemon": testenv.OpenLocal(t, dsn).CheckVersion(t.Context())} {
		if !errors.Is(err, migrate.ErrUnsupported) || !strings.Contains(err.Error(), `migration 598, and can be upgraded from 600 on only: run "swh-scheduler migrate" of a version`) {
			t.Errorf("%s: %v, want it refused, and what to do", by, err)
		}
	}
	if _, err := migrate.Remove(t.Context(), dsn, migrate.RemoveOptions{}); !errors.Is(err, migrate.ErrWouldLose) {
		t.Errorf("removal: %v, want it refused", err)
	}
	if diff := cmp.Diff(rows, ownRows(t, dsn)); diff != "" {
		t.Errorf("rows changed:\n%s", diff)
	}
	if _, err := migrate.Remove(t.Context(), dsn, migrate.RemoveOptions{Lose: true}); err != nil {
		t.Fatal(err)
	}
	if done := testenv.Migrate(t, dsn, migrate.Options{}); done.CreatedBase || len(done.Applied) == 0 {
		t.Errorf("after the removal: did %+v, want migrations only", done)
	}
}
