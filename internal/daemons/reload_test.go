package daemons_test

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/daemons"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// A daemon takes up a changed file by itself, also one that Kubernetes puts in its place by a
// link. What needs a restart it says by name, without the value. A file that can't be used is
// refused, and the configuration before stays in force.
func TestChangedConfigurationIsTakenUp(t *testing.T) {
	t.Parallel()
	o := options(t, "schedule-recurrent")
	var log testenv.Buffer
	o.Log = slog.New(slog.NewTextHandler(io.MultiWriter(&log, t.Output()), nil))
	store, err := o.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	exec := func(statement string) {
		t.Helper()
		testenv.Exec(t, store.Pool(), statement)
	}
	exec(`insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.test.git', 100);
		insert into listers (name, instance_name, current_state, updated) values ('gitea', '', '{}', now());
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen) select id, 'https://one/', 'git', '{}', true, now() from listers`)

	// As in a volume of Kubernetes: the file's name leads to a directory that is replaced.
	dir := t.TempDir()
	path, version := filepath.Join(dir, "scheduler.yml"), 0
	write := func(format string, args ...any) {
		t.Helper()
		version++
		name := fmt.Sprintf("..%d", version)
		text := fmt.Sprintf("scheduler: {cls: postgresql, db: unused}\nrabbitmq: {management_url: %q}\n", string(o.Config.RabbitMQ.ManagementURL)) + fmt.Sprintf(format, args...)
		for _, err := range []error{
			os.Mkdir(filepath.Join(dir, name), 0o700), os.WriteFile(filepath.Join(dir, name, "scheduler.yml"), []byte(text), 0o600),
			os.Symlink(name, filepath.Join(dir, "..next")), os.Rename(filepath.Join(dir, "..next"), filepath.Join(dir, "..data")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	broker := string(o.Config.Celery.TaskBroker)
	policies := func(name, broker string) string {
		return fmt.Sprintf("celery: {task_broker: %q}\nno_origins_scheduled_backoff: 3600\nscheduling_policy: {git: [{policy: %s, weight: 1}]}\n", broker, name)
	}
	const ofNone, ofAll = "never_visited_oldest_update_first", "oldest_scheduled_first" // the origin has no update
	write("%s", policies(ofNone, broker))
	if err := os.Symlink("..data/scheduler.yml", path); err != nil {
		t.Fatal(err)
	}
	o.Reload = func() (*config.Config, []config.Warning, error) { return config.Load(path) }
	o.ReloadPeriod = 20 * time.Millisecond
	if o.Config, _, err = o.Reload(); err != nil {
		t.Fatal(err)
	}

	r := daemons.Recurrent{Options: o}
	testenv.Run(t, r.Run)
	heard := 0 // so much of the log
	says := func(texts ...string) {
		t.Helper()
		var text string
		testenv.Becomes(t, "what it says holds", strings.Join(texts, "; "), func() string {
			text = log.String()[heard:]
			if slices.ContainsFunc(texts, func(said string) bool { return !strings.Contains(text, said) }) {
				return text
			}
			return strings.Join(texts, "; ")
		})
		if strings.Contains(text, "s3cret") {
			t.Errorf("it shows a password:\n%s", text)
		}
		heard += len(text)
	}
	behind := func(want float64) {
		t.Helper()
		if got := gauge(t, o.Metrics, "swh_scheduler_config_behind", "daemon"); got["schedule-recurrent"] != want {
			t.Errorf("behind: %v, want %v", got, want)
		}
	}
	says("configuration in force", "msg=started")

	write("%s", policies(ofAll, "amqp://u:s3cret@elsewhere//"))
	says("changed=[scheduling_policy.git]", `msg="changed keys need a restart" keys=[celery.task_broker]`, `msg="visits claimed"`)
	behind(1)

	write("lanes: {load-git: [1]}\n%s", policies(ofNone, broker))
	says("is refused; the one before stays in force", "scheduler.yml:3:", "lanes.load-git[0]")
	exec(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen) select id, 'https://two/', 'git', '{}', true, now() from listers`)
	says(`msg="visits claimed"`)
	behind(1)

	write("%s", policies(ofAll, "redis://u:s3cret@elsewhere"))
	says("is refused; the one before stays in force", "celery.task_broker")

	write("shares: {load-git: {by: kwargs.tenant}}\n%s", policies(ofAll, broker))
	says("is refused; the one before stays in force", "the database lacks indexes")

	write("lanes:\n  load-git:\n  - {name: express, queue: e, time_limit: 1 min}\n  - {name: slow, time_limit: 2 min}\n%s", policies(ofAll, broker))
	says("changed=[lanes.load-git]")
	behind(0)
	exec(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen) select id, 'https://three/', 'git', '{}', true, now() from listers`)
	says(`msg="visits claimed"`)
	if queue := testenv.Value[string](t, store.Pool(), "select queue from scheduler_go.work where kwargs ->> 'url' = 'https://three/'"); queue != "e" {
		t.Errorf("the visit goes to %q; want the express lane", queue)
	}
	if times := gauge(t, o.Metrics, "swh_scheduler_config_timestamp_seconds", "event"); times["modified"] == 0 || times["taken_up"] < times["modified"] {
		t.Errorf("times: %v", times)
	}

	// A policy for which candidates have to be built anew.
	write("%s", policies("freshness", broker))
	says("is refused; the one before stays in force", "swh-scheduler migrate", "with this configuration")
	fresh := map[string][]model.WeightedPolicy{"git": {{Weight: 1, Filter: model.VisitFilter{Policy: model.Freshness}}}}
	testenv.Migrate(t, store.Pool().Config().ConnString(), db.MigrateOptions{Policies: fresh})
	write("queue_full_backoff: 61\n%s", policies("freshness", broker))
	says("scheduling_policy.git", "queue_full_backoff")
	exec(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen) select id, 'https://four/', 'git', '{}', true, now() from listers`)
	says(`msg="visits claimed"`)
	if stepped := testenv.Value[bool](t, store.Pool(), "select stepped is not null from scheduler_go.freshness_control where visit_type = 'git'"); !stepped {
		t.Errorf("a claim by freshness adjusted the threshold: %v", stepped)
	}
}

// A changed file that is refused is looked at again, as what refuses it may be mended without
// another change, and is logged once, as are its warnings.
func TestRefusalIsLoggedOnce(t *testing.T) {
	t.Parallel()
	o := options(t, "start-listener")
	var log testenv.Buffer
	o.Log = slog.New(slog.NewTextHandler(io.MultiWriter(&log, t.Output()), nil))
	path := testenv.File(t, "scheduler.yml", fmt.Sprintf("celery: {task_broker: %q, broker_transport_options: {max_retries: 1}}\n", string(o.Config.Celery.TaskBroker)))
	var looks atomic.Int64
	o.Reload = func() (*config.Config, []config.Warning, error) {
		looks.Add(1)
		return config.Load(path)
	}
	o.ReloadPeriod = time.Millisecond
	var err error
	if o.Config, _, err = config.Load(path); err != nil {
		t.Fatal(err)
	}
	l := daemons.Listener{Options: o}
	testenv.Run(t, l.Run)
	testenv.Shows(t, "msg=started", log.String)
	if err := os.WriteFile(path, []byte("celery: {task_broker: 'redis://h', broker_transport_options: {max_retries: 1}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	testenv.Shows(t, "is refused; the one before stays in force", log.String)
	seen := looks.Load()
	testenv.Becomes(t, "looked again", true, func() bool { return looks.Load() > seen+20 })
	for _, text := range []string{"is refused", "max_retries"} {
		if n := strings.Count(log.String(), text); n != 1 {
			t.Errorf("%q is logged %d times, want once", text, n)
		}
	}
}

// docs/configuration.md says of each key whether daemons take it up while they run, and which.
func TestKeysTakenUpAreDocumented(t *testing.T) {
	t.Parallel()
	page := testenv.Read(t, filepath.Join("..", "..", "docs", "configuration.md"))
	_, table, _ := strings.Cut(string(page), "| key | read by | a change |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	documented, want := map[string]string{}, map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*`) \\| (.*) \\| (.*) \\|$").FindAllStringSubmatch(table, -1) {
		for _, key := range regexp.MustCompile("[a-z_]+").FindAllString(row[1], -1) {
			documented[key] = row[2] + ": " + row[3]
		}
	}
	for _, section := range config.Sections() {
		key, by, change := daemons.Keys[section], "all", "needs a restart"
		switch {
		case len(key.Daemons) >= 3:
			by = strings.Join(append([]string{"those that send"}, key.Daemons[3:]...), "`, `")
			if len(key.Daemons) > 3 {
				by = strings.Replace(by, "send`", "send", 1) + "`"
			}
		case len(key.Daemons) > 0:
			by = "`" + strings.Join(key.Daemons, "`, `") + "`"
		}
		if key.Live {
			change = "is taken up"
		}
		want[section] = by + ": " + change
	}
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("docs/configuration.md (-the daemons +the page):\n%s", diff)
	}
}
