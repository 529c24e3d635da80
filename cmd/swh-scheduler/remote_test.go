package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"swh-scheduler/internal/testenv"
)

// pythonServer starts testdata/server.py and returns its URL.
func pythonServer(t *testing.T, args ...string) string {
	t.Helper()
	url, _ := stoppablePythonServer(t, args...)
	return url
}

// stoppablePythonServer starts testdata/server.py. A test calls stop before its own end.
func stoppablePythonServer(t *testing.T, args ...string) (url string, stop func()) {
	t.Helper()
	s := testenv.StartScript(t, environment(), append([]string{"-W", "ignore", filepath.Join("testdata", "server.py")}, args...)...)
	return "http://127.0.0.1:" + s.Line(t) + "/", s.Stop
}

// ourServer starts our RPC server on a database and returns its URL.
func ourServer(t *testing.T, dsn string) string {
	t.Helper()
	url, p := ourStoppableServer(t, dsn)
	t.Cleanup(func() { p.stop(t, syscall.SIGTERM) })
	return url
}

// ourStoppableServer starts our RPC server, for tests that stop it.
func ourStoppableServer(t *testing.T, dsn string) (url string, p *process) {
	t.Helper()
	p = start(t, "-d", dsn, "rpc-serve", "--host", "127.0.0.1", "--port", "0")
	return p.serverURL(t), p
}

// serverURL returns the URL of an RPC server.
func (p *process) serverURL(t *testing.T) string {
	t.Helper()
	p.logs(t, "msg=listening")
	address := regexp.MustCompile(`msg=listening address=(\S+)`).FindStringSubmatch(p.log())
	if address == nil {
		t.Fatal("no address in the log")
	}
	return "http://" + address[1]
}

// remoteWords are command lines that also work on an RPC server.
var remoteWords = [][]string{
	{"task-type", "list"}, {"task-type", "list", "-v"},
	{"task", "add", "load-git", "url=https://example.org/é", "n=123456789012345678901234567890", "x=[1.5, {a: null}]"},
	{"task", "add", "load-git", "-p", "oneshot", "-P", "high", "-n", "2030-01-02T03:04:05.678Z"},
	{"task", "add", "nope"},
	{"task", "list-pending", "load-git"}, {"task", "list-pending", "-l", "1", "load-git", "bare"},
	{"task", "list"}, {"task", "list", "-r", "-i", "1"}, {"task", "list", "-t", "load-git", "-s", "disabled", "-P", "high", "-p", "oneshot"},
	{"task", "list", "-b", "2029-01-01T00:00:00Z", "-a", "2001-01-01T00:00:00Z", "-l", "1"},
	{"task", "respawn", "1", "-n", "2031-02-03T04:05:06Z"}, {"task", "list", "-i", "1"},
	{"origin", "peek-next", "git", "100"}, {"origin", "peek-next", "git", "3", "-p", "nope"},
	{"origin", "peek-next", "git", "100", "--only-disabled", "--lister-name", "gitlab", "--failed-cooldown", "", "-f", "url,is_fork"},
	{"origin", "grab-next", "git", "2", "-f", "url"}, {"origin", "schedule-next", "git", "2"},
	{"origin", "update-metrics", "--lister", "gitlab", "--instance", "example"}, {"origin", "update-metrics", "--lister", "nope"},
	{"origin", "check-listed-origins", "-l", "gitlab", "example"}, {"origin", "check-listed-origins", "nope", "x"},
	{"origin", "check-ingested-origins", "gitlab", "example"},
	{"add-forge-now", "register-lister", "both", "url=https://both.example"},
}

// Commands have the same results on RPC servers and databases. The Python client on our server and our client on the
// Python server have the same output and rows.
func TestRemoteCommandsSameAsThePythonScheduler(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	w.execute(someTaskTypes + ";" + someOrigins)
	for _, dsn := range []string{w.peer, w.ours} {
		if r := ours(t, "-d", dsn, "migrate"); r.code != 0 {
			t.Fatal(r.stderr)
		}
	}
	remote := func(url string) string {
		return configFile(t, fmt.Sprintf("scheduler: {cls: remote, url: %q}\n", url))
	}
	w.peerC, w.ourC = remote(ourServer(t, w.peer)), remote(pythonServer(t, "scheduler", w.ours))
	tasks := testenv.File(t, "tasks.csv", "load-git;[];{\"url\": \"https://x/1\"};2031-01-01\nbare;[1];{};2031-01-02\n")
	for _, args := range append(remoteWords, []string{"task", "schedule", "-c", "type", "-c", "args", "-c", "kwargs", "-c", "next_run", "-d", ";", tasks}) {
		w.compare(nil, args...)
	}
	w.compareTables()
	w.ourC = remote(doorServer(t, w.ours))
	// The simulator's output depends on the clock.
	for _, words := range []string{"fill-test-data -n 3", "run -t 20", "run -t 20 -s task_scheduler"} {
		if r := ours(t, append([]string{"-C", w.ourC, "simulator"}, strings.Fields(words)...)...); r.code != 0 {
			t.Errorf("simulator %s: %+v", words, r)
		}
	}
	const visited = `select (select count(*) from task_run r join task t on t.id = r.task where t.type = 'load-test-git')
		|| ' ' || (select count(last_scheduled) from origin_visit_stats where visit_type = 'test-git')`
	if got := value(t, w.ours, visited); got != "3 100" {
		t.Errorf("the simulator sent %s tasks and visits, want 3 and, with those that the lister found, 100", got)
	}
}

// Commands that need a database report that for an RPC server (docs/how-to/replace.md).
func TestCommandsThatNeedADatabase(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"rpc-serve", "migrate"} {
		r := ours(t, append([]string{"-u", "http://u:s3cret@127.0.0.1:1/"}, strings.Fields(words)...)...)
		if r.code != 1 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, " works on a database, and the configuration names an RPC server (scheduler.cls is remote); name the database with --database") {
			t.Errorf("%s: %+v", words, r)
		}
	}
}

// --url overrides the configuration's server. A server that is away, isn't one, or needs credentials is an error of one
// line without passwords.
func TestRemoteErrors(t *testing.T) {
	t.Parallel()
	url := ourServer(t, testenv.Database(t))
	if r := ours(t, "-u", url, "task-type", "list"); r.code != 0 || !strings.HasPrefix(r.stdout, "Known task types:") {
		t.Errorf("%+v", r)
	}
	for _, tc := range []struct{ url, want string }{
		{"http://user:s3cret@127.0.0.1:1/", "is not reachable"},
		{"ftp://user:s3cret@127.0.0.1/", "--url: the address of the RPC server is not a URL"},
		{"http://user:s3cret@h:x/", "--url: the address of the RPC server is not a URL"},
		{"s3cret", "--url: the address of the RPC server is not a URL"},
		{strings.Replace(url, "//", "//user:s3cret@", 1) + "/elsewhere", "task_type/get_all: "},
	} {
		r := ours(t, "-u", tc.url, "task-type", "list")
		if r.code != 1 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, tc.want) || strings.Contains(r.stderr, "s3cret") {
			t.Errorf("%s: exit code %d, want 1 and one line with %q:\n%s", tc.url, r.code, tc.want, r.stderr)
		}
	}
}

// Visits and files are also sent through an RPC server.
func TestRemoteSend(t *testing.T) {
	t.Parallel()
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: remote, url: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n",
		doorServer(t, dsn), mq.URL, mq.ManagementURL))
	execute(t, dsn, someTaskTypes+";"+someOrigins+"; update task_type set max_queue_length = 3 where type = 'load-git'")
	const queue = "swh.loader.git.tasks.UpdateGitRepository"
	for _, want := range []int{3, 3} { // the second time, the queue is full
		if r := ours(t, "-C", config, "origin", "send-origins-from-scheduler-to-celery", "git"); r.code != 0 {
			t.Fatal(r.stderr)
		}
		q, err := testenv.Channel(t, mq.URL).QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil || q.Messages != want {
			t.Errorf("%d messages, want %d; %v", q.Messages, want, err)
		}
	}
	path := testenv.File(t, "urls", "https://1\nhttps://2\n")
	r := ours(t, "-C", config, "origin", "send-origins-from-file-to-celery", "load-git", path, "--queue-name-prefix", "file")
	if got := taskMessages(t, mq.URL, "file:"+queue); r.code != 0 || len(got) != 2 || strings.Count(r.stdout, "\n") != 2 {
		t.Errorf("%+v; sent %q", r, got)
	}
}

// schedule-origins creates the Python scheduler's tasks from the origins of a real storage, page by page. Unlike it,
// ours also reads a file or standard input.
func TestScheduleOrigins(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	w.execute(someTaskTypes)
	var urls []string
	for i := range 230 { // three pages
		urls = append(urls, fmt.Sprintf("https://example.org/%03d", i))
	}
	storage := pythonServer(t, append([]string{"storage"}, urls...)...)
	empty := pythonServer(t, "storage")
	schedule := func(args ...string) []string { return append([]string{"task", "schedule_origins"}, args...) }
	for _, args := range [][]string{
		schedule("bare", "-g", storage, "--dry-run"),
		schedule("bare", "--storage-url", storage, "b=1", "a={x: y}"),
		schedule("bare", "-g", storage, "--limit", "7", "-b", "3"),
		schedule("bare", "-g", storage, "--limit", "105", "--batch-size", "50", "--no-dry-run"),
		schedule("bare", "-g", storage, "--page-token", "200", "c=2"),
		schedule("bare", "-g", empty),
		schedule("nope", "-g", storage), schedule("nope", "-g", storage, "--dry-run"),
		schedule("bare", "-g", storage, "argument"), schedule("bare", "-g", storage, "'"),
		schedule("bare", "-g", storage, "--limit", "x"), schedule(),
	} {
		w.compare(nil, args...)
	}
	w.compareTables()

	path := testenv.File(t, "urls", "https://a\n\n https://b \nhttps://c")
	want := result{stdout: "Scheduled 2 tasks (3 origins).\nDone.\n"}
	if got := ours(t, append([]string{"-C", w.ourC}, schedule("load-git", "-b", "2", "--file", path)...)...); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	const query = `select string_agg(arguments::text, ' ' order by id) from task where type = 'load-git'`
	if got, want := value(t, w.ours, query), `{"args": [["https://a", "https://b"]], "kwargs": {}} {"args": [["https://c"]], "kwargs": {}}`; got != want {
		t.Errorf("tasks: %s, want %s", got, want)
	}
	for _, args := range [][]string{schedule("bare"), schedule("bare", "-f", path, "-g", storage), schedule("bare", "-f", "/nonexistent"), schedule("bare", "-f", path, "-b", "0")} {
		if r := ours(t, append([]string{"-C", w.ourC}, args...)...); r.code != 2 || !strings.Contains(r.stderr, "'--") {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

// With our RPC server, our journal client leaves the same rows as the Python one.
func TestRemoteJournalClientSameAsThePythonScheduler(t *testing.T) {
	t.Parallel()
	w, section := newTwins(t), journalSection(t, "  on_eof: stop\n")
	w.execute(someTaskTypes + ";" + someOrigins + `;
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, first_seen, last_seen)
			select id, 'https://example.org/0', 'git', '{"a": [1]}', true, '2020-01-01Z', '2020-01-01Z' from listers;
		insert into origin_visit_stats (url, visit_type, last_scheduled, next_position_offset) values ('https://example.org/0', 'git', '2020-01-02Z', 4);
		insert into visit_scheduler_queue_position values ('git', 1700000000)`)
	if r := ours(t, "-d", w.peer, "migrate"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	produce := journalTopic(t, section)
	for day, status := range []string{"full", "full", "failed", "failed", "failed"} {
		produce(0, visitRecord(t, 0, day, status), visitRecord(t, 1, day, "full"))
	}
	config := func(url, section string) string {
		return configFile(t, fmt.Sprintf("scheduler: {cls: remote, url: %q}\n%s", url, section))
	}
	peer := command(t, testenv.Python(t), environment(), "-W", "ignore", filepath.Join("testdata", "journal_client.py"),
		config(ourServer(t, w.peer), strings.Replace(section, "group_id: ", "group_id: theirs-", 1)))
	our := config(doorServer(t, w.ours), section)
	if r := ours(t, "-C", our, "journal-client"); r.code+peer.code != 0 || r.stdout != "Processed 10 message(s).\nDone.\n" {
		t.Fatalf("%+v\n%+v", r, peer)
	}
	w.compareQuery(`select url, visit_type, last_successful, last_visit, last_visit_status, last_scheduled, last_snapshot, next_position_offset, successive_visits,
		next_visit_queue_position between 1700000000 + 80000 and 1700000000 + 86400 * 20 from origin_visit_stats where url like 'https://example.org/%' order by url`)
	w.compareQuery(`select url, visit_type, enabled, last_seen, extra_loader_arguments from listed_origins where url like 'https://example.org/%' order by url, lister_id`)
	if got := value(t, w.ours, "select count(*) || ' ' || bool_or(enabled) from listed_origins where url = 'https://example.org/0'"); !strings.HasSuffix(got, " false") {
		t.Errorf("the origin that failed thrice: %s", got)
	}
	if r := ours(t, "-C", our, "config", "check"); !strings.Contains(r.stdout, "ok    journal: ") {
		t.Errorf("%+v", r)
	}
}
