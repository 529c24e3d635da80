package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// difference is the evidence for a row of docs/reference/differences.md: command lines or a test.
type difference struct {
	// test is "directory.TestName". The test shows our behaviour, or both.
	test string

	args        []string // for both programs
	peer, ours  string   // regular expressions for exit code, standard output and standard error
	query       string   // a query on the database afterwards, if both print the same
	left        [2]string
	alone       bool // run the Python scheduler without a configuration file, and ours too
	unreachable bool // the database doesn't exist
	remote      bool // both use our RPC server
}

// differences has a case for each row of docs/reference/differences.md.
func differences(dir string) map[string]difference {
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		_ = os.WriteFile(path, []byte(text), 0o600) // a command that doesn't find the file reports that
		return path
	}
	return map[string]difference{
		"`--help`":             {args: []string{"task", "--help"}, peer: `(?s)^0\n.*Usage: swh scheduler task`, ours: `(?s)^0\n.*Usage: swh-scheduler task`},
		"the database is down": {args: []string{"task-type", "list"}, unreachable: true, peer: `(?s)^2\n.*Scheduler class`, ours: `(?s)^1\n\nswh-scheduler: .*127.0.0.1`},
		"an error":             {args: []string{"task", "add", "bare", "a=.nan"}, peer: `(?s)^1\n.*Traceback`, ours: `^1\n\nswh-scheduler: [^\n]*\n$`},
		"`--database` without a configuration file": {args: []string{"origin", "send-origins-from-file-to-celery", "load-git", os.DevNull, "--dry-run"}, alone: true,
			peer: `^[12]\n`, ours: `^0\n`},
		"`task-type add`": {args: []string{"task-type", "add", "load-new", "swh.new", "New"}, peer: `^[12]\n`, ours: `^0\nOK\n`},
		"`task schedule`: a row that is too wide": {args: []string{"task", "schedule", file("wide", "load-git,[],{},2030,more\n")},
			peer: `(?s)^0\n.*Created 1 tasks`, ours: `^1\n\n.*line 1: has 5 columns`},
		"`task schedule`: an unknown type":                        {args: []string{"task", "schedule", file("unknown", "bare,[1],{},2030\nnope,[],{},2030\n")}, peer: `^1\n`, ours: `^1\n\n.*line 2: type`},
		"`task schedule_origins --batch-size 0`":                  {test: "cmd/swh-scheduler.TestScheduleOrigins"},
		"`origin grab-next -f NO_SUCH_FIELD`":                     {args: []string{"origin", "grab-next", "git", "1", "-f", "what"}, peer: `^[12]\n`, ours: `^[12]\n`, query: "select (count(*) > 0)::text from origin_visit_stats where visit_type = 'git' and last_scheduled > now() - interval '1 hour'", left: [2]string{"true", "false"}},
		"`origin send-…`":                                         {test: "cmd/swh-scheduler.TestSendToASharedQueueWithLanes"},
		"`origin send-origins-from-file-to-celery --limit`":       {test: "cmd/swh-scheduler.TestSendFromFileWaitsForRoom"},
		"`origin send-origins-from-file-to-celery`: a blank line": {args: []string{"origin", "send-origins-from-file-to-celery", "load-git", file("blank", "https://1\n\n"), "--dry-run"}, peer: `(?s)^(1\n|0\n.*\n.*kwargs)`, ours: `^0\n[^\n]*https://1[^\n]*\n\n$`},
		"`origin check-…-origins`":                                {test: "cmd/swh-scheduler.TestCheckIngestedReadsAllOrigins"},
		"`origin check-ingested-origins --watch`":                 {test: "cmd/swh-scheduler.TestCheckIngestedWatches"},
		"dates such as `in 2 days`":                               {args: []string{"task", "add", "bare", "-p", "oneshot", "-n", "in 2 days", "a=1"}, peer: `^0\n`, ours: `^0\n`, query: "select coalesce(abs(extract(epoch from max(next_run) - now() - interval '2 days')) < 3600, false)::text from task where arguments #>> '{kwargs,a}' = '1'", left: [2]string{"false", "true"}},
		"dates without a zone, over RPC":                          {args: []string{"task", "add", "bare", "-p", "oneshot", "-n", "2030-01-02 03:04", "a=2"}, remote: true, peer: `^[12]\n`, ours: `(?s)^0\n.*2030-01-02T03:04:00\+00:00`},
		"`task list`: a message that the broker refused":          {test: "cmd/swh-scheduler.TestTaskListShowsWhatWasNotSent"},
		"`--verbose=true`":                                        {args: []string{"task-type", "list", "--verbose=true"}, peer: `^2\n`, ours: `^0\n`},
		"`simulator`":                                             {test: "internal/simulator.TestTotalsAreThePythonSchedulers"},

		"order of tasks with priority":                                               {test: "runner.TestPriorityDiffersFromThePythonRunner"},
		"limit of `save_code_now:` queues":                                           {test: "runner.TestPriorityDiffersFromThePythonRunner"},
		"limit of a queue":                                                           {test: "runner.TestRunnerStaysWithinTheLimit"},
		"a runner is killed while it sends":                                          {test: "cmd/swh-scheduler.TestKilledRunnersRepeatOnlyMessagesInProgress"},
		"two runners on the same task types":                                         {test: "runner.TestRunnersAtOnceSendEachTaskOnce"},
		"a queue or a message that the broker refuses":                               {test: "internal/dispatch.TestRejectingQueueIsBackedOffWhole"},
		"a task or origin that can't be written as JSON, or that PostgreSQL refuses": {test: "runner.TestFaultyTasksStopNoClaim"},
		"slots that a policy cannot fill":                                            {test: "recurrent.TestSlotsThatThePeerLeavesEmpty"},
		"a visit type with nothing to visit":                                         {test: "recurrent.TestDueOriginEndsARest"},
		"visit types":                                                                {test: "recurrent.TestVisitTypesComeAndGo"},
		"`tablesample`":                                                              {test: "sql/origins.TestGrabOfASample"},
		"first visits: a lister is done":                                             {test: "runner.TestFirstVisitsDifferFromThePeers"},
		"first visits of a lister without an instance name":                          {test: "runner.TestFirstVisitsDifferFromThePeers"},

		"an event that comes twice, or late":                                     {test: "listener.TestEveryOrderGivesTheSameState"},
		"an event that is no event":                                              {test: "listener.TestBadMessages"},
		"a run that a person revoked, before or while it ran":                    {test: "internal/settle.TestRevokedRunsAreNotRetried"},
		"a task that expired in its queue":                                       {test: "listener.TestInterpret"},
		"`Reject` without requeue":                                               {test: "listener.TestRealWorker"},
		"results `scheduled` and `started`":                                      {test: "listener.TestInterpret"},
		"an event body in msgpack, or with bytes that are not UTF-8":             {test: "listener.TestBodiesThatThePeerDrops"},
		"an event body in UTF-16 or UTF-32":                                      {test: "listener.TestBodiesThatThePeerDrops"},
		"an event message of more than 4 MiB":                                    {test: "listener.TestOversizedMessageIsAcknowledged"},
		"the journal's topic is not there yet":                                   {test: "journal.TestMissingTopic"},
		"a journal record whose date is nil, of an origin that is not known yet": {test: "journal.TestDiffersFromThePeersClient"},
		"an offset above 10 of an origin without a last visit":                   {test: "journal.TestDiffersFromThePeersClient"},
		"a compressed batch of journal records of more than 32 MiB":              {test: "journal.TestBatchThatDecompressesTooFarStopsItsPartition"},
		"a journal record that can't be read":                                    {test: "journal.TestBadRecordsAreSetAside"},
		"the end of the journal client by SIGTERM":                               {test: "journal.TestMembersComeAndGo"},

		"two grabs of ready tasks at once":                      {test: "internal/rpc.TestDifferencesFromThePeer"},
		"`task/delete_archived`":                                {test: "internal/rpc.TestNumbersThatDiffer"},
		"a page of listed origins":                              {test: "internal/rpc.TestDifferencesFromThePeer"},
		"tracebacks of errors":                                  {test: "internal/rpc.TestDifferencesFromThePeer"},
		"a value of a wrong type that no row shows to be one":   {test: "internal/rpc.TestOddCallsAreThePeers"},
		"large calls":                                           {test: "internal/rpc.TestAnswersAreBounded"},
		"an interval of more than 292 years in the database":    {test: "internal/rpc.TestNumbersThatDiffer"},
		"many calls of one address, or bodies that come slowly": {test: "internal/rpc.TestCallsAreBoundedByAddress"},

		"an unknown key":                   {test: "internal/config.TestWarnings"},
		"no `celery.task_broker`":          {test: "internal/config.TestNoBroker"},
		"a mistake in the file":            {test: "internal/config.TestAllErrorsAtOnce"},
		"cooldowns in `scheduling_policy`": {test: "internal/config.TestLoad"},
	}
}

// docs/reference/differences.md lists all differences from the Python scheduler. Each row has a case, and each case has
// a row.
func TestDifferences(t *testing.T) {
	t.Parallel()
	page := testenv.Read(t, filepath.Join("..", "..", "docs", "reference", "differences.md"))
	before, tables, _ := strings.Cut(string(page), "\n## Commands\n")
	text := before + tables
	all, tests := differences(t.TempDir()), testenv.DeclaredTests(t, filepath.Join("..", ".."))
	for _, named := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(text, -1) {
		if !tests[named[1]] {
			t.Errorf("docs/reference/differences.md names a test that is not there: %s", named[1])
		}
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (.*?) \| .* \|$`).FindAllStringSubmatch(tables, -1) {
		if row[1] != "what" {
			documented[row[1]] = true
		}
		if cells := strings.Count(row[0], " | "); cells != 3 {
			t.Errorf("%s: %d cells, want 4", row[1], cells+1)
		}
		if _, ok := all[row[1]]; !ok && row[1] != "what" {
			t.Errorf("docs/reference/differences.md says that this differs, and no case shows it: %s", row[1])
		}
	}
	w := newTwins(t)
	w.execute(someTaskTypes + ";" + someOrigins)
	w.migrateOurs()
	for what, d := range all {
		switch {
		case !documented[what]:
			t.Errorf("docs/reference/differences.md says nothing of %s", what)
		case d.test != "":
			if !tests[d.test] {
				t.Errorf("%s: there is no test %s", what, d.test)
			}
		default:
			w.differ(what, d)
		}
	}
}

// differ runs the same arguments through both programs, and compares the results with the row.
func (w *twins) differ(what string, d difference) {
	w.t.Helper()
	dsns := [2]string{w.peer, w.ours}
	begin := [2][]string{{"-C", w.peerC, "scheduler"}, {"-C", w.ourC}}
	switch {
	case d.unreachable:
		config := configFile(w.t, "scheduler: {cls: postgresql, db: host=127.0.0.1 port=1 dbname=x user=x}\n")
		begin = [2][]string{{"-C", config, "scheduler"}, {"-C", config}}
	case d.remote:
		config := configFile(w.t, fmt.Sprintf("scheduler: {cls: remote, url: %q}\n", ourServer(w.t, w.ours)))
		begin = [2][]string{{"-C", config, "scheduler"}, {"-C", config}}
	case d.alone:
		begin = [2][]string{{"scheduler", "-d", dsns[0]}, {"-d", dsns[1]}}
	}
	peer := w.askPeer(environment(), append(begin[0], d.args...))
	our := ours(w.t, append(begin[1], d.args...)...)
	for i, r := range [2]result{peer, our} {
		said, want := fmt.Sprintf("%d\n%s\n%s", r.code, r.stdout, r.stderr), [2]string{d.peer, d.ours}[i]
		if !regexp.MustCompile(want).MatchString(said) {
			w.t.Errorf("%s: %s says %q, want %s", what, [2]string{"the Python scheduler", "ours"}[i], said, want)
		}
		if d.query != "" {
			if got := value(w.t, dsns[i], d.query); got != d.left[i] {
				w.t.Errorf("%s: %s leaves %s, want %s", what, [2]string{"the Python scheduler", "ours"}[i], got, d.left[i])
			}
		}
	}
}

// check-ingested reads all origins; the Python scheduler reads only some of them.
func TestCheckIngestedReadsAllOrigins(t *testing.T) {
	t.Parallel()
	dsn := testenv.PythonDatabase(t)
	execute(t, dsn, `insert into listers (name, instance_name, current_state, updated) values ('gitea', 'large', '{}', now());
		insert into listed_origins (lister_id, url, visit_type, enabled, first_seen, last_seen, extra_loader_arguments)
		select id, 'https://large/' || n, 'git', true, now(), now(), '{}' from listers, generate_series(1, 100001) n`)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", dsn))
	if r := ours(t, "-C", config, "origin", "check-listed-origins", "gitea", "large"); r.code != 0 || !strings.Contains(r.stdout, "100001") {
		t.Errorf("%+v", r)
	}
}
