package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/testenv"
)

// planted are secrets by place. Each place has its own, so that a leaked secret names its source.
type planted map[string]string

// in creates the secret of a place, with characters that URLs, YAML and DSNs must escape.
func (p planted) in(place string) string {
	p[place] = "planted" + rand.Text()[:10]
	return p[place] + "/@:#%3' " + p[place]
}

// user returns a URL's user information with the secret of a place.
func (p planted) user(place string) string {
	return url.UserPassword("swh", p.in(place)).String() + "@"
}

// absentFrom fails the test if a text contains a secret.
func (p planted) absentFrom(t *testing.T, what, text string) {
	t.Helper()
	for place, secret := range p {
		if at := strings.Index(text, secret); at >= 0 {
			t.Errorf("%s: the secret in %s shows: …%s…", what, place, text[max(0, at-200):min(len(text), at+50)])
		}
	}
}

var logFormats = []string{"text", "json"}

// guarded is a configuration with a secret at each possible place. Its services accept them, and can be cut off.
type guarded struct {
	planted
	t         *testing.T
	dsn       string // without a secret, and never cut off
	broker    string
	config    string // file
	environ   []string
	traces    *collecting
	produce   func(partition int32, values ...[]byte)
	rpcUsers  []string // user information of URLs: accepted by rpc-serve, none, and refused
	collector *testenv.Toxic
	sentry    *reported
	cut       func() // cuts off all but Kafka and Sentry
}

// withUser returns a URL with another user.
func withUser(t *testing.T, address string, user *url.Userinfo) string {
	t.Helper()
	u := testenv.URL(t, address)
	u.User = user
	return u.String()
}

// proxied returns an address through a proxy, with another user.
func proxied(t *testing.T, address string, user *url.Userinfo) (string, *testenv.Toxic) {
	t.Helper()
	address, proxy := testenv.Through(t, address, testenv.Proxy)
	return withUser(t, address, user), proxy
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	mq := testenv.RabbitMQ(t)
	g := &guarded{planted: planted{}, t: t, dsn: testenv.Database(t), broker: mq.URL, traces: &collecting{}}
	brokerPassword, managementPassword := g.in("celery.task_broker"), g.in("rabbitmq.management_url")
	dsn, toDatabase := proxied(t, g.dsn, url.UserPassword("postgres", g.in("scheduler.db")))
	broker, toBroker := proxied(t, mq.URL, url.UserPassword(mq.User(t, brokerPassword), brokerPassword))
	management, toManagement := proxied(t, mq.ManagementURL, url.UserPassword(mq.User(t, managementPassword), managementPassword))
	receiver := httptest.NewServer(g.traces)
	t.Cleanup(receiver.Close)
	collector, toCollector := proxied(t, receiver.URL, url.UserPassword("swh", g.in("OTEL_EXPORTER_OTLP_ENDPOINT")))
	g.collector = toCollector
	proxies := []*testenv.Toxic{toDatabase, toBroker, toManagement, toCollector}
	g.cut = func() {
		for _, p := range proxies {
			p.Cut()
		}
	}
	g.sentry = newSentry(t)
	section := journalSection(t, fmt.Sprintf("  sasl.username: swh\n  consumer_settings: {sasl.password: %q, ssl.key.password: %q, sasl.oauthbearer.client.secret: %q}\n",
		g.in("sasl.password"), g.in("ssl.key.password"), g.in("sasl.oauthbearer.client.secret")))
	g.produce = journalTopic(t, section)
	rpcPassword := g.in("rpc_serve.password")
	g.rpcUsers = []string{url.UserPassword("swh", rpcPassword).String() + "@", "", g.user("--url")}
	g.config = configFile(t, fmt.Sprintf(`
scheduler: {cls: postgresql, db: %q, session_kwargs: {auth: [swh, %q]}, pasword: %q}
celery:
  task_broker: %q
  result_backend: "redis://%sredis.example/0"
  redis_password: %q
  sentry_settings_for_celery_tasks: {dsn: "https://%ssentry.example/1"}
ours: {task_broker: "amqp://%smq.example//"}
rabbitmq: {management_url: %q}
rpc_serve: {token: %q, username: swh, password: %q}
sentry_dsn: "https://%ssentry.example/1"
sentry: {dsn: "https://%ssentry.example/1"}
statsd: {host: "%sstatsd.example"}
storage: {cls: remote, url: "http://%sstorage.example/"}
keycloak: {password: %q}
no_origins_scheduled_backoff: 0.1
scheduling_policy: {git: [{policy: oldest_scheduled_first, weight: 1}]}
`, dsn, g.in("scheduler.session_kwargs"), g.in("an unknown key of scheduler"),
		broker+";amqp://"+g.user("the second broker of celery.task_broker")+"127.0.0.1:1//",
		g.user("celery.result_backend"), g.in("celery.redis_password"), g.user("celery.sentry_settings_for_celery_tasks"),
		g.user("an unknown section"), management, g.in("rpc_serve.token"), rpcPassword,
		g.user("sentry_dsn"), g.user("sentry.dsn"), g.user("statsd"), g.user("storage.url"), g.in("keycloak"))+section)
	g.environ = []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector, "OTEL_BSP_SCHEDULE_DELAY=100",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20" + url.PathEscape(g.in("OTEL_EXPORTER_OTLP_HEADERS")),
		"PGPASSWORD=" + g.in("PGPASSWORD"), "SENTRY_DSN=https://" + g.user("SENTRY_DSN") + "sentry.example/1",
		"SWH_SENTRY_DSN=" + strings.Replace(g.sentry.URL, "//", "//"+g.user("SWH_SENTRY_DSN"), 1) + "/1", "SWH_SENTRY_DEBUG=1",
	}
	execute(t, g.dsn, someTaskTypes+";"+someOrigins)
	return g
}

// run runs a command, whose output must contain no secret. Several goroutines may call it.
func (g *guarded) run(more []string, args ...string) {
	cmd := exec.Command(binary, args...)
	cmd.Env = environment(append(slices.Clone(g.environ), more...)...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || !cmd.ProcessState.Exited() || len(out) == 0 {
		g.t.Errorf("%q: %v, %s", args, err, out)
	}
	checkCrash(g.t, args, string(out))
	g.absentFrom(g.t, fmt.Sprintf("output of %q", args), string(out))
}

// commands runs the commands that use the services, whether these are reachable or not.
func (g *guarded) commands(logFormat string) {
	var all sync.WaitGroup
	for _, words := range []string{
		"config show", "config show --output json", "config check", "config check --output json",
		"task-type list", "task list", "explain task 1", "migrate --status", "start-runner", "start-runner --with-priority",
		"celery-monitor --timeout 0.2 ping-workers", "celery-monitor --timeout 0.2 list-running",
		"origin send-origins-from-scheduler-to-celery git",
	} {
		all.Go(func() {
			g.run(nil, append([]string{"-l", "debug", "--log-format", logFormat, "-C", g.config}, strings.Fields(words)...)...)
		})
	}
	all.Wait()
}

// No output, log, response, trace or Sentry report of a daemon or command contains a secret, with services that work and
// that fail. A log in JSON is valid.
func TestSecretsShowNowhere(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	// These are the messages of each daemon without its services.
	words := map[string]string{
		"start-runner --period 1": "is not reachable", "start-runner --period 1 --with-priority": "is not reachable",
		"start-runner-first-visits --period 1": "is not reachable", "schedule-recurrent": "is not reachable",
		"start-listener": "RabbitMQ is not reachable", "journal-client": "is not reachable",
		"rpc-serve --host 127.0.0.1 --port 0": "task_type/get_all", "dashboard --port 0": "is not reachable",
	}
	daemons := map[string]*watched{}
	for words := range words {
		for _, format := range logFormats {
			args := append([]string{"-l", "debug", "--log-format", format, "-C", g.config}, strings.Fields(words)...)
			daemons[words+" "+format] = startWatchedWith(t, g.environ, args...)
		}
	}
	serves := func(when string) {
		t.Helper()
		for name, w := range daemons {
			for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
				_, text := w.get(t, path)
				g.absentFrom(t, fmt.Sprintf("%s of %s %s", path, name, when), text)
			}
		}
	}
	// calls makes calls with the right password, without one, and with a wrong one.
	calls := func() {
		t.Helper()
		var all sync.WaitGroup
		defer all.Wait()
		for name, w := range daemons {
			address := regexp.MustCompile(`listening"?\W+address\W+([\d.:]+)`).FindStringSubmatch(w.log())
			if !strings.HasPrefix(name, "rpc-serve") {
				continue
			}
			if address == nil {
				t.Fatalf("no address in the log:\n%s", w.log())
			}
			for _, user := range g.rpcUsers {
				url := "http://" + user + address[1] + "/"
				all.Go(func() { g.run(nil, "-l", "debug", "-u", url, "task-type", "list") })
				all.Go(func() { g.run([]string{"SWH_SCHEDULER_URL=" + url}, "-l", "debug", "task", "list") })
			}
		}
	}
	for _, w := range daemons {
		w.becomes(t, "/readyz", 200, "ready\n")
	}

	addTasks := func() {
		t.Helper()
		execute(t, g.dsn, `insert into task (type, arguments, next_run, status, policy, priority)
			select 'bare', '{"args": [], "kwargs": {}}', now(), 'next_run_not_scheduled', 'oneshot', case when n > 3 then 'high'::task_priority end from generate_series(1, 6) n`)
	}
	addTasks()
	g.produce(0, visitRecord(t, 0, 0, "full"), []byte("rubbish"))
	channel := testenv.ListenerQueue(t, g.broker)
	for _, event := range []string{"[1, 2]", "rubbish", `{"type": "task-failed", "uuid": "x", "exception": "no"}`} {
		if err := channel.Publish("celeryev", "task.multi", false, false, amqp.Publishing{Body: []byte(event), ContentType: "application/json", ContentEncoding: "utf-8"}); err != nil {
			t.Fatal(err)
		}
	}
	calls()
	g.commands("text")
	testenv.Becomes(t, "there are traces", true, func() bool { return g.traces.span("send swh.bare") != nil })
	serves("with all services")

	g.collector.Cut()
	addTasks()
	// One of the sending daemons has spans for the missing collector.
	testenv.Becomes(t, "somebody misses the collector", true, func() bool {
		for _, w := range daemons {
			if strings.Contains(w.log(), "the collector of traces is not reachable") {
				return true
			}
		}
		return false
	})
	g.cut()
	for partition := range int32(2) {
		g.produce(partition, visitRecord(t, int(partition), 1, "full"))
	}
	calls()
	g.commands("json")
	for name, w := range daemons {
		for words, said := range words {
			if strings.HasPrefix(name, words+" ") {
				w.logs(t, said)
			}
		}
	}
	serves("without services")
	for name, w := range daemons {
		w.stop(t, syscall.SIGTERM)
		g.absentFrom(t, "standard error of "+name, w.log())
		g.absentFrom(t, "standard output of "+name, w.stdout.String())
		for line := range strings.Lines(w.log()) {
			if strings.HasSuffix(name, "json") && !json.Valid([]byte(line)) {
				t.Errorf("a line in the log of %s is no JSON: %s", name, line)
			}
		}
	}
	g.absentFrom(t, "traces", fmt.Sprint(g.traces.got))
	events := g.sentry.all()
	if !strings.Contains(events, "is not reachable") || !strings.Contains(events, `"command":"swh-scheduler schedule-recurrent"`) {
		t.Errorf("what was reported to Sentry:\n%s", events)
	}
	g.absentFrom(t, "events of Sentry", events)
}

// No error about an invalid setting contains a secret.
func TestSecretsOfWrongSettingsShowNowhere(t *testing.T) {
	t.Parallel()
	mq, p := testenv.RabbitMQ(t), planted{}
	dsn := testenv.Database(t)
	database := fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", dsn)
	broker := fmt.Sprintf("celery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n", mq.URL, mq.ManagementURL)
	// refused returns an address with a wrong password.
	refused := func(address, place string) string {
		return withUser(t, address, url.UserPassword("guest", p.in(place)))
	}
	wrongPassword := fmt.Sprintf("celery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n", refused(mq.URL, "a refused broker URL"), mq.ManagementURL)
	kafka := strings.Join(testenv.Kafka(t), ", ")
	consumer := func(settings string) string {
		return fmt.Sprintf("journal: {brokers: [%q], group_id: g, prefix: nope, consumer_settings: {%s}}\n", kafka, settings)
	}
	for i, tc := range []struct {
		name, config string
		environ      []string
		args, want   string
	}{
		{"a DSN that is none", "", []string{"SWH_SCHEDULER_DATABASE=host=h password='" + p.in("a wrong DSN") + " x"}, "task list", "DSN"},
		{"a URL that is none", fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", "postgresql://"+p.user("a wrong database URL")+"h:port/x"), nil, "config check", "DSN"},
		{"an unknown user", fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", withUser(t, dsn, url.UserPassword("nobody", p.in("a refused database URL")))), nil, "task list", "does not exist"},
		{"a wrong key", fmt.Sprintf("scheduler: {cls: postgresql, db: {password: %q}}\n", p.in("scheduler.db as a mapping")), nil, "task list", "scheduler.db must be a text"},
		{"a refused password", database + wrongPassword, nil, "config check", "403"},
		{"a refused password of a command", database + wrongPassword, nil, "celery-monitor --timeout 0.2 ping-workers", "403"},
		{"a refused password of the management", database + fmt.Sprintf("celery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n", mq.URL, refused(mq.ManagementURL, "a refused management URL")), nil, "config check", "401"},
		{"a broker without SASL", database + broker + consumer(fmt.Sprintf("security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: u, sasl.password: %q", p.in("a refused sasl.password"))), nil, "config check", "WRONG journal"},
		{"a mechanism that is not there", database + broker + consumer(fmt.Sprintf("security.protocol: SASL_SSL, sasl.mechanism: x, sasl.password: %q", p.in("sasl.password"))), nil, "journal-client", "sasl.mechanism"},
		{"a key that is none", database + broker + consumer(fmt.Sprintf("security.protocol: SSL, ssl.certificate.pem: x, ssl.key.pem: %q, ssl.key.password: %q", p.in("ssl.key.pem"), p.in("ssl.key.password"))), nil, "journal-client", "ssl."},
		{"a setting that is not there", database + broker + consumer(fmt.Sprintf("sasl.jaas.config: %q", p.in("sasl.jaas.config"))), nil, "config check", "sasl.jaas.config"},
		{"a task type", database + fmt.Sprintf("lost_after: {%q: %q}\n", "load-git", p.in("lost_after")), nil, "task list", "lost_after.load-git"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			file := configFile(t, tc.config+"metrics: {}\n")
			r := oursWith(t, append(tc.environ, "SWH_CONFIG_FILENAME="+file),
				append([]string{"-l", "debug", "--log-format", logFormats[i%2]}, strings.Fields(tc.args)...)...)
			if out := r.stdout + r.stderr; r.code == 0 || !strings.Contains(out, tc.want) {
				t.Errorf("exit code %d, want another and %q:\n%s", r.code, tc.want, out)
			}
			p.absentFrom(t, tc.args, r.stdout+r.stderr)
		})
	}

	// These settings only cause warnings.
	for i, tc := range []struct {
		name    string
		config  string
		environ string
		args    string
		want    string
	}{
		{"headers that are none", broker, "OTEL_EXPORTER_OTLP_HEADERS=Bearer " + p.in("wrong OTLP headers"), "start-listener", "OTEL_EXPORTER_OTLP_HEADERS must be a list"},
		{"headers that are not escaped", broker, "OTEL_EXPORTER_OTLP_HEADERS=a=%zz" + p.in("escaped OTLP headers"), "start-listener", "OTEL_EXPORTER_OTLP_HEADERS must be a list"},
		{"an endpoint that is none", broker, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://" + p.user("a wrong OTLP endpoint") + "h:port/", "start-listener", "must be the address of a collector"},
		{"a broker that refuses the password", wrongPassword, "", "start-listener", "403"},
		{"a broker that refuses the password of tasks", wrongPassword, "", "start-runner --period 1", "403"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			execute(t, dsn, `insert into task_type (type, description, backend_name) values ('t', '', 'swh.t') on conflict do nothing;
				insert into task (type, arguments, next_run, status, policy) values ('t', '{"args": [], "kwargs": {}}', now(), 'next_run_not_scheduled', 'oneshot')`)
			w := startWith(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", tc.environ},
				append([]string{"-l", "debug", "--log-format", logFormats[i%2], "-C", configFile(t, database+tc.config)}, strings.Fields(tc.args)...)...)
			w.logs(t, tc.want)
			w.stop(t, syscall.SIGTERM)
			p.absentFrom(t, tc.args, w.log()+w.stdout.String())
		})
	}
}
