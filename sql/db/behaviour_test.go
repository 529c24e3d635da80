package db_test

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

// The tests of the Python scheduler's backend pass on a database that migrate made.
func TestPeersBackendOnOurDatabase(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	testenv.Migrate(t, dsn, migrate.Options{})
	cmd := exec.CommandContext(t.Context(), testenv.Python(t), "-m", "pytest", "-q",
		"-p", "peer_tests", "-p", "no:cacheprovider", "-k", "not memory",
		"--pyargs", "swh.scheduler.tests.test_scheduler")
	cmd.Env = append(cmd.Environ(), "LC_ALL=C.UTF-8", "PYTHONPATH=testdata", "PYTHONDONTWRITEBYTECODE=1",
		"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", "SWH_TEST_DSN="+dsn)
	out, err := cmd.CombinedOutput()
	// The 73 deselected tests are those of the backend in memory; each also runs on the database.
	if err != nil || !regexp.MustCompile(`(?m)^73 passed, 73 deselected(, \d+ warnings?)? in .*$`).Match(out) {
		t.Errorf("want 73 tests passed and 73 left out: %v\n%s", err, out)
	}
}

// bothDatabases runs statements on a database of the Python scheduler and on one of ours, each in a
// transaction of its own. It compares the rows or the error.
type bothDatabases struct {
	t           *testing.T
	peers, ours *pgx.Conn
}

func newBothDatabases(t *testing.T) bothDatabases {
	dsn := testenv.Postgres(t)
	testenv.Migrate(t, dsn, migrate.Options{})
	b := bothDatabases{t: t, peers: testenv.Connect(t, testenv.PythonDatabase(t)), ours: testenv.Connect(t, dsn)}
	for _, conn := range []*pgx.Conn{b.peers, b.ours} {
		// Statistics that only one database has may change the order in which rows get their ids.
		testenv.Exec(t, conn, `
			set timezone to 'UTC';
			alter table task set (autovacuum_enabled = off);
			alter table task_run set (autovacuum_enabled = off)`)
	}
	return b
}

// run runs the statements of one transaction and compares the rows of the last one.
func (b bothDatabases) run(statements ...string) []string {
	b.t.Helper()
	want, got := b.on(b.peers, statements), b.on(b.ours, statements)
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("%s (-peer +ours):\n%s", statements[len(statements)-1], diff)
	}
	return want
}

func (b bothDatabases) on(conn *pgx.Conn, statements []string) []string {
	b.t.Helper()
	var lines []string
	err := pgx.BeginFunc(b.t.Context(), conn, func(tx pgx.Tx) error {
		for _, statement := range statements {
			rows, err := tx.Query(b.t.Context(), statement)
			if err != nil {
				return err
			}
			lines = nil
			for rows.Next() {
				values, err := rows.Values()
				if err != nil {
					return err
				}
				lines = append(lines, fmt.Sprint(values...))
			}
			if err := rows.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &pgErr):
		return []string{"error " + pgErr.Code}
	case err != nil:
		b.t.Fatal(err)
	}
	return lines
}

// When a run ends, its task moves on exactly as in the Python scheduler's database, for every status,
// policy, number of retries and setting of the task type.
func TestTriggerIsThePeers(t *testing.T) {
	t.Parallel()
	b := newBothDatabases(t)
	or := func(values ...string) []string { return append(values, "null") }
	cases := 0
	for _, factor := range or("1", "2", "0.7", "0") {
		for _, bounds := range []string{
			"null, null", "'1 hour', null", "null, '10 days'", "'1 hour', '10 days'", "'3 days', '2 days'", "'1 month', '1 year'",
		} {
			for _, retries := range []string{"null, null", "3, '2 hours'", "0, '1 day'"} {
				b.run("truncate task_type, task, task_run restart identity",
					fmt.Sprintf(`insert into task_type (type, description, backend_name, default_interval,
						backoff_factor, min_interval, max_interval, num_retries, retry_delay)
						values ('t', '', '', '1 day', %s, %s, %s)`, factor, bounds, retries),
					// One task for each combination of policy, retries and interval.
					`insert into task (type, arguments, next_run, status, policy, retries_left, current_interval)
						select 't', '{}', '2020-01-01', 'next_run_scheduled', policy, left_, pause
						from unnest(array['recurring', 'oneshot']::task_policy[]) policy,
						     unnest(array[0, 1, 5]) left_,
						     unnest(array['1 day', '1 month 3 days', null]::interval[]) pause
						where policy = 'oneshot' or pause is not null`,
					// One run of each task, for each new status and time.
					`insert into task_run (task, backend_id) select id, id::text from task order by task.id`)
				for _, status := range []string{"scheduled", "started", "eventful", "uneventful", "failed", "permfailed", "lost"} {
					for _, ended := range or("2021-02-27 12:00+00") {
						if ended != "null" {
							ended = "'" + ended + "'"
						}
						cases += len(b.run(
							"update task set status = 'next_run_scheduled', next_run = '2020-01-01'",
							fmt.Sprintf("update task_run set status = '%s', ended = %s", status, ended),
							"select t::text from task t order by id"))
					}
				}
			}
		}
	}
	if cases == 0 {
		t.Error("nothing was compared")
	}
	// A result recorded twice counts twice: so does the trigger of a deployed database.
	got := b.run(
		`update task_type set backoff_factor = 2, min_interval = null, max_interval = null`,
		`update task set policy = 'recurring', current_interval = '8 days', status = 'next_run_scheduled'`,
		`update task_run set status = 'eventful', ended = '2021-01-01'`,
		`update task_run set status = 'eventful', ended = '2021-01-01'`,
		`select distinct current_interval::text from task`)
	if diff := cmp.Diff([]string{"2 days"}, got); diff != "" {
		t.Errorf("a result noted twice (-want +got):\n%s", diff)
	}
}

// The functions that create, read, mark and archive tasks, and that count origins, return the same as the
// Python scheduler's on the same rows.
func TestFunctionsAreThePeers(t *testing.T) {
	t.Parallel()
	b := newBothDatabases(t)
	b.run(`insert into task_type (type, description, backend_name, default_interval, num_retries)
		values ('a', '', 'x.a', '1 day', 3), ('b', '', 'x.b', '2 hours', null), ('c', '', 'x.c', null, 1)`)

	// Some tasks are new, some exist already, some come twice in one call.
	create := func(rows string) {
		t.Helper()
		b.run("select swh_scheduler_mktemp_task()",
			"insert into tmp_task (type, arguments, next_run, status, policy, retries_left, priority) "+rows,
			`select id, type, arguments::text, next_run::text, current_interval::text, status::text, policy::text, retries_left, priority::text
			   from swh_scheduler_create_tasks_from_temp() order by id`)
		b.run("select t::text from task t order by id")
	}
	many := `select types[1 + n %% 2], jsonb_build_object('args', jsonb_build_array(n %% %d), 'kwargs', '{}'::jsonb),
			timestamptz '2020-01-01' + n %% 5 * interval '1 hour', 'next_run_not_scheduled'::task_status,
			policies[1 + n / 2 %% 2], nullif(n %% 4, 0), priorities[1 + n %% 5]
		from generate_series(%d, %d) n,
		     (select array['a', 'b'] as types, array['recurring', 'oneshot']::task_policy[] as policies,
		             array[null, null, 'high', 'normal', 'low']::task_priority[] as priorities) choice`
	create(fmt.Sprintf(many, 7, 1, 60))
	create(fmt.Sprintf(many, 7, 30, 90))
	create(fmt.Sprintf(many, 400, 1, 200))
	create(`values ('a', '{}'::jsonb, now(), null::task_status, 'oneshot'::task_policy, 0, null::task_priority)`)
	create(`values ('c', '{"args": [], "kwargs": {}}'::jsonb, now(), 'next_run_not_scheduled'::task_status, 'recurring'::task_policy, 0, null::task_priority)`)
	create(`values ('none', '{"args": [], "kwargs": {}}'::jsonb, now(), 'next_run_not_scheduled'::task_status, 'oneshot'::task_policy, 0, null::task_priority)`)
	create(`values ('c', '{"args": [], "kwargs": {}}'::jsonb, timestamptz '2020-01-01', 'completed'::task_status, 'oneshot'::task_policy, null, 'low'::task_priority)`)
	// The order of rows with the same time is undefined: each row gets its own.
	b.run("update task set next_run = next_run + id * interval '1 second'")

	for _, function := range []string{
		"swh_scheduler_peek_no_priority_tasks('a')",
		"swh_scheduler_peek_no_priority_tasks('b', '2020-01-01 02:00')",
		"swh_scheduler_peek_no_priority_tasks('b', '2020-01-01 02:00', 3)",
		"swh_scheduler_peek_no_priority_tasks('none')",
		"swh_scheduler_peek_tasks_with_priority('a')",
		"swh_scheduler_peek_tasks_with_priority('a', '2020-01-01 03:00', 4, 'high')",
		"swh_scheduler_peek_tasks_with_priority('b', now(), null, 'low')",
		"swh_scheduler_peek_any_ready_priority_tasks('a')",
		"swh_scheduler_peek_any_ready_priority_tasks('b', '2020-01-01 05:00', 5)",
	} {
		if len(b.run("select f::text from "+function+" f")) == 0 && !strings.Contains(function, "none") {
			t.Errorf("%s gives nothing: the rows do not try it", function)
		}
	}
	for _, function := range []string{
		"swh_scheduler_grab_ready_tasks('a', '2020-01-01 02:00', 5)",
		"swh_scheduler_grab_ready_tasks('b')",
		"swh_scheduler_grab_any_ready_priority_tasks('a', '2020-01-01 03:00', 7)",
		"swh_scheduler_grab_any_ready_priority_tasks('b')",
	} {
		b.run("select f::text from " + function + " f order by id")
		b.run("select t::text from task t order by id")
	}

	// Runs.
	for _, statement := range []string{
		`select * from swh_scheduler_schedule_task_run(1, 'one', '{"k": 1}', '2020-02-01')`,
		`select id, task, backend_id, metadata::text, scheduled = now(), status::text from swh_scheduler_schedule_task_run(2, 'two')`,
		`update task_run set scheduled = '2020-02-01' where backend_id = 'two'`,
		`select * from swh_scheduler_schedule_task_run(999999, 'none', '{}', '2020-02-01')`,
		`select * from swh_scheduler_start_task_run('one', '{"worker": "w"}', '2020-02-02')`,
		`select * from swh_scheduler_start_task_run('nobody', '{}', '2020-02-02')`,
		`select * from swh_scheduler_end_task_run('one', 'eventful', '{"k": 2}', '2020-02-03')`,
		`select * from swh_scheduler_end_task_run('one', 'failed', '{}', '2020-02-04')`,
		`select * from swh_scheduler_end_task_run('two', 'permfailed', null, '2020-02-04')`,
		`select * from swh_scheduler_end_task_run('nobody', 'failed', '{}', '2020-02-04')`,
	} {
		b.run(statement)
		b.run("select t::text from task t where id in (1, 2) order by id")
	}
	b.run("select swh_scheduler_mktemp_task_run()",
		`insert into tmp_task_run (task, backend_id, scheduled, metadata)
			select id, 'run ' || id, '2020-03-01', '{}' from task order by id`,
		"select swh_scheduler_schedule_task_run_from_temp()")
	b.run(`update task_run set started = scheduled + task * interval '1 hour' where task % 3 > 0`)
	b.run(`update task set status = (array['completed', 'disabled', 'next_run_scheduled'])[1 + id % 3]::task_status`)
	b.run("select r.id, task, scheduled::text, started::text, ended::text, metadata::text, status::text from task_run r order by id")

	// Archiving, page by page, and deleting.
	for _, span := range []string{
		"'2020-01-01', '2020-04-01'", "'2020-01-01', '2020-04-01', 20, 7", "'2020-03-02', '2020-03-03', -1, 1000",
		"'2020-03-01', '2020-03-01 05:00', 4, 1000", "'2020-03-01', '2030-01-01', -1, 100000", "null, '2030-01-01'",
	} {
		b.run("select f::text from swh_scheduler_task_to_archive(" + span + ") f order by task_id, started, task_run_id")
	}
	b.run("select swh_scheduler_delete_archived_tasks(array(select id from task where id % 2 = 0), array(select id from task_run where id % 3 > 0))")
	b.run("select id from task order by id")
	b.run("select id from task_run order by id")

	// Counts of origins.
	b.run(`insert into listers (id, name, instance_name, current_state, updated)
		select ('00000000-0000-4000-8000-00000000000' || n)::uuid, 'l', n::text, '{}', '2020-01-01' from generate_series(1, 3) n`)
	b.run(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
		select ('00000000-0000-4000-8000-00000000000' || 1 + n % 3)::uuid, 'u' || n, (array['git', 'hg'])[1 + n % 2], '{}', n % 5 > 0, '2020-01-01',
		       case when n % 4 > 0 then timestamptz '2020-01-01' + n * interval '1 day' end
		from generate_series(1, 200) n`)
	b.run(`insert into origin_visit_stats (url, visit_type, last_snapshot, last_successful)
		select 'u' || n, (array['git', 'hg'])[1 + n % 2], case when n % 3 > 0 then '\x00'::bytea end,
		       case when n % 7 > 0 then timestamptz '2020-04-01' end
		from generate_series(1, 150) n`)
	for _, call := range []string{
		"update_metrics('00000000-0000-4000-8000-000000000001', '2020-05-01')",
		"update_metrics(null, '2020-06-01')",
		"update_metrics('00000000-0000-4000-8000-000000000002', '2020-07-01')",
		"update_metrics('00000000-0000-4000-8000-00000000000f', '2020-08-01')",
	} {
		b.run("select f::text from " + call + " f order by lister_id, visit_type")
		b.run("select m::text from scheduler_metrics m order by lister_id, visit_type")
	}
	b.run("select count(*) filter (where last_update = now()) from update_metrics()")
}
