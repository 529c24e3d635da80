package db_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// since190 are the migrations after those that the upgrade stands for.
var since190 = []string{
	"00210_set_aside.sql", "00220_candidates_listed_origins.sql", "00221_candidates_visit_stats.sql", "00230_configured_lanes.sql",
	"00240_bounded_changes.sql", "00280_marked_candidates.sql", "00281_marked_visit_stats.sql",
	"00300_walks.sql", "00310_compatible.sql", "00320_graph_walks.sql", "00321_archive.sql", "00322_check_candidates.sql",
	"00323_low_water.sql", "00330_drain_in_place.sql", "00350_definers.sql", "00370_hosters.sql", "00371_failures_in_a_row.sql",
	"00380_graph_conditions.sql", "00381_graph_keys.sql", "00382_final_time_outs.sql",
	"00390_message_priority.sql", "00391_turn.sql", "00392_share_sources.sql", "00400_forks_and_freshness.sql",
	"00401_forks_listed_origins.sql", "00410_actions.sql", "00415_ended.sql", "00416_daemons.sql",
	"00420_expected_runtime.sql", "00430_outgoing_due.sql", "00440_changes_low_water.sql", "00450_freshness.sql",
	"00490_graph_failures.sql", "00500_graph_places.sql", "00510_graph_reads.sql", "00520_action_in_hand.sql",
}

// version80 is a database of the peer's with our tables as the program before made them.
func version80(t *testing.T) string {
	t.Helper()
	dsn := testenv.PeerDatabase(t)
	made := testenv.Read(t, "testdata/version80.sql")
	execute(t, dsn, string(made))
	return dsn
}

// An upgraded database is, object by object, one that the migrations made, and there is
// nothing more to do.
func TestUpgradeLeadsToTheMigrations(t *testing.T) {
	t.Parallel()
	fresh, upgraded := testenv.PeerDatabase(t), version80(t)
	migrate(t, fresh, db.MigrateOptions{})

	want := append([]string{"upgrade/80.sql"}, since190...)
	if s := status(t, upgraded); len(s.Applied) != 0 || !cmp.Equal(s.Pending, want) {
		t.Errorf("before: %+v, want only %v to do", s, want)
	}
	if err := open(t, upgraded).CheckVersion(t.Context()); !errors.Is(err, db.ErrNotMigrated) || !strings.Contains(err.Error(), want[0]) {
		t.Errorf("before: %v, want ErrNotMigrated and what lacks", err)
	}
	planned := migrate(t, upgraded, db.MigrateOptions{DryRun: true})
	done := migrate(t, upgraded, db.MigrateOptions{})
	if diff := cmp.Diff(done, planned); diff != "" || !cmp.Equal(done.Applied, want) {
		t.Errorf("did %+v, want %v (-done +announced):\n%s", done, want, diff)
	}
	if again := migrate(t, upgraded, db.MigrateOptions{}); !again.Nothing() {
		t.Errorf("the second run did %+v, want nothing", again)
	}
	s := status(t, upgraded)
	s.Database = status(t, fresh).Database
	if diff := cmp.Diff(status(t, fresh), s); diff != "" {
		t.Errorf("status (-fresh +upgraded):\n%s", diff)
	}

	conns := []*pgx.Conn{connect(t, fresh), connect(t, upgraded)}
	objects := catalogueOf(t, conns[0], "scheduler_go")
	if len(objects) < 300 {
		t.Fatalf("scheduler_go has %d objects: the catalogue query finds too little", len(objects))
	}
	if diff := cmp.Diff(objects, catalogueOf(t, conns[1], "scheduler_go")); diff != "" {
		t.Errorf("objects (-fresh +upgraded):\n%s", diff)
	}
	for _, query := range []string{
		`select pg_get_triggerdef(t.oid), tgenabled from pg_trigger t join pg_proc p on p.oid = tgfoid
		 where pronamespace = 'scheduler_go'::regnamespace order by 1`,
		"select proname, pg_get_functiondef(oid) from pg_proc where pronamespace = 'scheduler_go'::regnamespace order by 1",
		"select version_id, is_applied from scheduler_go.migrations order by 1",
		"select * from scheduler_go.candidate_build",
	} {
		if diff := cmp.Diff(texts(t, conns[0], query), texts(t, conns[1], query)); diff != "" {
			t.Errorf("%s (-fresh +upgraded):\n%s", query, diff)
		}
	}
}

// What was in flight when the ledgers were five tables is in the one that took their
// place, in the same state: by number, a plain message, one that the broker refused,
// messages of groups and of lanes in each state, what is still to be learnt of
// messages that have ended, and one that was being written when the upgrade began.
func TestUpgradeKeepsWorkInEveryState(t *testing.T) {
	t.Parallel()
	dsn := version80(t)
	execute(t, dsn, `
		create function id(n int) returns uuid language sql as $$ select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid $$;
		insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git');
		insert into scheduler_go.outbox (queue, task_id, task_name, args, kwargs, urgent, created_at, not_before, attempts, last_error, time_limit, soft_time_limit, root_id) values
			('swh.git', id(1), 'swh.git', '[1]', '{"b": 1, "a": 1.0}', false, '2026-01-01', '-infinity', 0, null, null, null, null),
			('swh.git', id(2), 'swh.git', '[]', '{}', true, '2026-01-02', '2026-02-01', 3, 'no queue', null, null, null),
			('swh.git', id(3), 'swh.git', '[]', '{}', false, '2026-01-03', '-infinity', 0, null, null, null, null),
			('express', id(6), 'swh.git', '[]', '{}', false, '2026-01-06', '-infinity', 0, null, 66, 60, id(5));
		insert into scheduler_go.in_flight (task_id, queue, share_group, cost, claimed, started) values
			(id(3), 'swh.git', 'gitea', 5, '2026-01-03', null),
			(id(4), 'swh.git', 'gitlab', 6, '2026-01-04', 1000),
			(id(7), 'swh.git', 'gitlab', 7, '2026-01-05', null);
		insert into scheduler_go.lane_work (task_id, root_id, line, lane, sent, timed_out, since, claimed, task_name, args, kwargs, urgent, queue,
			memory, lister, first, behind, visit_type, url, lane_name, soft_limit, hard_limit, below, lanes_left, started) values
			(id(6), id(5), 'load-git', 0, true, 1, '2026-01-07', '2026-01-06', 'swh.git', '[]', '{}', false, 'express',
			 42, 'gitea', true, 3, 'git', 'https://a', 'express', 60, 66, null, 1, null),
			(id(7), id(7), 'load-git', 1, false, 0, '2026-01-05', '2026-01-05', 'swh.git', '[2]', '{}', false, 'swh.git',
			 43, 'gitlab', false, 0, 'git', 'https://b', null, null, null, 60, 0, null),
			(id(8), id(8), 'save_code_now:load-git', 0, true, 0, '2026-01-08', '2026-01-08', 'swh.git', '[]', '{}', true, 'express:save_code_now',
			 44, '', false, 0, null, null, 'express', 60, 66, null, 1, 2000);
		insert into scheduler_go.share_ended values (id(10), 'swh.git', 'gitea', 9, '2026-01-10'), (id(11), 'swh.git', 'gitea', 8, '2026-01-11');
		insert into scheduler_go.lane_ended (task_id, line, lane_name, memory, lister, first, behind, below, claimed, heard) values
			(id(11), 'load-git', 'express', 45, 'gitea', false, 0, null, '2026-01-09', '2026-01-11'),
			(id(12), 'load-git', 'slow', 46, 'gitea', false, 0, 60, null, '2026-01-12');
		insert into scheduler_go.lane_history values ('load-git', 'express', '2026-01-01', 'ended', 0, 5);
		insert into scheduler_go.lane_sketches values ('load-git', '', false, 3, 1.5, '2026-01-01')`)
	conn := connect(t, dsn)
	writer := testenv.Begin(t, conn)
	testenv.Exec(t, writer, `insert into scheduler_go.outbox (queue, task_id, task_name, args, kwargs, created_at)
		values ('swh.git', id(13), 'swh.git', '[]', '{}', '2026-01-13')`)
	waiting, written := make(chan struct{}), make(chan error, 1)
	go func() {
		<-waiting
		written <- writer.Commit(t.Context())
	}()
	migrate(t, dsn, db.MigrateOptions{Logger: slog.New(slog.NewTextHandler(&onText{text: "waiting for a table", seen: waiting}, nil))})
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	want := []string{
		"1 outgoing swh.git - [1] {\"b\": 1, \"a\": 1.0} f 2026-01-01 - - 0 - - -",
		"2 outgoing swh.git - [] {} t 2026-01-02 - - 3 - - -",
		"3 outgoing swh.git swh.git [] {} f 2026-01-03 2026-01-03 - 0 gitea/5 - -",
		"4 sent swh.git swh.git [] {} f 2026-01-04 2026-01-04 1000 0 gitlab/6 - -",
		"6 outgoing express swh.git [] {} f 2026-01-06 2026-01-07 - 0 - load-git/0/express/1/60/66/-/1/42 https://a",
		"7 backlog swh.git swh.git [2] {} f 2026-01-05 2026-01-05 - 0 gitlab/7 load-git/1/-/0/-/-/60/0/43 https://b",
		"8 sent express:save_code_now swh.git [] {} t 2026-01-08 2026-01-08 2000 0 - save_code_now:load-git/0/express/0/60/66/-/1/44 -",
		"10 settled swh.git swh.git [] {} f 2026-01-10 2026-01-10 - 0 gitea/9 - -",
		"11 settled swh.git swh.git [] {} f 2026-01-09 2026-01-11 - 0 gitea/8 load-git/0/express/0/-/-/-/0/45 -",
		"12 settled   [] {} f 2026-01-12 2026-01-12 - 0 - load-git/0/slow/1/-/-/60/0/46 -",
		"13 outgoing swh.git - [] {} f 2026-01-13 - - 0 - - -",
	}
	got := testenv.Column[string](t, conn, `select concat_ws(' ', right(task_id::text, 12)::int, state, queue, coalesce(home, '-'), args, kwargs, urgent,
			claimed::date, coalesce(since::date::text, '-'), coalesce(started::text, '-'), attempts,
			coalesce(share_group || '/' || cost, '-'),
			coalesce(lane_set || '/' || concat_ws('/', lane, coalesce(lane_name, '-'), timed_out, coalesce(soft_limit::text, '-'), coalesce(hard_limit::text, '-'),
				coalesce(below::text, '-'), lanes_left, memory), '-'),
			coalesce(url, '-')) from scheduler_go.work order by task_id`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if left := texts(t, conn, "select lane_set from scheduler_go.lane_history union all select lane_set from scheduler_go.lane_sketches"); len(left) != 2 {
		t.Errorf("of the history of lanes %v is left", left)
	}
	if put := texts(t, conn, "select last_error, not_before::date from scheduler_go.work where attempts = 3"); len(put) != 1 || put[0] != `("no queue",2026-02-01)` {
		t.Errorf("refused: %v", put)
	}
	if root := texts(t, conn, "select right(root_id::text, 1) from scheduler_go.work where root_id is not null"); len(root) != 1 || root[0] != "(5)" {
		t.Errorf("first tries: %v", root)
	}
}
