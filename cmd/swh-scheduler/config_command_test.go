package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// config show prints the effective configuration as a valid configuration, without secrets.
func TestConfigShow(t *testing.T) {
	t.Parallel()
	config := configFile(t, `
scheduler: {cls: postgresql, db: "postgresql://u:s3cret@db.example:5433/scheduler"}
celery: {task_broker: "amqp://u:s3cret@mq.example//;amqp://u:s3cret@other.example//", task_serializer: msgpack, task_routes: {"swh.*": {queue: routed}}}
rabbitmq: {management_url: "http://u:s3cret@mq.example:15672/"}
rpc_serve: {token: s3cret, username: u, password: s3cret}
journal: {brokers: [kafka.example], group_id: g, consumer_settings: {sasl.password: s3cret, client.id: mine}}
scheduling_policy: {git: [{policy: oldest_scheduled_first, weight: 100, failed_cooldown: null}]}
lost_after: {load-git: 36h}
archive: {after: {load-git: 48h}}
shares: {load-git: {by: lister, default: 1}}
hosters: {limits: {git.example: {per_minute: 5}}, default: {max_in_flight: 50}}
lanes: {load-git: [{name: express, queue: "express:{backend_name}", time_limit: 60}, {name: slow, time_limit: 600, retry: true}]}
no_origins_scheduled_backoff: 90
metrics: {addr: "127.0.0.1:9102"}
`)
	r := ours(t, "-C", config, "config", "show")
	if r.code != 0 || r.stderr != "" || strings.Contains(r.stdout, "s3cret") {
		t.Errorf("%+v", r)
	}
	for _, want := range []string{"db.example", "5433", "mq.example", "kafka.example", "[redacted]", "client.id: mine", "load-git: 36h0m0s", "load-git: 48h0m0s", "by: lister", "per_minute: 5", "retry: true", "task_serializer: msgpack", "queue: routed", "max_in_flight: 50", "addr: 127.0.0.1:9102", "soft: 1m0s", "intervals: [24h0m0s"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	again := ours(t, "-C", configFile(t, r.stdout), "config", "show")
	if again.code != 0 || again.stdout != r.stdout {
		t.Errorf("shown again, it is\n%s%s\nand not\n%s", again.stdout, again.stderr, r.stdout)
	}
	var parsed map[string]any
	if r := ours(t, "-C", config, "config", "show", "--output", "json"); json.Unmarshal([]byte(r.stdout), &parsed) != nil || parsed["file"] != config || strings.Contains(r.stdout, "s3cret") {
		t.Errorf("%+v", r)
	}
	if r := ours(t, "-u", "http://u:s3cret@rpc.example/", "config", "show"); !strings.Contains(r.stdout, "http://u:xxxxx@rpc.example/") {
		t.Errorf("%+v", r)
	}
}

// Without a broker in the file, or with a misspelt key for it, a sender or listener doesn't start, and prints where the
// key belongs. It doesn't try another broker.
func TestDaemonsNeedABroker(t *testing.T) {
	t.Parallel()
	base := "scheduler: {cls: postgresql, db: 'postgresql://u:s3cret@127.0.0.1:1/x'}\n"
	broker := "'amqp://u:s3cret@127.0.0.1:1//'"
	for text, want := range map[string]string{
		base:                                  ".yml: celery.task_broker is missing: expected the broker's URL",
		base + "celery: {task_modules: []}\n": ".yml:2: celery.task_broker is missing: expected the broker's URL",
		base + "celry: {task_broker: " + broker + "}":  ".yml:2:1: celry is not a known key (did you mean celery?)",
		base + "celery: {task_borker: " + broker + "}": ".yml:2:10: celery.task_borker is not a known key (did you mean task_broker?)",
	} {
		file := configFile(t, text)
		for _, args := range []string{
			"start-runner", "start-runner --period 1", "start-runner-first-visits --period 1", "schedule-recurrent", "start-listener",
			"celery-monitor ping-workers", "queue status", "config check",
		} {
			r := ours(t, append([]string{"-C", file}, strings.Fields(args)...)...)
			if r.code != 1 || !strings.Contains(r.stdout+r.stderr, want) || strings.Contains(r.stdout+r.stderr, "localhost") || strings.Contains(r.stdout+r.stderr, "s3cret") {
				t.Errorf("%s with %s: %+v, want %s", args, text, r, want)
			}
		}
	}
}

// config check reports for each service whether it is usable.
func TestConfigCheck(t *testing.T) {
	t.Parallel()
	good := services(t) + "rpc_serve: {open: true}\n" + journalSection(t, "")
	check := func(text string, args ...string) result {
		t.Helper()
		return ours(t, append([]string{"-l", "error", "-C", configFile(t, text), "config", "check"}, args...)...)
	}
	r := check(good)
	if r.code != 0 || r.stderr != "" || strings.Count(r.stdout, "ok ") != 6 {
		t.Errorf("%+v", r)
	}
	var results []struct{ Name, Found, Problem string }
	if r := check(good, "--output", "json"); json.Unmarshal([]byte(r.stdout), &results) != nil || len(results) != 6 || results[0].Problem != "" {
		t.Errorf("%+v", r)
	}
	broker := "celery: {task_broker: \"amqp://u:s3cret@127.0.0.1:1//\"}\n"
	for text, want := range map[string][]string{
		good + "lost_after: {load-gti: 1h, default: 1h}\nscheduling_policy: {git: [{policy: oldest_scheduled_first, weight: 100}], htg: [{policy: oldest_scheduled_first, weight: 100}]}\n": {
			"WRONG scheduler: lost_after.load-gti: there is no task type load-gti; scheduling_policy.htg: there is no task type load-htg\n"},
		fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", testenv.Postgres(t)) + broker: {
			"WRONG scheduler: ", "swh-scheduler migrate", "WRONG celery.task_broker: ", "WRONG rabbitmq.management_url: "},
		"scheduler: {cls: postgresql, db: \"postgresql://u:s3cret@127.0.0.1:1/x\"}\n" + broker:                                              {"WRONG scheduler: PostgreSQL (host=127.0.0.1 port=1", "is not reachable"},
		fmt.Sprintf("scheduler: {cls: postgresql, db: '%s?options=-cdefault_transaction_read_only%%3Don'}\n", testenv.Database(t)) + broker: {"WRONG scheduler: the database takes no writes"},
		good + "database: {replica: \"postgresql://u:s3cret@127.0.0.1:1/x\"}\n":                                                             {"WRONG database.replica: PostgreSQL (host=127.0.0.1 port=1"},
		good + "archive: {after: {default: 2 days}, directory: /nowhere}\n":                                                                 {"WRONG archive.directory: stat /nowhere: no such file or directory\n"},
		good + "metrics: {addr: localhost}\n":                                                                                               {"WRONG metrics.addr: address localhost: missing port in address\n"},
		good + "dashboard: {reports: /nowhere}\n":                                                                                           {"WRONG dashboard.reports: stat /nowhere: no such file or directory\n"},
		"scheduler: {cls: postgresql, db: dbname=x}\ncelery: {task_broker: \"redis://h/\"}\n":                                               {"scheduler.yml:2: celery.task_broker can't be used: broker URL 1 of 1: the scheme must be amqp or amqps\n"},
		"scheduler: {cls: remote, url: \"http://u:s3cret@127.0.0.1:1/\"}\n" + broker:                                                        {"WRONG scheduler: the database of RPC server http://u:xxxxx@127.0.0.1:1/ is not reachable"},
		good[:strings.Index(good, "journal:")] + "journal: {brokers: [\"127.0.0.1:1\"], group_id: g}\n": {
			"WRONG journal: "},
		good[:strings.Index(good, "journal:")] + fmt.Sprintf("journal: {brokers: [%q], group_id: g, prefix: nope}\n", testenv.Kafka(t)[0]): {
			"WRONG journal: the topic nope.origin_visit_status does not exist"},
	} {
		r := check(text)
		if r.code != 1 || !strings.Contains(r.stderr, "not fit for use") || strings.Contains(r.stdout+r.stderr, "s3cret") {
			t.Errorf("%s: %+v", text, r)
		}
		for _, want := range want {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("%s\nno %q in\n%s", text, want, r.stdout)
			}
		}
	}
	if r := check("scheduler: [\n"); r.code != 1 || !strings.Contains(r.stderr, "is not YAML") {
		t.Errorf("%+v", r)
	}
}

// config check warns of an address of the broker that can't be used while another one can.
func TestConfigCheckOfEachBroker(t *testing.T) {
	t.Parallel()
	url := testenv.RabbitMQ(t).URL
	wrong := "amqp://guest:s3cret@" + url[strings.LastIndexByte(url, '@')+1:]
	for addresses, want := range map[string]string{
		url + ";" + url:                 "ok    celery.task_broker: amqp://guest:***@",
		url + ";" + wrong:               "WARN  celery.task_broker: 1 of 2 addresses of amqp://guest:***@",
		"amqp://127.0.0.1:1//;" + url:   "WARN  celery.task_broker: 1 of 2 addresses of amqp://guest:***@127.0.0.1:1",
		"amqp://127.0.0.1:1//;" + wrong: "WRONG celery.task_broker: ",
	} {
		config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\n", testenv.Database(t), addresses))
		r := ours(t, "-C", config, "config", "check", "--for", "start-listener")
		if !strings.Contains(r.stdout, want) || strings.Contains(r.stdout, "s3cret") || strings.HasPrefix(want, "WRONG") != (r.code != 0) {
			t.Errorf("%s\n%+v, want %q", addresses, r, want)
		}
	}
}

// config check prints how many runs lost_after excludes as another scheduler's, once the job has counted them.
func TestConfigCheckOfLostAfter(t *testing.T) {
	t.Parallel()
	text := services(t) + "lost_after: {default: 1h}\nrpc_serve: {open: true}\n"
	config := configFile(t, text)
	dsn, _, _ := strings.Cut(text[strings.Index(text, "db: \"")+5:], "\"")
	execute(t, dsn, someTaskTypes+`;
		insert into task (id, type, arguments, next_run, status, policy) values (1, 'bare', '{}', now(), 'next_run_scheduled', 'oneshot');
		insert into task_run (task, backend_id, scheduled, started, status) values (1, 'x', now() - interval '1 year', now() - interval '1 year', 'started')`)
	says := func(want string) {
		t.Helper()
		if r := ours(t, "-C", config, "config", "check"); r.code != 0 || !strings.Contains(r.stdout, "ok    lost_after: "+want) {
			t.Errorf("%+v, want %s", r, want)
		}
	}
	says("no start-runner has searched for lost runs with it yet")
	if r := ours(t, "-C", config, "explain", "1"); !strings.Contains(r.stdout, "due to be given up since") || !strings.Contains(r.stdout, "has the present configuration: restart it") {
		t.Errorf("%+v", r)
	}
	p := start(t, "-C", config, "start-runner", "--period", "1")
	p.logs(t, "silent runs are left alone")
	says("1 silent run from before this program first sent here, left alone")
	if r := ours(t, "-C", config, "explain", "1"); !strings.Contains(r.stdout, "sent before this program sent such tasks here") {
		t.Errorf("%+v", r)
	}
	p.stop(t, syscall.SIGTERM)
	execute(t, dsn, "update scheduler_go.keeper set began = 'epoch'") // as if the job had run for a minute
	p = start(t, "-C", config, "start-runner", "--period", "1", "--lost-before", "2 days ago")
	p.logs(t, "runs given up")
	testenv.Becomes(t, "what is left", true, func() bool {
		return strings.Contains(ours(t, "-C", config, "config", "check").stdout, "lost_after: lost runs are given up; none is left alone")
	})
	p.stop(t, syscall.SIGTERM)
}

// config check warns of files that other users can read, and exits with 0.
func TestConfigCheckWarns(t *testing.T) {
	t.Parallel()
	file := configFile(t, services(t)+"rpc_serve: {token: s3cret}\n")
	for at, mode := file, os.FileMode(0o644); strings.Contains(at, "TestConfigCheckWarns"); at, mode = filepath.Dir(at), 0o755 {
		if err := os.Chmod(at, mode); err != nil {
			t.Fatal(err)
		}
	}
	r := ours(t, "-C", file, "config", "check")
	if r.code != 0 || !strings.Contains(r.stdout, "WARN  security: "+file+" holds secrets, and every user of this host may read it: chmod o= "+file+"\n") {
		t.Errorf("%+v", r)
	}
	var results []struct{ Name, Warning string }
	if r := ours(t, "-C", file, "config", "check", "--output", "json"); json.Unmarshal([]byte(r.stdout), &results) != nil || results[len(results)-1].Warning == "" {
		t.Errorf("%+v", r)
	}
}

// config check --for checks the rights of one daemon at the database. It prints the missing ones with the statements
// that grant them.
func TestConfigCheckForADaemon(t *testing.T) {
	t.Parallel()
	text := services(t)
	dsn := schedulerSection.FindStringSubmatch(text)[1]
	as, ok := testenv.AsDaemon(t, dsn, "start-listener")
	if !ok {
		t.Fatal("the database is away")
	}
	config := configFile(t, strings.Replace(text, dsn, as, 1))
	if r := ours(t, "-C", config, "config", "check", "--for=start-listener"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	user := testenv.URL(t, as).User.Username()
	for daemon, want := range map[string]string{
		"journal-client": "grant update on table public.listed_origins to " + user,
		"start-runner":   "grant delete on table public.task, public.task_run to " + user,
	} {
		if r := ours(t, "-C", config, "config", "check", "--for="+daemon); r.code != 1 || !strings.Contains(r.stdout, want) {
			t.Errorf("%s: %+v, want %s", daemon, r, want)
		}
	}
	if r := ours(t, "-C", config, "config", "check", "--for=nobody"); r.code != 2 || !strings.Contains(r.stderr, "start-listener") {
		t.Errorf("%+v", r)
	}
}

// config check --for checks a daemon's user at the broker: the rights on the queues of all task types, and the
// management tag. The printed statements grant what is missing. Daemons without broker and Kafka need no such rights.
func TestConfigCheckOfTheBroker(t *testing.T) {
	t.Parallel()
	text := services(t)
	dsn := schedulerSection.FindStringSubmatch(text)[1]
	execute(t, dsn, someTaskTypes)
	mq := testenv.RabbitMQ(t)
	user := mq.Tagged(t, "s3cret", "", false)
	u, root := testenv.URL(t, mq.URL), testenv.URL(t, mq.ManagementURL)
	u.User, root.User = url.UserPassword(user, "s3cret"), url.UserPassword(user, "s3cret")
	config := configFile(t, fmt.Sprintf(`scheduler: {cls: postgresql, db: %q}
celery: {task_broker: %q}
rabbitmq: {management_url: %q}
dashboard: {users: [{name: ann, password_hash: "$2a$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW", roles: [tasks]}]}
`, dsn, u, root))
	check := func(daemon string) result {
		t.Helper()
		r := ours(t, "-l", "error", "-C", config, "config", "check", "--for="+daemon)
		if strings.Contains(r.stdout+r.stderr, "s3cret") {
			t.Errorf("%s: %+v", daemon, r)
		}
		return r
	}
	quoted := regexp.MustCompile(`'([^']*)'`)
	permit := func(statement string) {
		t.Helper()
		w := quoted.FindAllStringSubmatch(statement, -1)
		if len(w) != 5 || w[0][1] != u.Path[1:] || w[1][1] != user {
			t.Fatal(statement)
		}
		mq.Permit(t, user, w[2][1], w[3][1], w[4][1])
	}
	statement := regexp.MustCompile(`rabbitmqctl set_permissions .*? \(in place of`)
	tag := "rabbitmqctl set_user_tags '" + user + "' monitoring"
	for i, daemon := range []string{"start-runner", "start-runner-first-visits", "schedule-recurrent", "start-listener", "dashboard"} {
		if i > 0 {
			mq.Permit(t, user, "^$", "^$", "^$")
		}
		r := check(daemon)
		if r.code != 1 || !strings.Contains(r.stdout, "WRONG celery.task_broker: its user "+user+" lacks ") {
			t.Fatalf("%s: %+v", daemon, r)
		}
		if i == 0 && !strings.Contains(r.stdout, tag) {
			t.Errorf("no %s in %s", tag, r.stdout)
		}
		mq.Tag(t, user, "s3cret", "monitoring")
		permit(statement.FindString(r.stdout))
		if r := check(daemon); r.code != 0 {
			t.Errorf("%s with its rights: %+v", daemon, r)
		}
	}
	mq.Permit(t, user, `^swh\.`, `^(amq\.default)?(swh\..*)?$`, `^swh\.`)
	if r := check("start-runner"); r.code != 1 || !strings.Contains(r.stdout, "configure on queue save_code_now:swh.") || !strings.Contains(r.stdout, "more; write on queue save_code_now:swh.") {
		t.Errorf("%+v", r)
	}
	if r := check("schedule-recurrent"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	for _, daemon := range []string{"journal-client", "update-metrics"} {
		if r := check(daemon); r.code != 0 || strings.Contains(r.stdout, "broker") {
			t.Errorf("%s: %+v", daemon, r)
		}
	}
}

// If a service accepts connections and never answers, config check reports that within a bounded time.
func TestConfigCheckOfSilentServices(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	at := silent.Addr()
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: \"postgresql://u:s3cret@%s/x\"}\ncelery: {task_broker: \"amqp://u:s3cret@%[1]s//\"}\n"+
		"rabbitmq: {management_url: \"http://u:s3cret@%[1]s/\"}\njournal: {brokers: [\"%[1]s\"], group_id: g}\nrpc_serve: {open: true}\n", at))
	began := time.Now()
	r := ours(t, "-l", "error", "-C", config, "config", "check")
	if r.code != 1 || strings.Contains(r.stdout+r.stderr, "s3cret") || time.Since(began) > time.Minute {
		t.Errorf("after %s: %+v", time.Since(began), r)
	}
	for _, name := range []string{"scheduler", "celery.task_broker", "rabbitmq.management_url", "journal"} {
		if !strings.Contains(r.stdout, "WRONG "+name+": ") {
			t.Errorf("nothing is wrong with %s: %s", name, r.stdout)
		}
	}
	if !strings.Contains(r.stdout, "WRONG scheduler: no answer within 10s: ") {
		t.Errorf("the database is not said to be silent: %s", r.stdout)
	}
}
