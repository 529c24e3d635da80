package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// someOrigins are listed origins of three listers, with and without visits.
const someOrigins = `
	insert into listers (id, name, instance_name, current_state, updated) values
		('00000000-0000-4000-8000-000000000001', 'gitlab', 'example', '{}', '2024-01-01Z'),
		('00000000-0000-4000-8000-000000000002', 'pypi', '', '{}', '2024-01-01Z'),
		('00000000-0000-4000-8000-000000000003', 'empty', 'forge', '{}', '2024-01-01Z'),
		('00000000-0000-4000-8000-000000000004', 'unscheduled', 'forge', '{}', '2024-01-01Z');
	insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, first_seen, last_seen, last_update, is_fork, forked_from_url)
	select '00000000-0000-4000-8000-000000000001', 'https://gitlab.example/' || n, 'git',
		case n % 4 when 0 then '{"b": [1, 2.5, null], "a": {"é": "it''s, \"x\""}}'::jsonb when 1 then '{"lister_name": "other"}' else '{}' end,
		n % 7 <> 0, '2024-01-01 00:00:00.5Z'::timestamptz + n * interval '1 second', '2024-06-01Z'::timestamptz + n * interval '1 hour',
		case when n % 3 > 0 then '2024-05-01Z'::timestamptz + n * interval '1 day' end, case n % 3 when 0 then true when 1 then false end,
		case when n % 5 = 0 then 'https://gitlab.example/a,b' end
	from generate_series(1, 40) n;
	insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, first_seen, last_seen)
	values ('00000000-0000-4000-8000-000000000002', 'https://pypi.org/日本語 "q"', 'pypi', '{}', true, '2024-01-01Z', '2024-06-01Z'),
		('00000000-0000-4000-8000-000000000002', 'https://pypi.org/b  ', 'pypi', '{}', true, '2024-01-01Z', '2024-06-01Z'),
		('00000000-0000-4000-8000-000000000004', 'https://unscheduled/', 'pypi', '{}', true, '2024-01-01Z', '2024-06-01Z');
	insert into origin_visit_stats (url, visit_type, last_scheduled, last_visit, last_visit_status, last_successful, last_snapshot, next_visit_queue_position)
	select 'https://gitlab.example/' || n, 'git', '2024-07-01Z'::timestamptz - n * interval '1 minute',
		'2024-07-02Z'::timestamptz + n * interval '1 second',
		(array['successful', 'failed', 'not_found', null])[n % 4 + 1]::last_visit_status,
		case when n % 4 = 0 then '2024-07-02Z'::timestamptz end, case when n <= 30 then '\x0000000000000000000000000000000000000001'::bytea end, n
	from generate_series(1, 40) n; -- without ties, whose order is nobody's promise
	insert into origin_visit_stats (url, visit_type, last_scheduled) values ('https://pypi.org/b  ', 'pypi', now());
	insert into task_type (type, backend_name, description, default_interval, min_interval, max_interval, backoff_factor, max_queue_length)
	select t, 'swh.' || t, 'A loader or lister', '1 day', '1 day', '1 day', 1, 100
	from unnest(array['load-pypi', 'list-both-full', 'list-both-incremental', 'list-plain', 'list-full-full', 'list-full']) t`

// The commands on origins print the Python scheduler's output, mark the same origins, and create the same tasks.
func TestOriginCommandsSameAsThePythonScheduler(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	w.execute(someTaskTypes + ";" + someOrigins)
	w.migrateOurs()
	for _, args := range [][]string{
		{"origin"}, {"origin", "nope"}, {"origin", "grab-nex", "git", "1"},
		{"origin", "peek-next"}, {"origin", "peek-next", "git"}, {"origin", "peek-next", "git", "x"},
		{"origin", "peek-next", "git", "3", "4"}, {"origin", "peek-next", "git", "--", "-1"},
		{"origin", "peek-next", "git", "1", "--what"},
		{"origin", "peek-next", "git", "100"},
		{"origin", "peek-next", "git", "0"},
		{"origin", "peek-next", "nope", "5"},
		{"origin", "peek-next", "pypi", "5"},
		{"origin", "peek-next", "--fields", "url,enabled", "git", "5"},
		{"origin", "peek-next", "-f", "extra_loader_arguments", "git", "8"},
		{"origin", "peek-next", "-f", "url,url,last_update,is_fork", "--without-header", "git", "5"},
		{"origin", "peek-next", "-f", "url", "--without-header", "--with-header", "git", "5"},
		{"origin", "peek-next", "-f", "url", "--with-header", "--without-header", "git", "5"},
		{"origin", "peek-next", "-f", "", "git", "2"},
		{"origin", "peek-next", "-f", "url,what", "git", "2"},
		{"origin", "peek-next", "-f", "url,", "git", "2"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--only-disabled"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--only-disabled", "--only-enabled"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--lister-name", "gitlab"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--lister-name", "gitlab", "--lister-instance-name", "example"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--lister-name", "pypi"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--lister-instance-name", "nope"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--tablesample", "100"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--tablesample", "x"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--tablesample", "101"},
		{"origin", "peek-next", "-f", "url", "git", "50", "-p", "already_visited_order_by_lag"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--policy", "never_visited_oldest_update_first"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--policy", "origins_without_last_update"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--policy", "stop_after_success"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--policy", "nope"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--policy", "first_visits_after_listing"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--failed-cooldown", ""},
		{"origin", "peek-next", "-f", "url", "git", "50", "--not-found-cooldown", "1 d 2.5h 3 min4s"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--absolute-cooldown", "100000 days"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--scheduled-cooldown", "soon"},
		{"origin", "peek-next", "-f", "url", "git", "50", "--scheduled-cooldown", " "},

		{"origin", "grab-next", "git", "3"},
		{"origin", "grab-next", "git", "3", "-f", "url"},
		{"origin", "grab-next", "git", "0", "-f", "what"}, // the Python scheduler would mark more
		{"origin", "grab-next", "git", "3", "-p", "origins_without_last_update", "--without-header"},
		{"origin", "grab-next", "git", "3", "-p", "nope"},
		{"origin", "grab-next", "pypi", "10", "-f", "lister_id,url"},
		{"origin", "schedule-next", "git", "2"},
		{"origin", "schedule-next", "git", "100", "-p", "already_visited_order_by_lag"},
		{"origin", "schedule-next", "git", "0"},
		{"origin", "schedule-next", "nope", "1"},
		{"origin", "schedule-next", "git"},
		{"task", "list"},

		{"origin", "update-metrics", "--lister", "nope"},
		{"origin", "update-metrics", "--lister", "gitlab"},
		{"origin", "update-metrics", "--lister", "gitlab", "--instance", "nope"},

		{"origin", "check-listed-origins", "gitlab", "example"},
		{"origin", "check-listed-origins", "-l", "gitlab", "example"},
		{"origin", "check-listed-origins", "--list", "pypi", ""},
		{"origin", "check-listed-origins", "pypi"},
		{"origin", "check-listed-origins", "pypi", "nope"},
		{"origin", "check-listed-origins", "empty", "forge"},
		{"origin", "check-ingested-origins", "gitlab", "example"},
		{"origin", "check-ingested-origins", "gitlab", "example", "--minimum-success", "99.5"},
		{"origin", "check-ingested-origins", "gitlab", "example", "--minimum-success", "x"},
		{"origin", "check-ingested-origins", "pypi", "", "--list"},
		{"origin", "check-ingested-origins", "unscheduled", "forge"},
		{"origin", "check-ingested-origins", "empty", "forge"},
		{"origin", "check-ingested-origins", "nope", "forge"},

		{"add-forge-now"}, {"add-forge-now", "nope"}, {"add-forge-now", "-p", "nope", "register-lister", "plain"},
		{"add-forge-now", "register-lister"},
		{"add-forge-now", "register-lister", "nope", "url=https://x"},
		{"add-forge-now", "register-lister", "both", "url=https://both.example", "max_pages=7"},
		{"add-forge-now", "register-lister", "plain", "'"},
		{"add-forge-now", "register-lister", "plain", "arg", "url=x"},
		{"add-forge-now", "-p", "staging", "register-lister", "both", "url=https://both.example"},
		{"add-forge-now", "--preset", "staging", "register-lister", "full", "url=https://full.example", "max_pages=7", "enable_origins=true"},
		{"add-forge-now", "--preset=staging", "register-lister", "plain"},
		{"add-forge-now", "schedule-first-visits"},
		{"add-forge-now", "schedule-first-visits", "-t", "nope", "--type-name", "git", "-t", "other"},
		{"origin", "send-origins-from-scheduler-to-celery", "nope"},
		{"origin", "send-origins-from-scheduler-to-celery"},
		{"origin", "send-origins-from-scheduler-to-celery", "git", "--absolute-cooldown", "soon"},
		{"origin", "send-origins-from-file-to-celery"},
		{"origin", "send-origins-from-file-to-celery", "nope", os.DevNull},
		{"origin", "send-origins-from-file-to-celery", "load-git", "/nonexistent"},
	} {
		w.compare(nil, args...)
	}
	w.compareTables()
	w.compareQuery(`select url, visit_type, last_scheduled is not null and last_scheduled > now() - interval '1 hour', next_visit_queue_position from origin_visit_stats order by url collate "C"`)
	w.compareQuery(`select * from visit_scheduler_queue_position`)
}

// A file's tasks are created as by the Python scheduler. Files that it refuses have the same exit code.
func TestTaskScheduleSameAsThePythonScheduler(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	w.execute(someTaskTypes)
	for _, tc := range []struct {
		file string
		args []string
	}{
		{"load-git,[],{},2030-01-02\n", nil},
		{"load-git,[],{},2030-01-02\n", nil}, // a second time
		{"swh.loader.git.tasks.UpdateGitRepository,\"[1, \"\"a\"\"]\",\"{\"\"url\"\": \"\"https://x/?a,b\"\"}\",2030-01-02T03:04:05.5+01:00\r\nbare,[],{},20300102T0304Z", nil},
		{"load-git;{\"url\": \"it's\"};oneshot\nload-git;{\"url\": \"é\"};recurring\n", []string{"-c", "type", "-c", "kwargs", "--columns", "policy", "-d", ";"}},
		{"bare|{}\n", []string{"-c", "type", "-c", "kwargs", "--delimiter", "|"}},
		{"list-x\n", []string{"-c", "type"}},
		{"\"load-git\",\"[\n2]\",{},2030\n", nil},
		{"load-git,[3],{},2030-02\nload-git,[4],{},2030-2-3\nload-git,[5],{},2030-02-03 04\nload-git,[6],{},20300203 040506\nload-git,[7],{},2030-02-03T04:05-08\n", nil},
		{"load-git\n", nil}, // a row may end early, and then has the defaults
		{"load-git,[12]\nload-git,[13],{}\nload-git\n", nil},
		{"oneshot\n", []string{"-c", "policy", "-c", "type"}},
		{"", nil},
		{"load-git,[8],{},203002\n", nil},
		{"load-git,[8],{},2030-02-30\n", nil},
		{"load-git,[8],{},never\n", nil},
		{"load-git,[8],{},\n", nil},
		{"load-git,[8,{},2030\n", nil},
		{"load-git,8,{},2030\n", nil},
		{"load-git,[],[],2030\n", nil},
		{"load-git,,{},2030\n", nil},
		{"nope,[],{},2030\n", nil},
		{"load-git,[9],{},2030\nload-git,[10],{},2030\nnope,[],{},2030\n", nil},
		{"load-git,weekly\n", []string{"-c", "type", "-c", "policy"}},
		{"[]\n", []string{"-c", "args"}},
		{"\n", nil},
		{"load-git,[11],{},2030\n", []string{"-d", ";;"}},
		{"load-git,[11],{},2030\n", []string{"-c", "nope"}},
		{"\xff,[11],{},2030\n", nil},
	} {
		w.compare(nil, append([]string{"task", "schedule", testenv.File(t, "a.csv", tc.file)}, tc.args...)...)
	}
	for _, args := range [][]string{
		{"task", "schedule"}, {"task", "schedule", "/nonexistent"}, {"task", "schedule", "a", "b"},
		{"task", "respawn", "1"}, {"task", "respawn", "2", "3", "999"}, {"task", "respawn", "1", "-n", "2031-02-03T04:05:06Z"},
		{"task", "respawn", "1", "--next-run", "never ever"}, {"task", "respawn"}, {"task", "respawn", "x"}, {"task", "respawn", "-1"},
		{"task", "list"},
	} {
		w.compare(nil, args...)
	}
	w.compareTables()
}

// Errors in a file of tasks name each line, and then no task of the file is created.
func TestTaskScheduleNamesLines(t *testing.T) {
	t.Parallel()
	dsn := testenv.PythonDatabase(t)
	execute(t, dsn, someTaskTypes)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", dsn))
	text := "bare,[],{},2030\n\"bare\",\"[\n1]\",{},2030,extra\nbare,[],{}\nnope,[],{},2030\nbare,{},{},2030\nbare,[],{},soon\n\nbare,[],\"{\"\"a\"\": \"\"\\u0000\"\"}\",2030\n"
	path := testenv.File(t, "tasks.csv", text)
	r := ours(t, "-C", config, "task", "schedule", path)
	want := ""
	for _, line := range []string{
		"line 2: has 5 columns, want 4 (type, args, kwargs, next_run)",
		`line 5: type: unknown task type: "nope"`,
		`line 6: args: "{}" is not a JSON list`,
		`line 7: next_run: "soon" is not an ISO 8601 date such as 2030-01-31T12:30:00Z`,
		"line 8: has 0 columns, want 4 (type, args, kwargs, next_run)",
		"line 9: kwargs: PostgreSQL has no texts with a NUL",
		"no task was created",
	} {
		want += "swh-scheduler: " + path + ": " + line + "\n"
	}
	if r.code != 1 || r.stdout != "" || r.stderr != want {
		t.Errorf("exit code %d; got\n%s\nwant\n%s", r.code, r.stderr, want)
	}
	if n := value(t, dsn, "select count(*)::text from task"); n != "0" {
		t.Errorf("%s tasks were created", n)
	}
	// A valid file from standard input, with output as JSON.
	cmd := exec.CommandContext(t.Context(), binary, "-C", config, "task", "schedule", "-", "--output", "json")
	cmd.Env, cmd.Stdin = environment(), strings.NewReader("load-git,[1],{},2030\n")
	out, err := cmd.Output()
	var tasks []struct {
		ID        int64
		Type      string
		Arguments struct{ Args []int }
	}
	if err != nil || json.Unmarshal(out, &tasks) != nil || len(tasks) != 1 || tasks[0].Type != "load-git" || len(tasks[0].Arguments.Args) != 1 {
		t.Errorf("%v: %s", err, out)
	}
}

// Each command that lists rows prints JSON on request.
func TestOutputJSON(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	execute(t, dsn, someTaskTypes+";"+someOrigins+`;
		insert into task (type, arguments, next_run, status, policy) values ('bare', '{"args": [], "kwargs": {"n": 1}}', '2020-01-01', 'next_run_not_scheduled', 'oneshot');
		insert into task_run (task, backend_id, status, metadata) values (1, 'x', 'lost', '{"a": 1}')`)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", dsn))
	for _, tc := range []struct {
		args []string
		want string // a text that the output contains, without blanks
	}{
		{[]string{"task-type", "list", "-t", "load-git"}, `"min_interval":43200,`},
		{[]string{"task", "list", "-r"}, `"runs":[{"backend_id":"x","status":"lost",`},
		{[]string{"task", "list-pending", "bare"}, `"next_run":"2020-01-01T00:00:00Z"`},
		{[]string{"task", "list", "-t", "nope"}, `[]`},
		{[]string{"task", "add", "bare", "-p", "oneshot", "x=1"}, `"kwargs":{"x":1}`},
		{[]string{"origin", "peek-next", "git", "1"}, `"extra_loader_arguments":{`},
		{[]string{"origin", "peek-next", "git", "1", "-f", "url"}, `[{"url":"https://gitlab.example/40"}]`},
		{[]string{"origin", "peek-next", "nope", "1"}, `[]`},
		{[]string{"origin", "grab-next", "git", "1", "-f", "url,last_update"}, `"last_update":"2024-06-10T00:00:00Z"`},
		{[]string{"origin", "schedule-next", "git", "1"}, `"policy":"oneshot"`},
		{[]string{"origin", "check-listed-origins", "pypi", ""}, `"visit_type":"pypi"`},
		{[]string{"origin", "check-ingested-origins", "gitlab", "example", "-l"}, `"success_rate":`},
	} {
		r := ours(t, append([]string{"-C", config}, append(tc.args, "--output", "json")...)...)
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(r.stdout)); r.code != 0 || err != nil || !strings.Contains(compact.String(), tc.want) {
			t.Errorf("%q: exit code %d, %v, no %s in\n%s%s", tc.args, r.code, err, tc.want, r.stdout, r.stderr)
		}
	}
}

// With --watch, check-ingested prints the progress and ends once all origins are visited.
func TestCheckIngestedWatches(t *testing.T) {
	t.Parallel()
	dsn := testenv.PythonDatabase(t)
	execute(t, dsn, someOrigins)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", dsn))
	cmd := exec.Command(binary, "-C", config, "origin", "check-ingested-origins", "gitlab", "example", "--watch", "--watch-period", "0.05 s")
	cmd.Env = environment()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	lines, seen, visited := bufio.NewScanner(stdout), "", false
	for lines.Scan() {
		seen += lines.Text() + "\n"
		if !visited && strings.Contains(seen, "Forge example ingestion is still in progress...\nfailed      : 10\nNone        : 10\n") {
			execute(t, dsn, "update origin_visit_stats set last_visit_status = 'successful' where last_visit_status is null")
			visited = true
		}
	}
	want := "\nForge example (gitlab) has 40 scheduled ingests in the scheduler.\nfailed      : 10\nNone        : 0\n" +
		"not_found   : 10\nsuccessful  : 20\ntotal       : 40\nsuccess rate: 50.00%\n"
	if err := cmd.Wait(); err != nil || !strings.HasSuffix(seen, want) {
		t.Errorf("%v\n%s", err, seen)
	}
}

// On a database that isn't migrated, commands that need our tables report that and say what to do. The other commands
// work.
func TestCommandsOnAPythonDatabase(t *testing.T) {
	t.Parallel()
	dsn := testenv.PythonDatabase(t)
	execute(t, dsn, someTaskTypes+";"+someOrigins)
	for _, args := range [][]string{
		{"origin", "send-origins-from-scheduler-to-celery", "git"}, {"origin", "send-origins-from-file-to-celery", "load-git", os.DevNull},
		{"add-forge-now", "schedule-first-visits", "-t", "git"}, {"explain", "1"}, {"config", "check"},
		{"origin", "grab-next", "git", "1"}, {"origin", "schedule-next", "git", "1"},
	} {
		r := ours(t, append([]string{"-d", dsn, "-o", "celery.task_broker=amqp://127.0.0.1:1//"}, args...)...)
		if r.code != 1 || !strings.Contains(r.stdout+r.stderr, "swh-scheduler migrate") {
			t.Errorf("%q: %+v", args, r)
		}
	}
	for _, args := range [][]string{
		{"origin", "check-listed-origins", "gitlab", "example"}, {"origin", "check-ingested-origins", "gitlab", "example"},
		{"origin", "update-metrics"}, {"origin", "peek-next", "git", "1"}, {"task", "respawn", "1"}, {"task", "list"},
	} {
		if r := ours(t, append([]string{"-d", dsn}, args...)...); r.code != 0 {
			t.Errorf("%q: %+v", args, r)
		}
	}
}
