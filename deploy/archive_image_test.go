package deploy_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// These tests run the commands of the archive's charts and compose file for the scheduler's containers, in the
// archive image. That is its root file system, made without Docker, or SWH_TEST_ARCHIVE_IMAGE in Docker. Commands,
// arguments, environments and files are those of
//   - SoftwareHeritage/swh-charts at 4febfa8, rendered with values/production/swh-cassandra.yaml, and its scripts
//     in swh/templates/utils/backend-utils.yaml
//   - SoftwareHeritage/docker at 0b9b451, compose.yml and services/swh-scheduler/entrypoint.sh
//
// written anew from their behaviour, with this machine's addresses.

const archiveDir = "docker/archive"

// archiveImage runs containers of the image.
type archiveImage struct {
	docker        string // an image of the daemon, or ""
	root, program string // the root file system and the program in it
	environment   []string
}

// theArchiveImage makes the image once for all tests, and its root file system once for all runs.
var theArchiveImage = sync.OnceValues(func() (archiveImage, error) {
	dockerfile, err := os.ReadFile(archiveDir + "/Dockerfile")
	if err != nil {
		return archiveImage{}, err
	}
	image := archiveImage{docker: os.Getenv("SWH_TEST_ARCHIVE_IMAGE"), environment: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}
	for _, m := range regexp.MustCompile(`(?m)^ENV (\S+)$`).FindAllStringSubmatch(string(dockerfile), -1) {
		image.environment = append(image.environment, m[1])
	}
	if image.docker != "" {
		return image, nil
	}
	sum := sha256.New()
	err = filepath.WalkDir(archiveDir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "Dockerfile" || entry.Name() == "run-unpacked" {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return err
	})
	if err != nil {
		return image, err
	}
	cache := os.Getenv("SWH_SCHEDULER_CACHE")
	if cache == "" {
		caches, err := os.UserCacheDir()
		if err != nil {
			return image, err
		}
		cache = filepath.Join(caches, "swh-scheduler")
	}
	images := filepath.Join(cache, "archive-image")
	image.root = filepath.Join(images, hex.EncodeToString(sum.Sum(nil))[:16])
	if _, err := os.Stat(image.root); err != nil {
		if err := os.MkdirAll(images, 0o755); err != nil {
			return image, err
		}
		unfinished, err := os.MkdirTemp(images, "new")
		if err != nil {
			return image, err
		}
		defer os.RemoveAll(unfinished)
		if err := os.Chmod(unfinished, 0o755); err != nil {
			return image, err
		}
		if out, err := exec.Command(archiveDir+"/unpack", unfinished).CombinedOutput(); err != nil {
			return image, fmt.Errorf("unpack: %w\n%s", err, out[max(0, len(out)-2000):])
		}
		if err := os.Rename(unfinished, image.root); err != nil && !errors.Is(err, os.ErrExist) {
			return image, err
		}
	}
	dir, err := os.MkdirTemp("", "archive-image")
	image.program = filepath.Join(dir, "swh-scheduler")
	if err != nil {
		return image, err
	}
	return image, testenv.BuildAsShipped("swh-scheduler/cmd/swh-scheduler", image.program)
})

func theImage(t *testing.T) archiveImage {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("takes root, for a root file system of its own")
	}
	image, err := theArchiveImage()
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// container is a container of a deployment.
type container struct {
	command     []string          // nil is the image's entry point
	args        []string          //
	environment []string          // of the deployment
	mounts      map[string]string // directories and files, by path in the container
	writable    bool              // the root file system is writable, the default of deployments
}

// running is a container that was started.
type running struct {
	cmd    *exec.Cmd
	output testenv.Buffer
	ended  chan struct{} // closed at its end
}

func (i archiveImage) start(t *testing.T, c container) *running {
	t.Helper()
	command := c.command
	if command == nil {
		command = []string{"/srv/softwareheritage/entrypoint.sh"}
	}
	var argv []string
	if i.docker != "" {
		argv = []string{"docker", "run", "--rm", "--network", "host", "--cap-drop", "ALL", "--tmpfs", "/tmp", "--entrypoint", command[0]}
		if !c.writable {
			argv = append(argv, "--read-only")
		}
		for path, from := range c.mounts {
			argv = append(argv, "--volume", from+":"+path)
		}
		for _, variable := range c.environment {
			argv = append(argv, "--env", variable)
		}
		argv = append(argv, i.docker)
		argv = append(argv, command[1:]...)
	} else {
		writable := map[bool]string{true: "yes", false: "no"}[c.writable]
		argv = []string{archiveDir + "/run-unpacked", i.root, i.program, writable}
		for path, from := range c.mounts {
			argv = append(argv, from+":"+path)
		}
		argv = slices.Concat(argv, []string{"--"}, i.environment, c.environment, []string{"--"}, command)
	}
	r := &running{cmd: exec.Command(argv[0], append(argv[1:], c.args...)...), ended: make(chan struct{})}
	r.cmd.Stdout, r.cmd.Stderr = &r.output, &r.output
	r.cmd.WaitDelay = 10 * time.Second
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() // the state has its exit
		close(r.ended)
	}()
	t.Cleanup(func() {
		select {
		case <-r.ended:
		default:
			if pid, err := r.pid(i.docker != ""); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL) // this ends all processes of its namespace
			}
			<-r.ended
		}
		if t.Failed() {
			t.Logf("%q:\n%s", c.args, r.output.String())
		}
	})
	return r
}

// run runs a container to its end.
func (i archiveImage) run(t *testing.T, c container) (code int, output string) {
	t.Helper()
	r := i.start(t, c)
	return r.wait(t, time.Minute)
}

func (r *running) wait(t *testing.T, bound time.Duration) (code int, output string) {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(bound):
		t.Fatalf("did not end within %s", bound)
	}
	return r.cmd.ProcessState.ExitCode(), r.output.String()
}

// pid returns the process that is process 1 in the container, or the one that forwards signals to it.
func (r *running) pid(docker bool) (int, error) {
	pid := r.cmd.Process.Pid
	if docker {
		return pid, nil
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.Fields(string(children) + " none")[0])
}

// stop sends SIGTERM to process 1 of the container, and expects its clean end before a pod would be killed.
func (r *running) stop(t *testing.T, docker bool) {
	t.Helper()
	pid, err := r.pid(docker)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, _ := r.wait(t, 30*time.Second); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
}

// directory makes a directory with files that everybody may read and write, like an emptyDir.
func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for up := dir; up != os.TempDir() && len(up) > len(os.TempDir()); up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// answers waits until a probe succeeds.
func (r *running) answers(t *testing.T, url string) {
	t.Helper()
	testenv.Becomes(t, url+" answers", "200", func() string {
		select {
		case <-r.ended:
			t.Fatal("it has ended")
		default:
		}
		resp, err := http.Get(url)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return strconv.Itoa(resp.StatusCode)
	})
}

// loggingGunicorn is the charts' logging-gunicorn.json.
const loggingGunicorn = `{"version": 1, "disable_existing_loggers": true,
	"filters": {"throttle_accesslog": {"interval": 60, "status_codes": [200, 400]}},
	"formatters": {"default": {"class": "pythonjsonlogger.jsonlogger.JsonFormatter",
		"format": "[%(asctime)s: %(levelname)s/%(processName)s-%(process)d %(threadName)s(%(pathname)s:%(lineno)s:%(funcName)s)]%(name)s %(message)s"}},
	"handlers": {"console": {"class": "logging.StreamHandler", "formatter": "default", "level": "INFO", "stream": "ext://sys.stdout"}},
	"loggers": {"azure": {"level": "WARN"}, "gunicorn": {"level": "INFO"}, "gunicorn.error": {"level": "INFO"}, "swh": {"level": "INFO"}, "swh.core.statsd": {"level": "INFO"},
		"gunicorn.access": {"filters": ["throttle_accesslog"], "handlers": ["console"], "level": "WARN"}},
	"root": {"handlers": ["console"], "level": "INFO"}}`

// checkVersion does the same as the charts' check-backend-version.sh.
const checkVersion = `#!/usr/bin/env bash
set -eu
key=""
[ -z "$MODULE_CONFIG_KEY" ] || key="--module-config-key=$MODULE_CONFIG_KEY"
swh db --config-file=$SWH_CONFIG_FILENAME version "$MODULE" $key | tee /tmp/db-version.txt
code=$(awk -F':' '/code / {print $2}' /tmp/db-version.txt)
database=$(awk -F':' '/^version: / {print $2}' /tmp/db-version.txt)
[ "$code" = "$database" ] || { echo "differs: $code, $database"; exit 1; }
`

// initialize does the same as initialize-backend.sh for an empty database.
const initialize = `#!/usr/bin/env bash
set -eu
swh db --config-file=$SWH_CONFIG_FILENAME version "$MODULE" | tee /tmp/db-version.txt
[ "$(awk -F':' '/^version: / {print $2}' /tmp/db-version.txt)" = " None" ]
swh db init-admin --db-name="$ADMIN" "$MODULE"
swh db --config-file=$SWH_CONFIG_FILENAME init "$MODULE"
`

// registerListing does the same as register-listing-task.sh.
const registerListing = `#!/usr/bin/env bash
set -eux
( swh scheduler task list --task-type $SWH_FORGE_TYPE --policy=oneshot 2>&1 | grep $SWH_FORGE_URL ) \
	|| swh scheduler task add $SWH_FORGE_TYPE url=$SWH_FORGE_URL --policy=oneshot
`

// common is the environment of all deployments of the charts but the RPC server.
func common(name string) []string {
	return []string{
		"STATSD_HOST=127.0.0.1", "STATSD_PORT=9125", "STATSD_TAGS=deployment:" + name, "SWH_CONFIG_FILENAME=/etc/swh/config.yml", "SWH_LOG_LEVEL=INFO",
		"SWH_SENTRY_ENVIRONMENT=production", "SWH_MAIN_PACKAGE=swh.scheduler", "SWH_SENTRY_DSN=http://key@127.0.0.1:1/1", "SWH_SENTRY_DISABLE_LOGGING_EVENTS=true",
	}
}

// The charts' deployments run unchanged in the image, once "migrate --door" has run: init containers, the RPC server
// with its probes and its log in JSON, each daemon on cls: remote, and the cron job. Each stops on SIGTERM.
func TestArchiveImageInTheCharts(t *testing.T) {
	t.Parallel()
	image := theImage(t)
	dsn, mq, prefix := testenv.Postgres(t), testenv.RabbitMQ(t), testenv.Journal(t, 1)
	port := testenv.FreePort(t)
	rpc := directory(t, map[string]string{
		"config.yml":                    fmt.Sprintf("scheduler:\n  cls: postgresql\n  db: %s\n", dsn),
		"logging/logging-gunicorn.json": loggingGunicorn,
	})
	scripts := directory(t, map[string]string{
		"check-backend-version.sh": checkVersion, "initialize-backend.sh": initialize, "register-listing-task.sh": registerListing,
		"register-task-types.sh": "#!/usr/bin/env bash\nset -eux\nswh scheduler task-type register\n",
	})
	mounts := map[string]string{"/etc/swh": rpc, "/entrypoints": scripts}
	module := []string{"MODULE=scheduler", "MODULE_CONFIG_KEY=", "SWH_CONFIG_FILENAME=/etc/swh/config.yml"}

	// Init containers, for a new database: a check without a database, its creation, a check, task types, a first
	// task.
	for _, step := range []struct {
		script string
		more   []string
		code   int
		want   string
	}{
		{"check-backend-version.sh", module, 1, "differs:  38,  None"},
		{"initialize-backend.sh", append(module, "ADMIN="+dsn), 0, "Database initialized at version 38"},
		{"check-backend-version.sh", module, 0, "current code version: 38\nversion: 38\n"},
		{"register-task-types.sh", append(module, "SWH_LOG_LEVEL=INFO"), 0, "swh.loader.git 3.4.0"},
		{"register-listing-task.sh", append(module, "SWH_LOG_LEVEL=INFO", "SWH_FORGE_TYPE=list-gitea-full", "SWH_FORGE_URL=https://forge.example/api/v1/"), 0, "Created 1 tasks"},
		{"register-listing-task.sh", append(module, "SWH_LOG_LEVEL=INFO", "SWH_FORGE_TYPE=list-gitea-full", "SWH_FORGE_URL=https://forge.example/api/v1/"), 0, "https://forge.example/api/v1/"},
	} {
		code, output := image.run(t, container{command: []string{"/entrypoints/" + step.script}, environment: step.more, mounts: mounts})
		if code != step.code || !strings.Contains(output, step.want) {
			t.Fatalf("%s: exit code %d, want %q in\n%s", step.script, code, step.want, output)
		}
	}
	conn := testenv.Connect(t, dsn)
	if n := testenv.Value[int](t, conn, "select count(*)::int from task"); n != 1 {
		t.Errorf("%d tasks, want 1: the second register-listing-task.sh does nothing", n)
	}
	if code, output := image.run(t, container{args: []string{"swh", "scheduler", "migrate", "--door"}, environment: module, mounts: mounts}); code != 0 {
		t.Fatalf("exit code %d\n%s", code, output)
	}

	server := image.start(t, container{
		command: []string{"/bin/bash"}, args: []string{"-c", "/opt/swh/entrypoint.sh"}, mounts: mounts,
		environment: []string{
			"PORT=" + port, "THREADS=4", "WORKERS=8", "TIMEOUT=3600", "STATSD_HOST=127.0.0.1", "STATSD_PORT=9125", "STATSD_TAGS=deployment:scheduler-rpc", "STATSD_SERVICE_TYPE=scheduler-rpc",
			"SWH_LOG_LEVEL=INFO", "SWH_LOG_CONFIG_JSON=/etc/swh/logging/logging-gunicorn.json",
			"SWH_SENTRY_ENVIRONMENT=production", "SWH_MAIN_PACKAGE=swh.scheduler", "SWH_SENTRY_DSN=http://key@127.0.0.1:1/1", "SWH_SENTRY_DISABLE_LOGGING_EVENTS=true",
		},
	})
	server.answers(t, "http://127.0.0.1:"+port+"/") // the readiness probe
	if live, err := net.Dial("tcp", "127.0.0.1:"+port); err != nil {
		t.Error(err) // the liveness probe
	} else {
		_ = live.Close()
	}

	for _, backend := range []string{"swh.test.One", "swh.test.Two"} {
		testenv.Exec(t, conn, `insert into task_type (type, backend_name, description, max_queue_length) values ($1, $2, '', 1000)`, "load-"+strings.ToLower(backend[9:]), backend)
	}
	testenv.Exec(t, conn, `update task_type set backend_name = 'swh.test.Git' where type = 'load-git'`)
	testenv.Exec(t, conn, `insert into task (type, arguments, next_run, status, policy, priority, retries_left) values
		('load-one', '{"args": [], "kwargs": {}}', now(), 'next_run_not_scheduled', 'oneshot', null, 0),
		('load-git', '{"args": [], "kwargs": {}}', now(), 'next_run_not_scheduled', 'oneshot', 'high', 0)`)
	testenv.Exec(t, conn, `with l as (insert into listers (name, instance_name, current_state, updated, last_listing_finished_at, first_visits_queue_prefix) values ('gitea', 'x', '{}', now(), now(), 'first') returning id)
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen) select id, 'https://forge.example/a', 'git', '{}', true, now() from l`)
	remote := func(more string) string {
		return directory(t, map[string]string{"config.yml": fmt.Sprintf("scheduler:\n  cls: remote\n  enable_requests_retry: true\n  url: http://127.0.0.1:%s\n%s", port, more)})
	}
	broker := fmt.Sprintf("celery:\n  task_broker: %s\nrabbitmq: {management_url: %q}\n", mq.URL, mq.ManagementURL)
	ch := testenv.Channel(t, mq.URL)
	daemons := map[string]*running{}
	_ = testenv.ListenerQueue(t, mq.URL)
	for _, d := range []struct{ name, args, more, queue string }{
		{"scheduler-listener", "start-listener", "", ""},
		{"scheduler-runner", "start-runner --period 10", "", "swh.test.One"},
		{"scheduler-runner-priority", "start-runner --period 10 --with-priority --task-type load-bzr --task-type load-cvs --task-type load-git --task-type load-svn --task-type load-archive-files --task-type load-hg", "", "save_code_now:swh.test.Git"},
		{"scheduler-runner-first-visits", "start-runner-first-visits --period 30", "", "first:swh.test.Git"},
		{"scheduler-schedule-recurrent", "schedule-recurrent", policies, "swh.test.Git"},
		{"scheduler-journal-client", "journal-client", fmt.Sprintf("journal:\n  brokers: [%s]\n  group_id: swh.scheduler.journal_client.%s\n  prefix: %s\n", strings.Join(testenv.Kafka(t), ", "), port, prefix), ""},
	} {
		if d.name == "scheduler-schedule-recurrent" { // which would be first otherwise
			testenv.Exec(t, conn, `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen) select id, 'https://forge.example/b', 'git', '{}', true, now() from listers`)
		}
		started := image.start(t, container{
			command: []string{"/opt/swh/entrypoint.sh"}, args: append([]string{"swh", "scheduler", "--config-file", "/etc/swh/config.yml"}, strings.Fields(d.args)...),
			environment: common(d.name), mounts: map[string]string{"/etc/swh": remote(broker + d.more)},
		})
		daemons[d.name] = started
		testenv.Becomes(t, d.name+" started", true, func() bool { return strings.Contains(started.output.String(), "msg=started") })
		if d.queue == "" {
			continue
		}
		testenv.Becomes(t, "a message in "+d.queue, 1, func() int {
			q, err := ch.QueueDeclarePassive(d.queue, true, false, false, false, nil)
			if err != nil {
				ch = testenv.Channel(t, mq.URL)
			}
			return q.Messages
		})
	}
	code, output := image.run(t, container{
		command: []string{"/opt/swh/entrypoint.sh"}, args: strings.Fields("swh scheduler --config-file /etc/swh/config.yml origin update-metrics"),
		environment: common("scheduler-update-metrics-cronjob"), mounts: map[string]string{"/etc/swh": remote("")},
	})
	if n := testenv.Value[int](t, conn, "select count(*)::int from scheduler_metrics"); code != 0 || n != 1 {
		t.Errorf("update-metrics: exit code %d, %d rows\n%s", code, n, output)
	}
	for name, d := range daemons {
		d.stop(t, image.docker != "")
		if !strings.Contains(d.output.String(), "msg=stopped") {
			t.Errorf("%s does not say that it stopped", name)
		}
	}
	server.stop(t, image.docker != "")
	lines := 0
	for s := bufio.NewScanner(strings.NewReader(server.output.String())); s.Scan(); lines++ {
		var line struct{ Asctime, Levelname, Name, Message, ProcessName string }
		if err := json.Unmarshal(s.Bytes(), &line); err != nil || line.Asctime == "" || line.Levelname == "" || line.Message == "" || line.Name != "swh.scheduler" || line.ProcessName != "MainProcess" {
			t.Errorf("%v in the log of the RPC server: %s", err, s.Text())
		}
	}
	if lines < 2 {
		t.Errorf("the RPC server logs %d lines", lines)
	}
}

// policies are those of the charts' production.
const policies = `
scheduling_policy:
  default:
  - policy: already_visited_order_by_lag
    weight: 40
  - policy: never_visited_oldest_update_first
    weight: 40
  - policy: origins_without_last_update
    weight: 20
  git:
  - policy: origins_without_last_update
    tablesample: 0.1
    weight: 5
  - policy: never_visited_oldest_update_first
    tablesample: 0.1
    weight: 80
  - policy: already_visited_order_by_lag
    tablesample: 0.1
    weight: 15
`

// composeEntrypoint does the same as services/swh-scheduler/entrypoint.sh of the compose file's repository, which is
// mounted over the image's.
const composeEntrypoint = `#!/bin/bash
set -e
for part in pyutils pgsql swhutils; do source /srv/softwareheritage/utils/$part.sh; done
setup_pgsql
setup_pip
case "$1" in
shell) shift; "$@" ;;
rpc)
	swh_setup_db scheduler
	swh scheduler task-type register
	swh_start_rpc scheduler
	;;
worker)
	shift
	wait-for-it $RPC -s --timeout=0
	until python3 -c "
from celery import Celery
app = Celery('swh', broker='$BROKER_URL')
for worker_instance in '$WORKER_INSTANCES'.split(','):
    assert any(worker_name.startswith(f'{worker_instance.strip()}@')
            for worker_name in app.control.inspect().active())" 2>/dev/null
	do
		sleep 1
	done
	exec swh scheduler -C $SWH_CONFIG_FILENAME $@
	;;
esac
`

// The compose file's services run unchanged in the image. The RPC server makes the database, registers task types
// before any worker runs, and passes its health check. A daemon waits for workers.
func TestArchiveImageInCompose(t *testing.T) {
	t.Parallel()
	image := theImage(t)
	dsn, mq := testenv.URL(t, testenv.Postgres(t)), testenv.RabbitMQ(t)
	database, port := strings.TrimPrefix(dsn.Path, "/"), testenv.FreePort(t)
	files := directory(t, map[string]string{
		"config.yml": fmt.Sprintf("scheduler:\n  cls: postgresql\n  db: postgresql:///?service=%s\ncelery:\n  broker_heartbeat: null\n  task_broker: %s\n  broker_transport_options:\n    max_retries: 1\n"+
			"no_origins_scheduled_backoff: 60\nrabbitmq: {management_url: %q}\n", database, mq.URL, mq.ManagementURL),
		"entrypoint.sh": composeEntrypoint,
	})
	service := func(command string, more ...string) container {
		return container{
			args: strings.Fields(command), writable: true,
			mounts: map[string]string{"/srv/softwareheritage/config.yml": files + "/config.yml", "/srv/softwareheritage/entrypoint.sh": files + "/entrypoint.sh"},
			environment: append([]string{
				"PYTHONUNBUFFERED=1", "STATSD_HOST=127.0.0.1", "STATSD_PORT=9125", "SWH_SCHEDULER_CONFIG_FILE=/srv/softwareheritage/config.yml",
				"POSTGRES_DB=" + database, "PGHOST=" + dsn.Hostname(), "PGPORT=" + dsn.Port(), "PGUSER=" + dsn.User.Username(),
			}, more...),
		}
	}
	server := image.start(t, service("rpc", "RPC_PORT="+port, "CELERY_BROKER="+mq.URL))
	server.answers(t, "http://127.0.0.1:"+port+"/")
	if code, output := image.run(t, container{command: []string{"/bin/sh"}, args: []string{"-c", "curl -f http://localhost:" + port + " || exit 1"}}); code != 0 {
		t.Errorf("the health check: exit code %d\n%s", code, output)
	}
	for _, want := range []string{"Database initialized at version 38", "No migration needed for 'scheduler:postgresql'", "swh.lister 7.4.0"} {
		if !strings.Contains(server.output.String(), want) {
			t.Errorf("no %q in the log of the RPC server", want)
		}
	}
	runner := image.start(t, service("worker start-runner --period 10", "RPC=127.0.0.1:"+port, "SWH_LOG_LEVELS=info", "BROKER_URL="+mq.URL, "WORKER_INSTANCES=listers, loader", "APP=swh.scheduler.celery_backend.config.app"))
	for _, name := range []string{"listers", "loader"} {
		if strings.Contains(runner.output.String(), "msg=started") {
			t.Error("the runner does not wait for the workers")
		}
		worker := testenv.StartChild(t, t.TempDir(), name, testenv.Python(t), "-m", "celery", "--broker", mq.URL, "worker", "--hostname", name+"@%h", "--pool", "solo", "--loglevel", "warning")
		_ = worker
	}
	testenv.Becomes(t, "the runner started", true, func() bool { return strings.Contains(runner.output.String(), "msg=started") })
	if code, output := image.run(t, service("shell swh scheduler origin update-metrics")); code != 0 {
		t.Errorf("update-metrics: exit code %d\n%s", code, output)
	}
	runner.stop(t, image.docker != "")
	server.stop(t, image.docker != "")
}

// The entry point of the image: a shell, a command of swh, or the RPC server.
func TestArchiveImageEntrypoint(t *testing.T) {
	t.Parallel()
	image := theImage(t)
	for _, tc := range []struct {
		args   string
		code   int
		output string
	}{
		{"shell id -u", 0, "1000\n"},
		{"shell pwd", 0, "/opt/swh\n"},
		{"swh --version", 0, "swh-scheduler, version "},
		{"swh scheduler frob", 2, "No such command 'frob'"},
		{"", 2, "The file '/etc/swh/config.yml', named by SWH_CONFIG_FILENAME, "},
		{"shell bash -c false", 1, ""},
	} {
		code, output := image.run(t, container{command: []string{"/opt/swh/entrypoint.sh"}, args: strings.Fields(tc.args)})
		if code != tc.code || !strings.Contains(output, tc.output) {
			t.Errorf("%q: exit code %d\n%s", tc.args, code, output)
		}
	}
}
