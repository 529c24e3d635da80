package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// twins are two databases with the same contents: the Python scheduler's commands use one, ours the other. Output and
// contents must stay equal.
type twins struct {
	t           *testing.T
	peer, ours  string // DSNs
	peerC, ourC string // configuration files

	ignore []*regexp.Regexp // parts of the output that may differ

	python *testenv.Script // testdata/peer.py
}

func newTwins(t *testing.T) *twins {
	t.Helper()
	w := &twins{t: t, peer: testenv.PythonDatabase(t), ours: testenv.PythonDatabase(t), ignore: []*regexp.Regexp{now}}
	const text = "scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: \"amqp://127.0.0.1:1//\"}\n"
	w.peerC, w.ourC = configFile(t, fmt.Sprintf(text, w.peer)), configFile(t, fmt.Sprintf(text, w.ours))

	w.python = testenv.StartScript(t, environment(), filepath.Join("testdata", "peer.py"))
	return w
}

// askPeer runs a command line of the Python scheduler.
func (w *twins) askPeer(env []string, args []string) result {
	w.t.Helper()
	variables := map[string]string{}
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		variables[name] = value
	}
	var answer struct {
		Code           int
		Stdout, Stderr string
	}
	w.python.Ask(w.t, map[string]any{"args": args, "env": variables}, &answer)
	return result{answer.Stdout, answer.Stderr, answer.Code}
}

// migrateOurs runs migrate on our database: some commands need our tables.
func (w *twins) migrateOurs() {
	w.t.Helper()
	if r := ours(w.t, "-C", w.ourC, "migrate"); r.code != 0 {
		w.t.Fatal(r.stderr)
	}
}

// execute runs statements on both databases.
func (w *twins) execute(statements string) {
	w.t.Helper()
	for _, dsn := range []string{w.peer, w.ours} {
		execute(w.t, dsn, statements)
	}
}

// execute runs statements on a database.
func execute(t *testing.T, dsn, statements string) {
	t.Helper()
	conn := testenv.Connect(t, dsn)
	defer conn.Close(context.WithoutCancel(t.Context()))
	testenv.Exec(t, conn, statements)
}

// value returns the only value of a query's only row.
func value(t *testing.T, dsn, query string) string {
	t.Helper()
	conn := testenv.Connect(t, dsn)
	defer conn.Close(context.WithoutCancel(t.Context()))
	return testenv.Value[string](t, conn, query)
}

// now matches times that depend on the start of a program: the time of day of a task's next run, and the time of
// metrics.
var now = regexp.MustCompile(`(Next run: (?:today|tomorrow) \(|"last_update": ")[^+)]*`)

// compare runs the same arguments through both programs and compares the results.
func (w *twins) compare(env []string, args ...string) {
	w.t.Helper()
	peer := w.askPeer(environment(env...), append([]string{"-C", w.peerC, "scheduler"}, args...))
	our := oursWith(w.t, env, append([]string{"-C", w.ourC}, args...)...)
	if our.code != peer.code {
		w.t.Errorf("%q: exit code %d, the Python scheduler's is %d\n%s\n%s", args, our.code, peer.code, our.stderr, peer.stderr)
	}
	got, want := our.stdout, peer.stdout
	for _, r := range w.ignore {
		got, want = r.ReplaceAllString(got, "$1"), r.ReplaceAllString(want, "$1")
	}
	if got != want {
		w.t.Errorf("%q:\n%s\nthe peer:\n%s\n%s", args, got, want, our.stderr)
	}
	if our.code != 0 && our.stderr == "" {
		w.t.Errorf("%q: nothing on standard error", args)
	}
}

// compareTables compares the tasks in the two databases.
func (w *twins) compareTables() {
	w.t.Helper()
	// Times of now and in a day depend on the start of a program.
	w.compareQuery(`select id, type, arguments, case
			when abs(extract(epoch from next_run - now())) < 3600 then null
			when abs(extract(epoch from next_run - now() - interval '1 day')) < 3600 then 'infinity'
			else next_run end, current_interval, status, policy, retries_left, priority from task order by id`)
}

// compareQuery compares the results of a query on the two databases.
func (w *twins) compareQuery(query string) {
	w.t.Helper()
	var contents [2]string
	for i, dsn := range []string{w.peer, w.ours} {
		contents[i] = value(w.t, dsn, "select coalesce(string_agg(t::text, E'\n'), '') from ("+query+") t")
	}
	if contents[0] != contents[1] {
		w.t.Errorf("%s\nours:\n%s\nthe peer's:\n%s", query, contents[1], contents[0])
	}
}

const someTaskTypes = `insert into task_type
	(type, backend_name, description, default_interval, min_interval, max_interval, backoff_factor, max_queue_length, num_retries, retry_delay)
	values ('load-git', 'swh.loader.git.tasks.UpdateGitRepository', 'Update an origin of type git', '64 days', '12:00:00', '64 days', 2, 5000, null, null),
	('list-x', 'swh.lister.X', E'Länger als\neine Zeile', '90 days', '1 day 02:03:04.5', '1 mon', 1.5, null, 3, '-1 day'),
	('list-X', 'swh.lister.X', 'Same task, another type', '1 year 2 mons', null, null, 1e16, 0, 0, '00:00:00.000001'),
	('bare', 'swh.bare', 'Nothing but what must be', null, null, null, null, null, null, null)`

// task add, task list-pending and task-type list print the Python scheduler's output and leave the same rows. Refused
// arguments have the same exit code.
func TestTaskCommandsSameAsThePythonScheduler(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	w.execute(someTaskTypes)
	for _, args := range [][]string{
		{"task-type", "list"},
		{"task-type", "list", "--verbose"},
		{"task-type", "list", "-v", "-t", "load-git", "--task_type", "nope"},
		{"task-type", "list", "-n", "swh.lister.X"},
		{"task-type", "list", "-t", "bare", "-n", "swh.lister.X"},
		{"task-type", "list", "--what"},
		{"task-type", "list", "extra"},
		{"task-type", "nope"},

		{"task", "add", "load-git", "url=https://example.org/a.git"},
		{"task", "add", "load-git", "url=https://example.org/a.git"}, // the task exists already
		{"task", "add", "load-git", "-p", "oneshot", "-P", "high", "url=https://example.org/?q=a=b", "n=1", "x=1.50", "y=1e3", "z=1.0e+30"},
		{"task", "add", "--policy=oneshot", "list-x", "--priority", "low", "--", "-5", "--flag"},
		{"task", "add", "list-x", "42", "4_2", "012", "0x1F", "1:30", "yes", "no", "~", "null", "", "3.0", ".5", "foo bar", "'quoted'", `"it's"`, `'"'`},
		{"task", "add", "load-git", "[a, {b: c, d: [1, 2.5, null]}, true]", "{1: a, yes: b, null: c, 1.50: d}", "k={z: 1, aa: 2, b: {}}", "empty=", "é=à"},
		{"task", "add", "load-git", "a=\"\\u00a0\\u200b\\u1234\\U0001F600\\x01\\n\\\\\"", "big=123456789012345678901234567890", "small=0.0000001"},
		{"task", "add", "load-git", "-n", "2030-01-02", "a=1"},
		{"task", "add", "load-git", "-n", "2030-01-02 03:04:05", "a=2"},
		{"task", "add", "load-git", "-n", "2030-01-02T03:04:05", "a=3"},
		{"task", "add", "load-git", "-n", "2030-01-02T03:04:05.678901+05:30", "a=4"},
		{"task", "add", "load-git", "-n", "2030-01-02T03:04Z", "a=5"},
		{"task", "add", "load-git", "-n", "Wed, 02 Jan 2030 03:04:05 -0800", "a=6"},
		{"task", "add", "load-git", "-n", "Jan 2 2030", "a=7"},
		{"task", "add", "load-git", "-n", "2 January 2030 10:11", "a=8"},
		{"task", "add", "load-git", "-n", "2001-02-03", "a=9"},
		{"task", "add", "load-git", "-n", "never", "a=10"},
		{"task", "add", "nope"},
		{"task", "add", "nope", "'"},
		{"task", "add"},
		{"task", "add", "load-git", "'"},
		{"task", "add", "load-git", "a=[1"},
		{"task", "add", "load-git", "a=2020-01-01"},
		{"task", "add", "load-git", "a=.nan"},
		{"task", "add", "load-git", "a=*x"},
		{"task", "add", "load-git", "a=!!python/object:x"},
		{"task", "add", "load-git", `a="\0"`},
		{"task", "add", "load-git", "--policy", "weekly"},
		{"task", "add", "load-git", "--polic", "oneshot"},
		{"task", "add", "load-git", "-5"},

		{"task", "list-pending", "load-git"},
		{"task", "list-pending", "load-git", "nope", "bare", "list-x"},
		{"task", "list-pending", "-l", "1", "bare"},
		{"task", "list-pending", "--limit=0", "bare"},
		{"task", "list-pending", "bare", "-b", "2030-01-02 03:04"},
		{"task", "list-pending", "bare", "--before", "2031-01-01T00:00:00+01:00"},
		{"task", "list-pending", "bare", "--before", "2000-01-01"},
		{"task", "list"},
		{"task", "list", "-t", "bare", "--task-type", "nope"},
		{"task", "list", "-i", "1", "-i", "3", "-i", "9999"},
		{"task", "list", "--status", "completed", "-s", "next_run_not_scheduled"},
		{"task", "list", "-p", "oneshot", "-P", "high", "-P", "low"},
		{"task", "list", "-P", "all"},
		{"task", "list", "-b", "2030-01-02 03:04", "--after", "2001-01-01"},
		{"task", "list", "--list-runs"},
		{"task", "list", "-i", "1", "-m"},
		{"task", "list", "-s", "nope"},
		{"task", "list", "-i", "x"},
		{"task", "list", "-l", "x"},
		{"task", "list", "-p", "weekly"},
		{"task", "list-pending"},
		{"task", "list-pending", "-l", "x", "bare"},
		{"task", "list-pendin", "bare"},
		{"task"},
	} {
		w.compare(nil, args...)
	}
	w.compareTables()
}

// Dates are printed in UTC, and read in it if they name no zone, whatever the database's zone and PGTZ are, as in the
// Python scheduler.
func TestDatesSameAsThePythonScheduler(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	w.execute(someTaskTypes + `; do $$ begin execute format('alter database %I set timezone to ''Asia/Kolkata''', current_database()); end $$`)
	for _, args := range [][]string{
		{"task", "add", "load-git", "-n", "2030-01-02 03:04:05", "a=1"},
		{"task", "add", "load-git", "-n", "2030-06-02T03:04:05Z", "a=2"},
		{"task", "add", "load-git", "-n", "2001-02-03", "a=3"},
		{"task", "list-pending", "load-git", "-b", "2030-01-02 03:04:05"},
		{"task", "list-pending", "load-git", "-b", "2030-01-02 03:04:04"},
		{"task", "respawn", "1", "-n", "2030-01-03 03:04:05"},
		{"task", "list", "--before", "2030-01-03 03:04:05", "--after", "2001-02-03"},
	} {
		w.compare(nil, args...)
	}
	w.compareTables()
	if n := value(t, w.ours, "select count(*)::text from task"); n != "3" { // a command may fail in both programs
		t.Errorf("%s tasks, want 3", n)
	}
	w.compare([]string{"PGTZ=America/New_York"}, "task", "list-pending", "load-git")
}

// Options can be set in the environment, under click's names.
func TestEnvironmentSameAsThePythonScheduler(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	w.execute(someTaskTypes)
	w.migrateOurs()
	for _, tc := range []struct {
		env  string
		args []string
	}{
		{"SWH_SCHEDULER_TASK_ADD_POLICY=oneshot", []string{"task", "add", "load-git"}},
		{"SWH_SCHEDULER_TASK_ADD_POLICY=weekly", []string{"task", "add", "load-git"}},
		{"SWH_SCHEDULER_TASK_ADD_POLICY=oneshot", []string{"task", "add", "load-git", "-p", "recurring", "a=1"}},
		{"SWH_SCHEDULER_TASK_ADD_NEXT_RUN=2030-01-01", []string{"task", "add", "load-git", "a=2"}},
		{"SWH_SCHEDULER_TASK_LIST_PENDING_NUM_TASKS=1", []string{"task", "list-pending", "bare"}},
		{"SWH_SCHEDULER_TASK_LIST_PENDING_NUM_TASKS=", []string{"task", "list-pending", "bare"}},
		{"SWH_SCHEDULER_TASK_LIST_PENDING_LIMIT=1", []string{"task", "list-pending", "bare"}},
		{"SWH_SCHEDULER_TASK_TYPE_LIST_VERBOSE=1", []string{"task-type", "list"}},
		{"SWH_SCHEDULER_TASK_TYPE_LIST_VERBOSE=Yes", []string{"task-type", "list"}},
		{"SWH_SCHEDULER_TASK_TYPE_LIST_VERBOSE=off", []string{"task-type", "list"}},
		{"SWH_SCHEDULER_TASK_TYPE_LIST_VERBOSE=maybe", []string{"task-type", "list"}},
		{"SWH_SCHEDULER_START_RUNNER_WITH_PRIORITY=maybe", []string{"start-runner"}},
		{"SWH_SCHEDULER_TASK_TYPE_LIST_TASK_TYPE=bare load-git", []string{"task-type", "list"}},
		{"SWH_SCHEDULER_TASK_LIST_TASK_ID=1 2", []string{"task", "list"}},
		{"SWH_SCHEDULER_TASK_LIST_STATUS=completed disabled", []string{"task", "list"}},
		{"SWH_SCHEDULER_ADD_FORGE_NOW_PRESET=nope", []string{"add-forge-now", "register-lister", "bare"}},
		{"SWH_SCHEDULER_ADD_FORGE_NOW_PRESET=staging", []string{"add-forge-now", "register-lister", "x"}},
		{"SWH_SCHEDULER_ORIGIN_PEEK_NEXT_WITH_HEADER=0", []string{"origin", "peek-next", "git", "1"}},
		{"SWH_SCHEDULER_ORIGIN_PEEK_NEXT_WITH_HEADER=0", []string{"origin", "peek-next", "git", "1", "--with-header"}},
		{"SWH_SCHEDULER_ORIGIN_PEEK_NEXT_WITH_HEADER=1", []string{"origin", "peek-next", "git", "1", "--without-header"}},
		{"SWH_SCHEDULER_ORIGIN_PEEK_NEXT_ENABLED=no", []string{"origin", "peek-next", "git", "1"}},
		{"SWH_SCHEDULER_ORIGIN_PEEK_NEXT_ABSOLUTE_COOLDOWN_STR=soon", []string{"origin", "peek-next", "git", "1"}},
		{"SWH_SCHEDULER_START_RUNNER_PERIOD=often", []string{"start-runner"}},
		{"SWH_SCHEDULER_START_RUNNER_TASK_TYPE_NAMES=nope", []string{"start-runner"}},
		{"SWH_LOG_LEVEL=loud", []string{"task-type", "list"}},
	} {
		w.compare([]string{tc.env}, tc.args...)
	}
}

// The Python scheduler's own task-type add refuses all arguments. Ours does what the Python scheduler's help promises.
func TestTaskTypeAdd(t *testing.T) {
	t.Parallel()
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", testenv.PythonDatabase(t)))
	for _, tc := range []struct {
		args []string
		want result
	}{
		{[]string{"a", "swh.a", "First"}, result{stdout: "OK\n"}},
		{[]string{"a", "swh.other", "There already"}, result{stdout: "a exists already, and is left unchanged\n"}},
		{[]string{"b", "swh.b", "Second", "-i", "1 day", "--min-interval", "12:00:00", "--max-interval=2 weeks", "-f", "2.5", "--max-queue-length", "5"}, result{stdout: "OK\n"}},
		{[]string{"c", "swh.c", "Third", "--min-interval", "soon"}, result{code: 2, stderr: "Usage: swh-scheduler task-type add [OPTIONS] TYPE TASK_NAME DESCRIPTION\nTry 'swh-scheduler task-type add --help' for help.\n\nError: Invalid value for '--min-interval': 'soon' is not an interval.\n"}},
		{[]string{"c", "swh.c", "Third", "--min-interval", "300 years"}, result{code: 2, stderr: "Usage: swh-scheduler task-type add [OPTIONS] TYPE TASK_NAME DESCRIPTION\nTry 'swh-scheduler task-type add --help' for help.\n\nError: Invalid value for '--min-interval': '300 years' is longer than 292 years.\n"}},
	} {
		if got := ours(t, append([]string{"-C", config, "task-type", "add"}, tc.args...)...); got != tc.want {
			t.Errorf("%q: got %+v, want %+v", tc.args, got, tc.want)
		}
	}
	want := `Known task types:
a: swh.a
  First
  interval: 90 days, 0:00:00 [None, None]
  backoff_factor: 1.0
  max_queue_length: 1000
  num_retries: None
  retry_delay: None

b: swh.b
  Second
  interval: 1 day, 0:00:00 [12:00:00, 14 days, 0:00:00]
  backoff_factor: 2.5
  max_queue_length: 5
  num_retries: None
  retry_delay: None

`
	if got := ours(t, "-C", config, "task-type", "list", "-v"); got.stdout != want {
		t.Errorf("got\n%s\nwant\n%s", got.stdout, want)
	}
}

// migrate makes an empty database usable. A second run has nothing to do, and --dry-run and --status change nothing.
func TestMigrate(t *testing.T) {
	t.Parallel()
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", testenv.Postgres(t)))
	for _, tc := range []struct {
		flag string
		want string
	}{
		{"--status", `\n  is empty\n  lacks 00350_`},
		{"--dry-run", `\n  scheduler schema, version 38: would be created\n  00350_\w+.sql: would be applied\n`},
		{"", `\n  scheduler schema, version 38: created\n  00350_\w+.sql: applied\n`},
		{"", `\n  nothing to do\n`},
		{"--dry-run", `\n  nothing to do\n`},
		{"--status", `\n  scheduler schema at version 38\n  applied 00350_`},
	} {
		args := []string{"-C", config, "-l", "warning", "migrate"}
		if tc.flag != "" {
			args = append(args, tc.flag)
		}
		r := ours(t, args...)
		if r.code != 0 || r.stderr != "" || !regexp.MustCompile(`^host=\S+ port=\d+ dbname=\S+ user=\S+:`+tc.want).MatchString(r.stdout) {
			t.Errorf("migrate %s: exit code %d, want %s\n%s%s", tc.flag, r.code, tc.want, r.stdout, r.stderr)
		}
	}
}
