package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// Options of the Python program swh are accepted at its positions and after the command. Its environment variables and a
// link named swh work too.
func TestRootOptionsOfSwh(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	swh := filepath.Join(t.TempDir(), "swh")
	if err := os.Symlink(binary, swh); err != nil {
		t.Fatal(err)
	}
	file := configFile(t, "scheduler: {cls: remote, url: http://h/}\n")
	logging := configFile(t, "version: 1\nformatters: {j: {class: x.JsonFormatter}}\nhandlers: {c: {class: logging.StreamHandler, formatter: j}}\nroot: {level: DEBUG, handlers: [c]}\nloggers: {azure: {level: ERROR}}\n")
	asOptions := fmt.Sprintf("-o scheduler.cls=postgresql --option=scheduler.db=%q", dsn)
	for _, tc := range []struct{ environ, args, want string }{
		{"", asOptions + " scheduler task-type list", ""},
		{"", "-C " + file + " " + asOptions + " scheduler task-type list", ""},
		{"", "-C " + file + " scheduler task-type list " + asOptions, ""},
		{"SWH_OPTIONS=scheduler.cls=local scheduler.db=" + dsn, "scheduler task-type list", ""},
		{"", "-d " + dsn + " --log-config " + logging + " scheduler task-type list", `"level":"WARN","msg":"parts of the logging configuration have no effect here; see docs/reference/commands.md"`},
		{"SWH_LOG_CONFIG=" + logging, "-d " + dsn + " -o unknwon=1 -l error scheduler task-type list", ""},
		{"SWH_LOG_CONFIG=" + logging, "-d " + dsn + " --log-format text -o unknwon=1 scheduler task-type list", `level=WARN msg="--option: unknwon is not a known key`},
	} {
		r := command(t, swh, environment(tc.environ), strings.Fields(tc.args)...)
		if r.code != 0 || r.stdout != "Known task types:\n" || !strings.Contains(r.stderr, tc.want) || tc.want == "" && r.stderr != "" {
			t.Errorf("%s %s: %+v", tc.environ, tc.args, r)
		}
	}
	if r := command(t, swh, environment(), "--versions"); r.code != 0 || !strings.Contains(r.stdout, "Installed swh components:\n  swh.scheduler, version ") {
		t.Errorf("%+v", r)
	}
	for args, want := range map[string]string{
		"-o s3cret task-type list":                                "swh-scheduler: --option: must be KEY=VALUE\n",
		"-o scheduler.db.x=s3cret -C " + file + " task-type list": "swh-scheduler: --option: scheduler.db must be a text, not a mapping\n",
		"--log-config nowhere.yml task-type list":                 "Error: Invalid value for '--log-config': Path 'nowhere.yml' does not exist or can't be read.\n",
		"--log-config " + file + " task-type list":                "swh-scheduler: --log-config " + file + ": is not a configuration of Python's logging (a mapping with version: 1)\n",
		"--sentry-dsn s3cret task-type list":                      "swh-scheduler: SWH_SENTRY_DSN, --sentry-dsn or sentry.dsn is not a DSN of Sentry",
	} {
		if r := ours(t, strings.Fields(args)...); r.code == 0 || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr, "s3cret") {
			t.Errorf("%s: %+v, want %s", args, r, want)
		}
	}
}

// reported is a Sentry server that stores what it receives.
type reported struct {
	*httptest.Server
	m    sync.Mutex
	text strings.Builder // headers and bodies
}

func newSentry(t *testing.T) *reported {
	t.Helper()
	r := &reported{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		r.m.Lock()
		defer r.m.Unlock()
		fmt.Fprintln(&r.text, request.URL, request.Header, string(body))
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *reported) all() string {
	r.m.Lock()
	defer r.m.Unlock()
	return r.text.String()
}

// An error that ends a command is reported to the configured Sentry. The environment overrides the file, as in the
// Python scheduler. Errors in a command line aren't reported.
func TestErrorsAreReportedToSentry(t *testing.T) {
	t.Parallel()
	configured, given, other := newSentry(t), newSentry(t), newSentry(t)
	dsn := func(r *reported) string { return strings.Replace(r.URL, "//", "//key@", 1) + "/1" }
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: 'postgresql://u:s3cret@127.0.0.1:1/x'}\nsentry: {dsn: %q, environment: staging}\n", dsn(configured)))
	for _, tc := range []struct {
		environ []string
		args    string
		to      *reported
		want    string
	}{
		{nil, "", configured, `"environment":"staging"`},
		{nil, "--sentry-dsn " + dsn(given), given, `"release":"swh-scheduler@`},
		{[]string{"SWH_SENTRY_DSN=" + dsn(other), "SWH_SENTRY_ENVIRONMENT=production", "SWH_MAIN_PACKAGE=swh.scheduler"}, "--sentry-dsn " + dsn(given), other, `"release":"swh.scheduler@`},
	} {
		r := oursWith(t, tc.environ, strings.Fields(tc.args+" -C "+config+" task list")...)
		got := tc.to.all()
		if r.code != 1 || !strings.Contains(got, "is not reachable") || !strings.Contains(got, tc.want) || strings.Contains(got, "s3cret") {
			t.Errorf("%s: %+v; %s", tc.args, r, got)
		}
	}
	if got := other.all(); !strings.Contains(got, `"environment":"production"`) {
		t.Error(got)
	}
	before := len(given.all())
	if r := ours(t, "--sentry-dsn", dsn(given), "task", "nope"); r.code != 2 || len(given.all()) != before {
		t.Errorf("%+v", r)
	}
	// An empty SWH_SENTRY_DSN disables reports.
	if r := oursWith(t, []string{"SWH_SENTRY_DSN="}, "--sentry-dsn", dsn(given), "-C", config, "task", "list"); r.code != 1 || len(given.all()) != before {
		t.Errorf("%+v", r)
	}
}

// statsd receives packets. packets returns each distinct name, type and tags once, sorted.
func statsd(t *testing.T) (environ []string, packets func() []string) {
	t.Helper()
	server, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	_, port, _ := net.SplitHostPort(server.LocalAddr().String())
	return []string{"STATSD_HOST=127.0.0.1", "STATSD_PORT=" + port, "STATSD_TAGS=deployment:test"}, func() (packets []string) {
		buf := make([]byte, 1<<16)
		for server.SetReadDeadline(time.Now().Add(100*time.Millisecond)) == nil {
			n, _, err := server.ReadFrom(buf)
			if err != nil {
				break
			}
			name, rest, _ := strings.Cut(string(buf[:n]), ":")
			_, tags, _ := strings.Cut(rest, "|")
			packets = append(packets, name+" "+strings.Replace(tags, "group:theirs-", "group:", 1))
		}
		slices.Sort(packets)
		return slices.Compact(packets)
	}
}

// If StatsD is configured, the daemons send the Python scheduler's counters. Names, types and tags are the same for the
// same work.
func TestStatsdSameAsThePythonScheduler(t *testing.T) {
	t.Parallel()
	mq, section := testenv.RabbitMQ(t), journalSection(t, "  on_eof: stop\n")
	w := newTwins(t)
	w.execute(someTaskTypes + `; insert into task (type, arguments, next_run, status, policy) values ('bare', '{"args": [], "kwargs": {}}', now(), 'next_run_not_scheduled', 'oneshot')`)
	w.migrateOurs()
	journalTopic(t, section)(0, visitRecord(t, 0, 0, "full"), visitRecord(t, 0, 1, "full"))
	config := func(dsn, section string) string {
		return configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n%s", dsn, mq.URL, mq.ManagementURL, section))
	}
	w.peerC, w.ourC = config(w.peer, strings.Replace(section, "group_id: ", "group_id: theirs-", 1)), config(w.ours, section)
	more, packets := statsd(t)
	environ := environment(more...)
	for name, peer := range map[string]func() result{
		"journal-client": func() result {
			return command(t, testenv.Python(t), environ, "-W", "ignore", filepath.Join("testdata", "journal_client.py"), w.peerC)
		},
		"start-runner": func() result { return w.askPeer(environ, []string{"-C", w.peerC, "scheduler", "start-runner"}) },
	} {
		our := command(t, binary, environ, "-C", w.ourC, name)
		got := packets()
		their := peer()
		want := packets()
		if our.code+their.code != 0 || strings.Join(got, "\n") != strings.Join(want, "\n") || len(got) == 0 {
			t.Errorf("%s: sent\n%s\nthe Python scheduler:\n%s\n%s%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"), our.stderr, their.stderr)
		}
	}
}

// rpc-serve --debug logs each call, like --log-level debug.
func TestRPCServeDebug(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	for _, args := range [][]string{{"rpc-serve", "--debug"}, {"-l", "debug", "rpc-serve"}, {"-l", "debug", "rpc-serve", "--nodebug"}} {
		p := start(t, append([]string{"-d", dsn}, append(args, "--host", "127.0.0.1", "--port", "0")...)...)
		p.logs(t, "msg=listening")
		url := "http://" + regexp.MustCompile(`msg=listening address=(\S+)`).FindStringSubmatch(p.log())[1]
		if r := ours(t, "-u", url, "task-type", "list"); r.code != 0 {
			t.Fatal(r.stderr)
		}
		p.stop(t, syscall.SIGTERM)
		if said := strings.Contains(p.log(), "level=DEBUG msg=call endpoint=task_type/get_all caller.address=127.0.0.1:"); said != !slices.Contains(args, "--nodebug") {
			t.Errorf("%q:\n%s", args, p.log())
		}
	}
}
