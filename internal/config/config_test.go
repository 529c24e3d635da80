package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write writes a configuration file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	return testenv.File(t, "scheduler.yml", text)
}

const full = `
# A file as it is shared with Python components.
scheduler:
  cls: local
  db: host=db.example dbname=scheduler user=swh password=s3cret
  min_pool_conns: 1
  max_pool_conns: 20
celery:
  task_broker: amqp://swh:s3cret@mq.example:5672//;amqps://swh:s3cret@mq2.example//
  task_queues: [a, b]
  broker_transport_options: {confirm_publish: true}
  task_modules: []
  sentry_settings_for_celery_tasks: {swh: {dsn: x}}
rabbitmq: {management_url: "http://swh:s3cret@mq.example:15672", stats_age: 1 min}
journal:
  cls: kafka
  brokers: [k1:9092, "k2:9092, k3:9092"]
  group_id: swh.scheduler
  prefix: swh.journal.objects
  privileged: no
  batch_size: 1_000
  auto_offset_reset: latest
  on_eof: stop
  stop_after_objects: 5
  consumer_settings:
    security.protocol: SASL_SSL
    sasl.password: s3cret
    session.timeout.ms: 600000
    enable.partition.eof: true
    debug: null
scheduling_policy:
  hg:
  - {policy: oldest_scheduled_first, weight: 3, enabled: off, tablesample: "0.5", exact: false,
     absolute_cooldown: 12:00:00, scheduled_cooldown: 7 days, failed_cooldown: null, not_found_cooldown: 1h30m}
  - &lister
    policy: first_visits_after_listing
    weight: 0.5
    lister_uuid: 5c1a0fbd-22e7-4a39-8cd7-5a3a8f1f0a51
    lister_name: gitea
    lister_instance_name: null
  ipfs: [*lister]
  svn: [{policy: pools, forks: 0.25}]
  cvs: [{policy: freshness, weight: 2, longest_wait: 60 days}]
  bzr: [{policy: freshness, weight: 1}]
no_origins_scheduled_backoff: 20:00
queue_full_backoff: 2.5
lost_after: {default: 2 days, load-git: 36000}
wanted_workers: {default: {target_wait: 5 min, max: 8}, load-git: {runtime: 120}}
database: {direct: "host=direct password=s3cret", replica: "host=replica password=s3cret"}
archive: {after: {default: 365 days, load-git: 0}, directory: /a}
failures_keep_date: yes
update_metrics_after: 1 day
metrics: {addr: "127.0.0.1:9100", pprof: true, theirs: 1}
shares:
  load-git: {by: lister, weights: {github: 50, gitlab: 30.5}, default: 20, half_life: 30 min}
  load-hg: {by: kwargs.owner_2, weights: {a: 1, b: 3}}
  index-text: {by: task_type, max_in_flight: {index-text: 5}, priority: {index-text: 255, other: 0}}
priority_ageing: 30 min
visit_rules: {intervals: [12 hours, 1 day, 1 day], fudge: 0.25, disable_after: 4, disable_after_mixed: 6}
hosters:
  limits: {gitlab/gitlab.example: {max_in_flight: 20, per_minute: 60}, git.example: {per_minute: 5}}
  default: {max_in_flight: 50}
  lost_after: 2 days
hints:
  github: {secret: s3cret-of-github-webhooks}
  salsa: {forge: gitlab, secret: [s3cret-of-salsa-webhooks, s3cret-of-salsa-before], hosts: [salsa.example, "*.salsa.example"], max_per_second: 50}
  unknown: {lister: hints, instance: outside, max_origins: 1000}
gone_origins:
  gitweb: {}
  gitlab/gitlab.example: {full_task_types: [a, b], listings: 2, max_share: 0, few: 0, clock_margin: 1 min, arguments: [x]}
lanes:
  load-git:
  - {name: express, queue: "express:{backend_name}", time_limit: 1 min, slots: 2000, min_slots: 10, max_slots: 3000}
  - {name: slow, time_limit: {soft: 900, hard: 20 min}}
rpc_serve: {tls_certificate: c.pem, tls_key: k.pem, token: s3cret, username: u, password: s3cret, max_body_size: 1000,
  client_ca: ca.pem, clients: [{name: runner, certificate: ["CN:runner", "DNS:runner.example"], roles: daemon}],
  door: {db: "host=db.example dbname=scheduler user=daemons password=s3cret", max_connections: 50, max_per_client: 20, max_per_address: 30}}
dashboard:
  {in_rpc_serve: yes, require_login: yes, tls_certificate: c.pem, tls_key: k.pem, reports: r, hosts: [Dashboard.example],
  users: [{name: ann, password_hash: "$2a$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW", roles: [tasks, graphs, terminate]}, {name: script, token_sha256: 4bc453b53cb3d914b45f4b250294236adba2c0e09ff6f03793949e7e39fd4cc1, roles: [view]}],
  proxy: {addresses: [127.0.0.1, "10.1.0.0/16"], user_header: X-User, role_header: X-Roles, roles: {admins: [tasks, graphs], lookers: [view]}}}
storage: {cls: remote, url: x}
sentry: {dsn: "https://k:s3cret@sentry.example/1", environment: staging, main_package: swh.scheduler, disable_logging_events: on, traces_sample_rate: 0.1}
`

// hash is a bcrypt hash.
const hash = "$2a$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW"

func TestLoad(t *testing.T) {
	path := write(t, full)
	got, warnings, err := Load(path)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	want := Default()
	want.File = path
	want.Scheduler = Scheduler{Cls: Postgres, DB: "host=db.example dbname=scheduler user=swh password=s3cret", MaxPoolConns: 20}
	want.Celery.TaskBroker = "amqp://swh:s3cret@mq.example:5672//;amqps://swh:s3cret@mq2.example//"
	want.Celery.Sending.Queues = []string{"celery", "a", "b"}
	want.Celery.Given = map[string]any{"task_queues": []any{"a", "b"}}
	want.RabbitMQ = RabbitMQ{ManagementURL: "http://swh:s3cret@mq.example:15672", StatsAge: time.Minute}
	want.Journal = Journal{
		Brokers: []string{"k1:9092", "k2:9092", "k3:9092"}, GroupID: "swh.scheduler", Prefix: "swh.journal.objects",
		BatchSize: 1000, AutoOffsetReset: "latest", OnEOF: "stop", StopAfterObjects: 5,
		ConsumerSettings: Settings{
			"security.protocol": "SASL_SSL", "sasl.password": "s3cret",
			"session.timeout.ms": "600000", "enable.partition.eof": "true",
		},
	}
	first := model.WeightedPolicy{Weight: 0.5, Filter: model.VisitFilter{
		Policy: model.FirstVisitsAfterListing, Cooldowns: model.DefaultCooldowns, ListerName: "gitea",
		ListerID: uuid.NullUUID{UUID: uuid.MustParse("5c1a0fbd-22e7-4a39-8cd7-5a3a8f1f0a51"), Valid: true},
	}}
	want.SchedulingPolicy["hg"] = []model.WeightedPolicy{{Weight: 3, Filter: model.VisitFilter{
		Policy: model.OldestScheduledFirst, Disabled: true, TableSample: 0.5, Inexact: true,
		Cooldowns: model.Cooldowns{Absolute: 12 * time.Hour, Scheduled: 7 * 24 * time.Hour, NotFound: 90 * time.Minute},
	}}, first}
	want.SchedulingPolicy["ipfs"] = []model.WeightedPolicy{first}
	want.SchedulingPolicy["svn"] = []model.WeightedPolicy{{Weight: 1, Forks: 0.25, Filter: model.VisitFilter{
		Policy: model.Pools, Cooldowns: model.DefaultCooldowns,
	}}}
	fresh := func(weight float64, longest time.Duration) []model.WeightedPolicy {
		return []model.WeightedPolicy{{Weight: weight, LongestWait: longest, Filter: model.VisitFilter{Policy: model.Freshness, Cooldowns: model.DefaultCooldowns}}}
	}
	want.SchedulingPolicy["cvs"], want.SchedulingPolicy["bzr"] = fresh(2, 60*24*time.Hour), fresh(1, 365*24*time.Hour)
	want.NoOriginsScheduledBackoff, want.QueueFullBackoff = 20*time.Minute, 2500*time.Millisecond
	want.Database = Database{Direct: "host=direct password=s3cret", Replica: "host=replica password=s3cret"}
	want.Archive = Archive{After: map[string]time.Duration{"default": 365 * 24 * time.Hour, "load-git": 0}, Directory: "/a"}
	want.LostAfter = map[string]time.Duration{"default": 48 * time.Hour, "load-git": 10 * time.Hour}
	want.WantedWorkers = map[string]model.WantedWorkers{"default": {TargetWait: 5 * time.Minute, Max: 8}, "load-git": {Runtime: 2 * time.Minute}}
	want.FailuresKeepDate, want.UpdateMetricsAfter, want.Metrics.Addr = true, 24*time.Hour, "127.0.0.1:9100"
	want.Metrics.Pprof = true
	want.Sentry = Sentry{DSN: "https://k:s3cret@sentry.example/1", Environment: "staging", MainPackage: "swh.scheduler", DisableLoggingEvents: true}
	want.VisitRules = model.VisitRules{Intervals: []time.Duration{12 * time.Hour, 24 * time.Hour, 24 * time.Hour}, Fudge: 0.25, DisableAfter: 4, DisableAfterMixed: 6}
	want.Hints = Hints{
		Sources: map[string]HintSource{
			"github": {Forge: "github", Secret: []Secret{"s3cret-of-github-webhooks"}, Hosts: []string{"github.com"}, MaxPerSecond: 1000},
			"salsa":  {Forge: "gitlab", Secret: []Secret{"s3cret-of-salsa-webhooks", "s3cret-of-salsa-before"}, Hosts: []string{"salsa.example", "*.salsa.example"}, MaxPerSecond: 50},
		},
		Unknown: UnknownHints{Lister: "hints", Instance: "outside", VisitType: "git", MaxOrigins: 1000},
	}
	want.Hosters = model.Hosters{
		Limits:  map[string]model.HosterLimit{"gitlab/gitlab.example": {MaxInFlight: 20, PerMinute: 60}, "git.example": {PerMinute: 5}},
		Default: model.HosterLimit{MaxInFlight: 50}, LostAfter: 48 * time.Hour,
	}
	want.GoneOrigins = model.GoneOrigins{
		"gitweb":                {FullTaskTypes: []string{"list-gitweb"}, Listings: 1, MaxShare: 0.05, Few: 5, ClockMargin: 10 * time.Minute},
		"gitlab/gitlab.example": {FullTaskTypes: []string{"a", "b"}, Listings: 2, ClockMargin: time.Minute, Arguments: []string{"x"}},
	}
	want.Lanes = map[string][]model.Lane{"load-git": {
		{Name: "express", Queue: "express:{backend_name}", SoftTimeLimit: time.Minute, TimeLimit: 66 * time.Second, Slots: 2000, MinSlots: 10, MaxSlots: 3000},
		{Name: "slow", Queue: "{backend_name}", SoftTimeLimit: 15 * time.Minute, TimeLimit: 20 * time.Minute, MinSlots: 1},
	}}
	want.Shares = map[string]model.Shares{
		"load-git": {By: model.ShareByLister, Weights: map[string]float64{"github": 50, "gitlab": 30.5}, Default: 20, HalfLife: 30 * time.Minute},
		"load-hg":  {By: "kwargs.owner_2", Weights: map[string]float64{"a": 1, "b": 3}, Default: 2, HalfLife: time.Hour},
		"index-text": {
			By: model.ShareByTaskType, Default: 1, HalfLife: time.Hour,
			MaxInFlight: map[string]int{"index-text": 5}, Priorities: map[string]uint8{"index-text": 255, "other": 0},
		},
	}
	want.PriorityAgeing = 30 * time.Minute
	want.RPCServe = RPCServe{TLSCertificate: "c.pem", TLSKey: "k.pem", Token: "s3cret", Username: "u", Password: "s3cret", MaxBodySize: 1000,
		ClientCA: "ca.pem", Clients: []Client{{Name: "runner", Certificate: []string{"CN:runner", "DNS:runner.example"}, Roles: []string{"daemon"}}},
		Door: Door{DB: "host=db.example dbname=scheduler user=daemons password=s3cret", MaxConnections: 50, MaxPerClient: 20, MaxPerAddress: 30}}
	want.Dashboard = Dashboard{
		InRPCServe: true, RequireLogin: true, TLSCertificate: "c.pem", TLSKey: "k.pem", Reports: "r", Hosts: []string{"Dashboard.example"},
		Users: []DashboardUser{
			{Name: "ann", PasswordHash: "$2a$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW", Roles: []DashboardRole{RoleTasks, RoleGraphs, RoleTerminate}},
			{Name: "script", TokenSHA256: "4bc453b53cb3d914b45f4b250294236adba2c0e09ff6f03793949e7e39fd4cc1", Roles: []DashboardRole{RoleView}},
		},
		Proxy: DashboardProxy{
			Addresses:  []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.1.0.0/16")},
			UserHeader: "X-User", RoleHeader: "X-Roles", Roles: map[string][]DashboardRole{"admins": {RoleTasks, RoleGraphs}, "lookers": {RoleView}},
		},
	}
	if diff := cmp.Diff(reveal(want), reveal(got), cmpopts.IgnoreUnexported(Config{}, Celery{}), cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
}

// reveal returns secrets as texts: two different values of type Secret print the same.
func reveal(c *Config) any {
	var users []string
	for _, u := range c.Dashboard.Users {
		users = append(users, string(u.PasswordHash), string(u.TokenSHA256))
	}
	return []any{*c, users, string(c.Scheduler.DB), string(c.Database.Direct), string(c.Database.Replica), string(c.Celery.TaskBroker), string(c.RabbitMQ.ManagementURL), string(c.RPCServe.Token), string(c.RPCServe.Password), string(c.Sentry.DSN), map[string]string(c.Journal.ConsumerSettings)}
}

// The documented file loads without a warning. Its values are the defaults, except for the examples.
func TestDocumentedFile(t *testing.T) {
	page := testenv.Read(t, filepath.Join("..", "..", "docs", "reference", "configuration.md"))
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	got, warnings, err := parse("F", []byte(text))
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	want := Default()
	j := &want.Journal
	j.BatchSize = 10_000 // the default
	j.Brokers, j.GroupID, j.ConsumerSettings = got.Journal.Brokers, got.Journal.GroupID, got.Journal.ConsumerSettings
	want.Sentry, want.File, want.Scheduler, want.Celery, want.RabbitMQ, want.SchedulingPolicy["git"] = got.Sentry, got.File, got.Scheduler, got.Celery, got.RabbitMQ, got.SchedulingPolicy["git"]
	want.Archive, want.Database, want.GoneOrigins = got.Archive, got.Database, got.GoneOrigins
	want.WantedWorkers, want.LostAfter, want.Shares, want.Hosters, want.Lanes, want.Metrics.Addr = got.WantedWorkers, got.LostAfter, got.Shares, got.Hosters, got.Lanes, got.Metrics.Addr
	want.UpdateMetricsAfter, want.RPCServe = 6*time.Hour, got.RPCServe
	want.RPCServe.MaxBodySize = DefaultMaxBodySize
	want.Dashboard = got.Dashboard
	want.Dashboard.InRPCServe, want.Dashboard.RequireLogin = false, false
	if diff := cmp.Diff(reveal(want), reveal(got), cmpopts.IgnoreUnexported(Config{}, Celery{}), cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
}

// A missing or null key has its default.
func TestLoadDefaults(t *testing.T) {
	for _, text := range []string{
		"scheduler: {cls: remote, url: 'http://x'}",
		"scheduler: {cls: remote, url: 'http://x', db: null}\ncelery:\njournal: {batch_size: null}\nrabbitmq: ~\nscheduling_policy: null\nno_origins_scheduled_backoff: null",
	} {
		got, warnings, err := Load(write(t, text))
		if err != nil || len(warnings) > 0 {
			t.Fatal(err, warnings)
		}
		want := Default()
		want.File, want.Scheduler = got.File, Scheduler{Cls: Remote, URL: "http://x"}
		if diff := cmp.Diff(reveal(want), reveal(got), cmpopts.IgnoreUnexported(Config{}, Celery{}), cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
			t.Error(diff)
		}
	}
}

func TestErrors(t *testing.T) {
	const base = "scheduler: {cls: local, db: dbname=x}\n"
	for _, tc := range []struct{ text, want string }{
		{"", "F: is empty: expected a mapping with a scheduler section"},
		{"# nothing\n", "F: is empty: expected a mapping with a scheduler section"},
		{"- a", "F:1:1: must be a mapping with a scheduler section, not a list"},
		{"just a text", "F:1:1: must be a mapping with a scheduler section, not a text"},
		{"scheduler: [a\ncelery: b", "F:1: is not YAML: did not find expected ',' or ']'"},
		{"a: 1\nb: \"x\n", "F:2: is not YAML: found unexpected end of stream"},
		{"a: 1\nb: *s3cret\n", "F:2: is not YAML: an alias (*name) of an unknown anchor; a text that begins with * must be quoted"},
		{"a: 1\n---\nb: 1", "F:2: is not YAML: a second document; only one is expected"},
		{base + "shares: {\"save_code_now:load-git\": {by: lister}}", "F:2:9: shares has the queue of tasks with priority, which groups don't share"},
		{base + "shares: {\"new:load-git\": {by: kwargs.x}}", "F:2:9: shares has a queue with a prefix that is not shared by lister or lister_instance"},
		{"scheduler: s3cret", "F:1:12: scheduler must be a mapping, not a text"},
		{"scheduler:\n  cls: postgres\n  db: x", "F:2:8: scheduler.cls must be postgresql, local or remote (did you mean postgresql?)"},
		{"scheduler:\n  cls: memory\n", "F:2:8: scheduler.cls must be postgresql, local or remote"},
		{"scheduler:\n  cls: local\n  db: 5\n", "F:3:7: scheduler.db must be a text, not a whole number"},
		{"scheduler: {db: !s3cret x}", "F:1:17: scheduler.db must be a text, not a value with an unknown tag or form (quote a text that begins with !)"},
		{"scheduler: {max_pool_conns: 0}", "F:1:29: scheduler.max_pool_conns must be a whole number of at least 1"},
		{"celery: {task_broker: [amqp://h]}", "F:1:23: celery.task_broker must be a text, not a list"},
		{base + "lost_after: {load-git: 0}", "F:2:24: lost_after.load-git must be a duration above 0, such as \"12 hours\" (a task type whose runs are never given up is left out)"},
		{base + "failures_keep_date: 1", "F:2:21: failures_keep_date must be true or false, not a whole number"},
		{base + "update_metrics_after: 5 s", "F:2:23: update_metrics_after must be a duration of a minute or more"},
		{base + "hints: []", "F:2:8: hints must be a mapping from sources of hints to their secrets, not a list"},
		{base + "hints: {github: {}}", "F:2:17: hints.github needs a secret, which the forge has, too"},
		{base + "hints: {github: {secret: short}}", "F:2:26: hints.github.secret could be guessed: give a secret of 20 characters or more"},
		{base + "hints: {forge: {secret: aaaaaaaaaaaaaaaaaaaa}}", "F:2:16: hints.forge needs forge: bitbucket, forgejo, gitea, github, gitlab, plain"},
		{base + "hints: {gitea: {secret: aaaaaaaaaaaaaaaaaaaa}}", "F:2:16: hints.gitea needs hosts: those of the origins that it may name"},
		{base + "hints: {gitea: {secret: aaaaaaaaaaaaaaaaaaaa, hosts: [bücher.example, Bücher.example]}}", "F:2:71: hints.gitea.hosts[1] must be a host in lower case without a port, such as gitlab.example, *.gitlab.example or *"},
		{base + "hints: {github: {secret: aaaaaaaaaaaaaaaaaaaa, max_per_second: 0}}", "F:2:64: hints.github.max_per_second must be a whole number of at least 1"},
		{base + "hints: {unknown: {max_origins: 5}}", "F:2:18: hints.unknown needs lister, the name of the lister of the origins that hints create"},
		{base + "hints: {a/b: {}}", "F:2:14: hints.(a key) must have the name of a source: up to 63 letters, digits, dots, dashes and underscores"},
		{base + "hosters: {limits: {git.example: {}}}", "F:2:33: hosters.limits.git.example needs max_in_flight, per_minute, min_in_flight or no_backoff"},
		{base + "hosters: {limits: {git.example: {max_in_flight: 1, min_in_flight: 2}}}", "F:2:33: hosters.limits.git.example has a min_in_flight above max_in_flight"},
		{base + "hosters: {backoff: {min: 2 hours, max: 1 hour}}", "F:2:20: hosters.backoff has a max below its min"},
		{base + "hosters: {backoff: {min: 0}}", "F:2:26: hosters.backoff.min must be at least a second"},
		{base + "hosters: {limits: {Git.Example: {per_minute: 1}}}", "F:2:33: hosters.limits.Git.Example must be named as an instance of a lister (name/instance) or a host in lower case, without a port"},
		{base + "hosters: {limits: {git.example: {per_minute: 1}, '': {per_minute: 1}}}", "F:2:54: hosters.limits.(a key) must be named as an instance of a lister (name/instance) or a host in lower case, without a port"},
		{base + "hosters: {default: {max_in_flight: 0}}", "F:2:36: hosters.default.max_in_flight must be a whole number of at least 1"},
		{base + "wanted_workers: {default: {target_wait: 0}}", "F:2:41: wanted_workers.default.target_wait must be a duration above 0, such as \"10 min\""},
		{base + "wanted_workers: {load-git: {max: 0}}", "F:2:34: wanted_workers.load-git.max must be a whole number of at least 1"},
		{base + "wanted_workers: {load-git: 5}", "F:2:28: wanted_workers.load-git must be a mapping, not a whole number"},
		{base + "lost_after: {load-git: soon}", "F:2:24: lost_after.load-git must be a duration above 0, such as \"12 hours\" (a task type whose runs are never given up is left out)"},
		{base + "lost_after: {load-git: null}", "F:2:24: lost_after.load-git must be a duration above 0, such as \"12 hours\" (a task type whose runs are never given up is left out), not null"},
		{base + "gone_origins: {'a b': {}}", "F:2:23: gone_origins.(a key) must be named as a lister (gitweb), or an instance of one (gitlab/gitlab.example)"},
		{base + "gone_origins: {crates: {}}", "F:2:24: gone_origins.crates needs full_task_types: which runs list all origins is known only of the listers GNU, aur, bitbucket, bower, cgit, cpan, cran, dlang, gerrit, gitiles, gitlab, gitweb, heptapod, hgweb, opam, pagure, phabricator, phorge, pubdev, rubygems, stagit, tuleap"},
		{base + "gone_origins: {github: {full_task_types: list-github-full}}", "F:2:42: gone_origins.github.full_task_types has a task type whose run is no full listing: its run only starts tasks for ranges, and ends before they do"},
		{base + "gone_origins: {gitea/x: {full_task_types: [list-gitea-full]}}", "F:2:43: gone_origins.gitea/x.full_task_types has a task type whose run is no full listing: its lister resumes at the last page of the listing before"},
		{base + "gone_origins: {gitweb: {max_share: 5}}", "F:2:36: gone_origins.gitweb.max_share must be a part from 0 to 1, such as 0.05"},
		{base + "gone_origins: {gitweb: {listings: 11}}", "F:2:35: gone_origins.gitweb.listings must be at most 10"},
		{base + "gone_origins: {gitweb: {clock_margin: 2 days}}", "F:2:39: gone_origins.gitweb.clock_margin must be a duration of at most a day"},
		{base + "hosters: {lost_after: 5}", "F:2:23: hosters.lost_after must be at least a minute"},
		{base + "visit_rules: {intervals: []}", "F:2:26: visit_rules.intervals must be a list of intervals, such as [1 day, 2 days, 4 days]"},
		{base + "visit_rules: {intervals: [1 day, 1 hour]}", "F:2:34: visit_rules.intervals[1] must not be shorter than the one before it: an origin without news would be visited sooner"},
		{base + "visit_rules: {intervals: [0]}", "F:2:27: visit_rules.intervals[0] must be an interval from a minute to 100 years"},
		{base + "visit_rules: {fudge: 1}", "F:2:22: visit_rules.fudge must be below 1: an interval would not move an origin forward"},
		{base + "visit_rules: {disable_after: 5, disable_after_mixed: 4}", "F:2:14: visit_rules must not have a disable_after_mixed below disable_after, which would then have no effect"},
		{base + "shares: [load-git]", "F:2:9: shares must be a mapping from task types to how their queues are shared, not a list"},
		{base + "shares: {load-git: {weights: {a: 1}}}", "F:2:20: shares.load-git needs by: lister, lister_instance, task_type or kwargs.<key>"},
		{base + "shares: {load-git: {by: listers}}", "F:2:25: shares.load-git.by must be lister, lister_instance, task_type or kwargs.<key> (did you mean lister?)"},
		{base + "shares: {load-git: {by: kwargs.a.b}}", "F:2:25: shares.load-git.by must name one keyword argument after kwargs. (at most 30 letters, digits and _)"},
		{base + "shares: {load-git: {by: lister, weights: {a: 0}}}", "F:2:46: shares.load-git.weights.a must be above 0: a group without a share would never be served"},
		{base + "shares: {load-git: {by: lister, weights: {a: -1}}}", "F:2:46: shares.load-git.weights.a must be a number of at least 0"},
		{base + "shares: {load-git: {by: lister, default: 0}}", "F:2:42: shares.load-git.default must be above 0: a group without a share would never be served"},
		{base + "shares: {load-git: {by: lister, half_life: 0}}", "F:2:44: shares.load-git.half_life must be at least a second"},
		{base + "shares: {load-git: {by: lister, max_in_flight: {a: 0}}}", "F:2:52: shares.load-git.max_in_flight.a must be a whole number of at least 1"},
		{base + "shares: {load-git: {by: lister, priority: {a: 256}}}", "F:2:47: shares.load-git.priority.a must be a whole number from 0 to 255"},
		{base + "shares: {load-git: {by: lister, priority: {a: high}}}", "F:2:47: shares.load-git.priority.a must be a whole number of at least 0, not a text"},
		{base + "priority_ageing: soon", "F:2:18: priority_ageing must be a duration such as \"12 hours\", 12h30m, a number of seconds, or null for none"},
		{base + "lanes: {load-git: {name: a}}", "F:2:19: lanes.load-git must be a list of lanes: {name, queue, time_limit, slots}, not a mapping"},
		{base + "lanes: {load-git: [{name: a, time_limit: 60}]}", "F:2:19: lanes.load-git must be two or more lanes: work that times out in one goes to the next"},
		{base + "lanes: {t: [{name: a, queue: q, time_limit: 60, retry: true}, {name: b, time_limit: 2 min}]}", "F:2:13: lanes.t[0] can't have retry: work that times out here goes to the next lane, so only the last lane may have it"},
		{base + "lanes: {t: [{name: a, queue: q, time_limit: 60, target_wait: 1 min}, {name: b, time_limit: 2 min}]}", "F:2:12: lanes.t must have target_wait in two lanes or more, or none: slots move between lanes that have one"},
		{base + "lanes: {t: [{name: a, queue: q, time_limit: 60}, {name: b, time_limit: 1 min}]}", "F:2:50: lanes.t[1] needs a longer time_limit than the lane before it (1m0s): work that times out there goes to this lane"},
		{base + "lanes: {t: [{name: a, queue: q, time_limit: 60}, {name: a, time_limit: 2 min}]}", "F:2:50: lanes.t[1] has the name of another lane"},
		{base + "lanes: {t: [{name: a, time_limit: 60}, {name: b, time_limit: 2 min}]}", "F:2:40: lanes.t[1] has the queue of another lane: a message there could belong to either"},
		{base + "lanes: {t: [{name: a, queue: q}, {name: b, time_limit: 2 min}]}", "F:2:13: lanes.t[0] needs a time_limit, such as 1 min"},
		{base + "lanes: {t: [{queue: q, time_limit: 60}, {name: b, time_limit: 2 min}]}", "F:2:13: lanes.t[0] needs a name"},
		{base + "lanes: {t: [{name: a, queue: q, time_limit: 0.5}, {name: b, time_limit: 2 min}]}", "F:2:45: lanes.t[0].time_limit must be at least a second"},
		{base + "lanes: {t: [{name: a, queue: q, time_limit: {soft: 5, hard: 4}}, {name: b, time_limit: 2 min}]}", "F:2:45: lanes.t[0].time_limit needs a soft limit and a hard one that is not before it"},
		{base + "lanes: {t: [{name: a, queue: q, time_limit: 5, slots: 0}, {name: b, time_limit: 2 min}]}", "F:2:55: lanes.t[0].slots must be a whole number of at least 1"},
		{base + "lanes: {t: [{name: a, queue: q, time_limit: 5, slots: 3, max_slots: 2}, {name: b, time_limit: 2 min}]}", "F:2:13: lanes.t[0] must not have fewer max_slots than slots"},
		{base + "lanes: {t: [{name: a, queue: \"{x}\", time_limit: 5}, {name: b, time_limit: 2 min}]}", "F:2:13: lanes.t[0] can have {backend_name} in its queue and nothing else in braces"},
		{base + "rabbitmq: {management_url: \"mq.example:15672\"}", "F:2:28: rabbitmq.management_url must be a URL such as https://mq.example:15671"},
		{base + "update_metrics_after: [1]", "F:2:23: update_metrics_after must be a duration of a minute or more, not a list"},
		{base + "journal: {auto_offset_reset: 5}", "F:2:30: journal.auto_offset_reset must be earliest or latest, not a whole number"},
		{base + "rabbitmq: {stats_age: 5 min}", "F:2:23: rabbitmq.stats_age must be a duration from 1 second to 4 minutes"},
		{base + "rpc_serve: {tls_certificate: c.pem}", "F:2:12: rpc_serve must have both tls_certificate and tls_key, or none"},
		{base + "rpc_serve: {tls_key: k.pem}", "F:2:12: rpc_serve must have both tls_certificate and tls_key, or none"},
		{base + "rpc_serve: {username: u}", "F:2:12: rpc_serve must have both username and password, or none"},
		{base + "dashboard: {require_login: yes}", "F:2:12: dashboard has require_login and no way to log in: name users, or a proxy"},
		{base + "dashboard: {proxy: {user_header: X}}", "F:2:20: dashboard.proxy must have addresses"},
		{base + "dashboard: {proxy: {addresses: 10.0.0.1, role_header: Y, roles: {a: [view]}}}", "F:2:20: dashboard.proxy must have user_header beside role_header"},
		{base + "dashboard: {require_login: true, proxy: {addresses: 10.0.0.1}}", "F:2:12: dashboard has require_login and no way to log in: name users, or a proxy"},
		{base + "dashboard: {proxy: {user_header: X, addresses: [a.example, 10.0.0.1]}}", "F:2:48: dashboard.proxy.addresses must be a list of addresses or networks, such as [127.0.0.1, 10.0.0.0/8]"},
		{base + "dashboard: {proxy: {user_header: X, addresses: 10.0.0.1, roles: {a: [view]}}}", "F:2:20: dashboard.proxy must have both role_header and roles, or none"},
		{base + "dashboard: {proxy: {user_header: X, role_header: Y, addresses: 10.0.0.1, operators: s3cret}}", "F:2:85: dashboard.proxy.operators lets nobody act: map the proxy's roles to roles here in dashboard.proxy.roles, such as {scheduler-admins: [tasks, terminate, graphs]}"},
		{base + "dashboard: {token: s3cret}", "F:2:20: dashboard.token lets nobody log in: name users in dashboard.users, such as [{name: ann, password_hash: …, roles: [tasks]}] (swh-scheduler config hash-password makes a password_hash)"},
		{base + "dashboard: {username: u}", "F:2:23: dashboard.username lets nobody log in: name users in dashboard.users, such as [{name: ann, password_hash: …, roles: [tasks]}] (swh-scheduler config hash-password makes a password_hash)"},
		{base + "dashboard: {password: s3cret}", "F:2:23: dashboard.password lets nobody log in: name users in dashboard.users, such as [{name: ann, password_hash: …, roles: [tasks]}] (swh-scheduler config hash-password makes a password_hash)"},
		{base + "dashboard: {users: ann}", "F:2:20: dashboard.users must be a list of users, such as [{name: ann, password_hash: …, roles: [tasks, graphs]}], not a text"},
		{base + "dashboard: {users: [{name: ann, roles: [view]}]}", "F:2:21: dashboard.users[0] has no password_hash (swh-scheduler config hash-password makes one) and no token_sha256"},
		{base + "dashboard: {users: [{name: ann, password_hash: s3cret, roles: [view]}]}", "F:2:21: dashboard.users[0].password_hash must be a hash of bcrypt ($2b$…) or argon2id ($argon2id$v=19$m=…,t=…,p=…$…$…); swh-scheduler config hash-password makes one"},
		{base + "dashboard: {users: [{name: ann, password_hash: \"" + strings.Replace(hash, "$12$", "$04$", 1) + "\", roles: [view]}]}", "F:2:21: dashboard.users[0].password_hash has a cost of 4: expected 10 to 14; swh-scheduler config hash-password makes one"},
		{base + "dashboard: {users: [{name: ann, password_hash: \"" + strings.Replace(hash, "$12$", "$31$", 1) + "\", roles: [view]}]}", "F:2:21: dashboard.users[0].password_hash has a cost of 31: expected 10 to 14; swh-scheduler config hash-password makes one"},
		{base + "dashboard: {users: [{name: ann, token_sha256: s3cret, roles: [view]}]}", "F:2:21: dashboard.users[0].token_sha256 must be the SHA-256 of a token, in 64 hexadecimal digits; printf %s TOKEN | sha256sum prints it"},
		{base + "dashboard: {users: [{password_hash: \"" + hash + "\", roles: [view]}]}", "F:2:21: dashboard.users[0] has no name"},
		{base + "dashboard: {users: [{name: \"a\\tb\", password_hash: \"" + hash + "\", roles: [view]}]}", "F:2:21: dashboard.users[0] has a name that is longer than 64 bytes, or is not plain text"},
		{base + "dashboard: {users: [{name: ann, password_hash: \"" + hash + "\"}]}", "F:2:21: dashboard.users[0] has no roles: view, tasks, graphs or terminate"},
		{base + "dashboard: {users: [{name: ann, password_hash: \"" + hash + "\", roles: [admin]}]}", "F:2:120: dashboard.users[0].roles[0] must be view, tasks, graphs or terminate"},
		{base + "dashboard: {users: [{name: ann, password_hash: \"" + hash + "\", roles: [view, terminate]}]}", "F:2:119: dashboard.users[0].roles has terminate, which allows nothing without tasks or graphs"},
		{base + "dashboard: {users: [{name: ann, password_hash: \"" + hash + "\", roles: [view]}, {name: ann, password_hash: \"" + hash + "\", roles: [view]}]}", "F:2:128: dashboard.users[1] has the name of another user"},
		{base + "rpc_serve: {door: {max_connections: 0}}", "F:2:37: rpc_serve.door.max_connections must be a whole number of at least 1"},
		{base + "rpc_serve: {max_body_size: 0}", "F:2:28: rpc_serve.max_body_size must be a whole number of at least 1"},
		{base + "archive: {after: {load-git: 1 hour}}", "F:2:29: archive.after.load-git must be a duration of a day or more"},
		{base + "lost_after: 2 days", "F:2:13: lost_after must be a mapping from task types to durations, not a text"},
		{base + "journal:\n  batch_size: -1", "F:3:15: journal.batch_size must be a whole number of at least 1"},
		{base + "journal:\n  batch_size: many", "F:3:15: journal.batch_size must be a whole number of at least 1, not a text"},
		{base + "journal:\n  batch_size: 1e3", "F:3:15: journal.batch_size must be a whole number of at least 1, not a text"},
		{base + "journal:\n  batch_size: 2147483648", "F:3:15: journal.batch_size must be a whole number of at most 2147483647"},
		{base + "journal:\n  batch_size: 99999999999999999999", "F:3:15: journal.batch_size must be a whole number of at most 2147483647"},
		{base + "journal:\n  brokers: 9092", "F:3:12: journal.brokers must be a text or a list of texts, not a whole number"},
		{base + "journal:\n  brokers: [a, {b: c}]", "F:3:16: journal.brokers[1] must be a text, not a mapping"},
		{base + "journal:\n  on_eof: restrat", "F:3:11: journal.on_eof must be continue, stop or restart (did you mean restart?)"},
		{base + "journal:\n  on_eof: stop\n  stop_on_eof: true", "F:3:3: journal has both on_eof and stop_on_eof; keep on_eof"},
		{base + "journal:\n  auto_offset_reset: smallest", "F:3:22: journal.auto_offset_reset must be earliest or latest"},
		{base + "journal:\n  privileged: 1", "F:3:15: journal.privileged must be true or false, not a whole number"},
		{base + "journal:\n  consumer_settings: [a]", "F:3:22: journal.consumer_settings must be a mapping of Kafka settings, not a list"},
		{base + "journal:\n  consumer_settings: {sasl.password: [s3cret]}", "F:3:38: journal.consumer_settings.sasl.password must be a text, a number, true or false, not a list"},
		{base + "no_origins_scheduled_backoff: -5", "F:2:31: no_origins_scheduled_backoff must be a number of at least 0"},
		{base + "no_origins_scheduled_backoff: .inf", "F:2:31: no_origins_scheduled_backoff must be a number of at least 0"},
		{base + "no_origins_scheduled_backoff: 1.0e+40", "F:2:31: no_origins_scheduled_backoff must be a number of seconds below 100 years"},
		{base + "no_origins_scheduled_backoff: 5 minutes", "F:2:31: no_origins_scheduled_backoff must be a number of at least 0, not a text"},
		{base + "scheduling_policy: []", "F:2:20: scheduling_policy must be a mapping from visit types to lists of policies, not a list"},
		{base + "scheduling_policy: {git: {policy: x}}", "F:2:26: scheduling_policy.git must be a list of policies, not a mapping"},
		{base + "scheduling_policy: {git: []}", "F:2:26: scheduling_policy.git needs at least one policy with a weight above 0"},
		{base + "scheduling_policy: {git: [{policy: stop_after_success, weight: 0}]}", "F:2:26: scheduling_policy.git needs at least one policy with a weight above 0"},
		{base + "scheduling_policy: {git: [{weight: 1}]}", "F:2:27: scheduling_policy.git[0] needs a policy"},
		{base + "scheduling_policy: {git: [{policy: stop_after_success, weight: 1}, {policy: stop_after_success, weight: 2}]}", "F:2:68: scheduling_policy.git[1] names a policy that the visit type already has"},
		{base + "scheduling_policy: {git: [{policy: pools}, {policy: stop_after_success, weight: 1}]}", "F:2:26: scheduling_policy.git has other policies beside pools, which divides all slots by itself"},
		{base + "scheduling_policy: {git: [{policy: stop_after_sucess, weight: 1}]}", "F:2:36: scheduling_policy.git[0].policy must be oldest_scheduled_first, stop_after_success, never_visited_oldest_update_first, already_visited_order_by_lag, origins_without_last_update, first_visits_after_listing, pools or freshness (did you mean stop_after_success?)"},
		{base + "scheduling_policy: {git: [{policy: stop_after_success, weight: 1, failed_cooldown: soon}]}", `F:2:84: scheduling_policy.git[0].failed_cooldown must be a duration such as "12 hours", 12h30m, a number of seconds, or null for none`},
		{base + "scheduling_policy: {git: [{policy: stop_after_success, weight: 1, tablesample: 101}]}", "F:2:80: scheduling_policy.git[0].tablesample must be a percentage between 0 and 100"},
		{base + "scheduling_policy: {git: [{policy: stop_after_success, weight: 1, lister_uuid: x}]}", "F:2:80: scheduling_policy.git[0].lister_uuid must be a UUID"},
		{base + "scheduling_policy: {git: [{policy: stop_after_success, weight: 1, dry_run: true}]}", "F:2:76: scheduling_policy.git[0].dry_run is of no use to a daemon; remove it"},
		{base + "scheduling_policy: {git: [{policy: stop_after_success, weight: 1, forks: 1}]}", "F:2:74: scheduling_policy.git[0].forks must be a part of the policy's visits, above 0 and below 1"},
		{base + "scheduling_policy: {git: [{policy: freshness, weight: 1, longest_wait: 1 hour}]}", "F:2:72: scheduling_policy.git[0].longest_wait must be from a day to 100 years"},
		{base + "scheduling_policy: {git: [{policy: pools, longest_wait: 2 days}]}", "F:2:27: scheduling_policy.git[0] has a longest_wait, which only the policy freshness has"},
		{base + "scheduling_policy: {git: [{policy: stop_after_success, weight: 1, forks: 0}]}", "F:2:74: scheduling_policy.git[0].forks must be a part of the policy's visits, above 0 and below 1"},
		{base + "scheduling_policy: {git: [{policy: first_visits_after_listing, weight: 1}]}", "F:2:27: scheduling_policy.git[0] needs lister_uuid, or lister_name and lister_instance_name, with the policy first_visits_after_listing"},
	} {
		_, _, err := parse("F", []byte(tc.text))
		if err == nil || err.Error() != tc.want {
			t.Errorf("%q:\n got %v\nwant %s", tc.text, err, tc.want)
		}
	}
}

// One load reports all errors of a file.
func TestAllErrorsAtOnce(t *testing.T) {
	_, _, err := parse("F", []byte("scheduler: {cls: 1}\ncelery: 2\njournal: {batch_size: x}"))
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("want three lines, got %v", err)
	}
}

func TestFileErrors(t *testing.T) {
	dir := t.TempDir()
	big := write(t, strings.Repeat("#", maxFileSize+1))
	for _, tc := range []struct{ path, want string }{
		{filepath.Join(dir, "none.yml"), "does not exist"},
		{dir, "is a directory"},
		{big, "is larger than 1 MB: expected a YAML file"},
		{filepath.Join(big, "below"), "cannot be read: not a directory"},
	} {
		_, _, err := Load(tc.path)
		e, ok := errors.AsType[*Error](err)
		if want := tc.path + ": " + tc.want; !ok || !e.Unread || e.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A file may be named without its extension, as for the Python scheduler.
func TestLoadFindsTheExtension(t *testing.T) {
	path := write(t, "scheduler: {cls: local, db: dbname=x}")
	c, _, err := Load(strings.TrimSuffix(path, ".yml"))
	if err != nil || c.File != path {
		t.Errorf("got %v, %v", c, err)
	}
}

func TestWarnings(t *testing.T) {
	for _, tc := range []struct {
		text string
		want []string
	}{
		{"zzzzzzzz: 1", []string{"F:1:1: zzzzzzzz is not a known key; it is ignored"}},
		{"scheduler_policy: {}", []string{"F:1:1: scheduler_policy is not a known key; it is ignored (did you mean scheduling_policy?)"}},
		{"celery:\n  worker_prefetch_multipler: 1", []string{"F:2:3: celery.worker_prefetch_multipler is not a known key; it is ignored (did you mean worker_prefetch_multiplier?)"}},
		{"journal:\n  security.protocol: x", []string{"F:2:3: journal.security.protocol is a Kafka setting; move it to journal.consumer_settings"}},
		{"journal:\n  stop_on_eof: on", []string{"F:2:16: journal.stop_on_eof is deprecated; write on_eof: stop"}},
		{"rabbitmq: {url: x}", []string{"F:1:12: rabbitmq.url is not a known key; it is ignored"}},
		{"celery: {}\ncelery: {}", []string{"F:2:1: celery is given twice; the last one is used"}},
		{"celery:\n  amqp://guest:s3cret@h//: x", []string{"F:2:3: celery.(a key) is not a known key; it is ignored"}},
		{"storage: 1\nobjstorage: {}\nsentry: x\nstatsd: y\ndeposit: z", nil},
		{"scheduler: {timeout: 5, min_pool_conns: 1}", nil},
	} {
		_, warnings, err := parse("F", []byte(tc.text))
		if err != nil {
			t.Errorf("%q: %v", tc.text, err)
		}
		var got []string
		for _, w := range warnings {
			got = append(got, w.String())
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q:\n got %q\nwant %q", tc.text, got, tc.want)
		}
	}
}

// A misspelt key is an error, in the Python scheduler's sections and in ours: otherwise its value would be ignored, and
// the default used. Keys of other programs are allowed.
func TestMisspeltKeys(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"celry: {task_broker: 'amqp://h//'}", "F:1:1: celry is not a known key (did you mean celery?)"},
		{"Celery: {task_broker: 'amqp://h//'}", "F:1:1: Celery is not a known key (did you mean celery?)"},
		{"scheduller: {}", "F:1:1: scheduller is not a known key (did you mean scheduler?)"},
		{"jornal: {}", "F:1:1: jornal is not a known key (did you mean journal?)"},
		{"lost_afetr: {}", "F:1:1: lost_afetr is not a known key (did you mean lost_after?)"},
		{"share: {}", "F:1:1: share is not a known key (did you mean shares?)"},
		{"celery: {task_borker: 'amqp://u:s3cret@h//'}", "F:1:10: celery.task_borker is not a known key (did you mean task_broker?)"},
		{"celery:\n  task_brokre: x", "F:2:3: celery.task_brokre is not a known key (did you mean task_broker?)"},
		{"celery: {task_route: {}}", "F:1:10: celery.task_route is not a known key (did you mean task_routes?)"},
		{"scheduler: {cls: remote, uri: x}", "F:1:26: scheduler.uri is not a known key (did you mean url?)"},
		{"rabbitmq: {managment_url: x}", "F:1:12: rabbitmq.managment_url is not a known key (did you mean management_url?)"},
		{"journal:\n  groupid: x", "F:2:3: journal.groupid is not a known key (did you mean group_id?)"},
		{"scheduling_policy: {git: [{policy: stop_after_success, weight: 1, table_sample: 1}]}", "F:1:67: scheduling_policy.git[0].table_sample is not a known key (did you mean tablesample?)"},
		{"celry: 1\njornal: 2", "F:1:1: celry is not a known key (did you mean celery?)\nF:2:1: jornal is not a known key (did you mean journal?)"},
	} {
		_, warnings, err := parse("F", []byte(tc.text))
		if err == nil || err.Error() != tc.want || len(warnings) > 0 {
			t.Errorf("%q: %v, %v, want %s", tc.text, err, warnings, tc.want)
		}
	}
	for _, section := range []string{"top", "scheduler", "celery", "sentry"} {
		for _, name := range othersKeys(section) {
			text := section + ": {" + name + ": null}"
			if section == "top" {
				text = name + ": {}"
			}
			if _, warnings, err := parse("F", []byte(text)); err != nil || len(warnings) > 0 {
				t.Errorf("%s is another program's: %v, %v", text, err, warnings)
			}
		}
	}
}

// An error has the file, the line and the key, whichever function refuses the value. It also names a template's variable
// that has not been replaced.
func TestErrorsHaveFileLineAndKey(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"celery: {task_broker: 'amqp://h//', broker_heartbeat: soon}", "F:1:55: celery.broker_heartbeat must be a number that isn't negative"},
		{"celery:\n  task_broker: amqp://h//\n  broker_transport_options: {connect_timeout: -1}", "F:3:47: celery.broker_transport_options.connect_timeout must be a number that isn't negative"},
		{"celery: {task_broker: 'amqp://h//', broker_login_method: GSSAPI}", "F:1:58: celery.broker_login_method must be PLAIN or EXTERNAL"},
		{"celery:\n  task_broker: redis://u:s3cret@h//", "F:2: celery.task_broker can't be used: broker URL 1 of 1: the scheme must be amqp or amqps"},
		{"celery:\n  task_broker: amqp://u:s3cret@h/?heartbeat=soon", "F:2: celery.task_broker can't be used: broker URL 1 of 1: heartbeat must be a number"},
		{"celery:\n  task_broker: amqp://swh:${RABBITMQ_PASSWORD}@h//", "F:2:16: celery.task_broker has ${RABBITMQ_PASSWORD}, which nothing has replaced by the value of that variable"},
		{"celery: {task_broker: '${BROKER}'}", "F:1:23: celery.task_broker is ${BROKER}, which nothing has replaced"},
		{"celery: {task_broker: 'amqp://h//', broker_heartbeat: '${BEAT}'}", "F:1:55: celery.broker_heartbeat is ${BEAT}, which nothing"},
		{"scheduler:\n  db: host=h user=swh password=${DB_PASSWORD}", "F:2:7: scheduler.db has ${DB_PASSWORD}, which nothing has replaced"},
		{"scheduler: {max_pool_conns: '${CONNS}'}", "F:1:29: scheduler.max_pool_conns must be a whole number of at least 1, and is ${CONNS}, which nothing has replaced"},
		{"rpc_serve: {token: '${TOKEN}'}", "F:1:20: rpc_serve.token is ${TOKEN}, which nothing has replaced"},
		{"journal: {brokers: ['${KAFKA}']}", "F:1:21: journal.brokers[0] is ${KAFKA}, which nothing has replaced"},
		{"journal: {consumer_settings: {sasl.password: '${KAFKA_PASSWORD}'}}", "F:1:46: journal.consumer_settings.sasl.password is ${KAFKA_PASSWORD}, which nothing has replaced"},
	} {
		c, _, err := parse("F", []byte(tc.text))
		if err == nil {
			_, err = c.Broker()
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, want %s", tc.text, err, tc.want)
		}
		for line := range strings.SplitSeq(fmt.Sprint(err), "\n") {
			if !strings.HasPrefix(line, "F:") {
				t.Errorf("%q: %s: no file and line", tc.text, line)
			}
		}
	}
	for _, text := range []string{ // not variables of a template
		"rpc_serve: {token: 'a${b}c'}", "celery: {task_broker: 'amqp://u:%24%7Bx%7D@h//'}", "scheduler: {db: 'password=$x'}", "storage: {db: '${STORAGE}'}",
	} {
		if _, _, err := parse("F", []byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Errors quote names that are keys, unless they may contain a password.
func TestNamesOfKeys(t *testing.T) {
	for text, want := range map[string]string{
		"hosters: {limits: {gitlab/gitlab.example: {per_minute: x}}}": "hosters.limits.gitlab/gitlab.example.per_minute",
		"scheduling_policy: {'a b': [{policy: nonesuch}]}":            "scheduling_policy.(a key)[0].policy",
	} {
		if _, _, err := parse("F", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Commands that send or listen need a broker in the file. The Python scheduler's default broker may belong to another
// scheduler on the same host.
func TestNoBroker(t *testing.T) {
	for text, want := range map[string]string{
		"scheduler: {}":                     "F: celery.task_broker is missing: expected ",
		"celery: {}":                        "F:1: celery.task_broker is missing: expected ",
		"a: 1\ncelery: {task_broker: null}": "F:2: celery.task_broker is missing: expected ",
		"a: 1\ncelery: {task_broker: ''}":   "F:2: celery.task_broker is missing: expected ",
	} {
		c, _, err := parse("F", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := c.Broker(); err == nil || !strings.HasPrefix(err.Error(), want) || b.String() != "" {
			t.Errorf("%q: %v, %v, want %s", text, b, err, want)
		}
	}
	if c, _, err := parse("F", []byte("{}"), "celery.task_broker=amqp://h//"); err != nil {
		t.Error(err)
	} else if b, err := c.Broker(); err != nil || b.String() != "amqp://guest:***@h:5672/%2F" {
		t.Error(b, err)
	}
}

// Consumer settings directly in the section are read, as in the Python scheduler. Settings in consumer_settings override
// them.
func TestConsumerSettingsInTheSection(t *testing.T) {
	c, _, err := parse("F", []byte("journal:\n  a.b: 1\n  c.d: 2\n  consumer_settings: {a.b: 3}"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a.b": "3", "c.d": "2"}, map[string]string(c.Journal.ConsumerSettings)); diff != "" {
		t.Error(diff)
	}
}

func TestGroupInstanceIDFromTheEnvironment(t *testing.T) {
	t.Setenv("KAFKA_GROUP_INSTANCE_ID", "journal-1")
	c, _, err := Load(write(t, "journal: {consumer_settings: {group.instance.id: other}}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Journal.ConsumerSettings["group.instance.id"]; got != "journal-1" {
		t.Errorf("got %q", got)
	}
}

func TestMissing(t *testing.T) {
	c, _, err := parse("F", []byte("scheduler: {cls: local}\n\njournal:\n  group_id: x"))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"journal.brokers":    "F:3: journal.brokers is missing: expected x",
		"scheduler.db":       "F:1: scheduler.db is missing: expected x",
		"celery.task_broker": "F: celery.task_broker is missing: expected x",
	} {
		if got := c.Missing(key, "x").Error(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"start-runner", "start-listener", "task", "task-type", "migrate"}
	for name, want := range map[string]string{
		"start-runer": "start-runner", "tsak": "task", "tasktype": "task-type", "MIGRATE": "migrate", "x": "", "": "", "frobnicate": "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// The loader has each setting of the installed Celery.
func TestEachCelerySettingIsListed(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(testenv.Python(t), "-c",
		"from celery.app.defaults import NAMESPACES, flatten\nfor key, _ in flatten(NAMESPACES): print(key)").Output()
	if err != nil {
		t.Fatal(err)
	}
	settings := strings.Fields(string(out))
	if len(settings) < 100 {
		t.Fatalf("Celery has only %d settings?", len(settings))
	}
	_, warnings, err := parse("F", []byte("celery:\n  "+strings.Join(settings, ": null\n  ")+": null\n"))
	if err != nil || len(warnings) > 0 {
		t.Error(err, warnings)
	}
}

// The default policy is that of the installed Python scheduler.
func TestDefaultPolicyIsThePythonSchedulers(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(testenv.Python(t), "-c",
		"import json\nfrom swh.scheduler.celery_backend.recurrent_visits import DEFAULT_POLICY_CONFIG\nprint(json.dumps({'scheduling_policy': DEFAULT_POLICY_CONFIG}))").Output()
	if err != nil {
		t.Fatal(err)
	}
	c, warnings, err := parse("F", out)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if diff := cmp.Diff(c.SchedulingPolicy, DefaultSchedulingPolicy()); diff != "" {
		t.Error(diff)
	}
}

// No error, warning, printed Config, log or encoding contains a secret, wherever in the file the secret is.
func TestSecretsStaySecret(t *testing.T) {
	const secret = "s3cret"
	var out bytes.Buffer
	c, warnings, err := Load(write(t, full))
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		fmt.Fprintf(&out, verb+verb+verb+verb, c, *c, c.Scheduler, c.Journal.ConsumerSettings)
	}
	if err := json.NewEncoder(&out).Encode(c); err != nil {
		t.Fatal(err)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("x", "config", c, "value", *c, "celery", c.Celery, "secret", c.Scheduler.DB, "settings", c.Journal.ConsumerSettings)
	}
	if !strings.Contains(out.String(), redacted) {
		t.Error("nothing was redacted?")
	}
	// The secret takes each place of the file in turn: as a value, as a key, or within invalid syntax. Each has two
	// forms.
	forms := []string{" s3cret:x@y ", " *s3cret ", " !s3cret ", " &s3cret ", " 's3cret\n", " [s3cret] ", "\ns3cret/@: ", " {s3cret/@: 1} "}
	for n, i := 0, 0; i < len(full); n, i = n+1, i+13 {
		for _, planted := range []string{forms[n%8], forms[(n+4)%8]} {
			text := strings.ReplaceAll(full[:i], secret, "x") + planted + strings.ReplaceAll(full[i:], secret, "x")
			c, warnings, err := parse("F", []byte(text))
			if c != nil {
				c.Journal.GroupID, c.Journal.Prefix, c.Journal.Brokers, c.SchedulingPolicy, c.LostAfter, c.WantedWorkers, c.Shares, c.Lanes = "", "", nil, nil, nil, nil, nil, nil // addresses and names, not secrets
				c.Metrics.Addr, c.Archive, c.Hosters, c.Sentry = "", Archive{}, model.Hosters{}, Sentry{DSN: c.Sentry.DSN}
				c.RPCServe.TLSCertificate, c.RPCServe.TLSKey, c.RPCServe.Username = "", "", ""
				c.RPCServe.ClientCA = ""
				for i := range c.RPCServe.Clients {
					c.RPCServe.Clients[i].Certificate = nil // names
				}
				var users []DashboardUser
				for _, u := range c.Dashboard.Users {
					users = append(users, DashboardUser{PasswordHash: u.PasswordHash, TokenSHA256: u.TokenSHA256})
				}
				c.Dashboard = Dashboard{Users: users}
				c.Journal.ConsumerSettings = Settings{"sasl.password": c.Journal.ConsumerSettings["sasl.password"]}
			}
			fmt.Fprintln(&out, c, warnings, err)
		}
	}
	if at := strings.Index(out.String(), secret); at >= 0 {
		t.Errorf("the secret shows: …%s…", out.String()[max(0, at-200):at+50])
	}
}

// Kafka settings that may contain a secret are not printed; the others are.
func TestSecretSettings(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]bool{
		"sasl.password": true, "ssl.key.password": true, "ssl.keystore.password": true, "ssl.key.pem": true, "ssl.key": true, "sasl.jaas.config": true,
		"sasl.oauthbearer.config": true, "sasl.oauthbearer.client.secret": true, "azure.credential": true, "x.token": true, "SASL.PASSWORD": true, "api.key": true,
		"sasl.username": false, "security.protocol": false, "group.id": false, "ssl.ca.location": false, "client.id": false,
	} {
		if printed := fmt.Sprint(Settings{name: "s3cret"}); strings.Contains(printed, "s3cret") == secret {
			t.Errorf("%s prints as %s", name, printed)
		}
	}
}

// If the file has no hard limit, it is a tenth above the soft limit, and at least one second, which workers need.
func TestHardLimits(t *testing.T) {
	t.Parallel()
	c, _, err := parse("F", []byte("lanes: {t: [{name: a, queue: q, time_limit: 5}, {name: b, time_limit: 10 min}]}"))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := c.Lanes["t"][0].TimeLimit, c.Lanes["t"][1].TimeLimit; a != 6*time.Second || b != 11*time.Minute {
		t.Errorf("the hard limits are %s and %s", a, b)
	}
}

// No text makes the loader panic, and each error has its file.
func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte("scheduler: {cls: 1, db: [], url: {}}\njournal: {stop_on_eof: 1, brokers: {}}\nscheduling_policy: {a: [1, {policy: 1}], ? [x] : 1}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, _, err := parse("F", text)
		if (c == nil) == (err == nil) {
			t.Errorf("got %v and %v", c, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "F:") {
			t.Errorf("%q does not name the file", err)
		}
	})
}
