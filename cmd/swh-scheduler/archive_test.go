package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/archive"
	"swh-scheduler/internal/testenv"
)

const archivePolicy = `
scheduling_policy:
  git:
  - {policy: never_visited_oldest_update_first, weight: 50}
  - {policy: already_visited_order_by_lag, weight: 50, absolute_cooldown: 2}
no_origins_scheduled_backoff: 1
`

// archiveParts are the archive's own parts, and its scheduler: ours.
type archiveParts struct {
	t                   *testing.T
	dir, python, server string
	config              archive.Storage
	forge               *archive.Forge
	scheduler           *pgx.Conn // its database
	storage             *pgx.Conn
}

// The archive's own lister, loader and storage, its web pages and its API for deposits,
// unchanged, work with ours as their only scheduler: what the forge has is listed and loaded,
// the visits are known as the storage has them, an origin is saved now, a changed repository is
// visited again, and a deposit is to be checked, loaded and loaded again.
func TestArchive(t *testing.T) {
	t.Parallel()
	a := startArchive(t)
	names, longAgo := []string{"a.git", "b.git", "c.git", "d.git"}, time.Now().AddDate(0, 0, -2)
	for _, name := range names {
		a.commit(name, "one of "+name, longAgo)
	}

	a.list()
	a.until("all repositories are visited", func() bool { return len(a.known()) == len(names) })
	var want []string
	for _, name := range names {
		want = append(want, a.forge.Origin(name))
	}
	rows, err := a.scheduler.Query(t.Context(), "select url from listed_origins where enabled order by url")
	if err != nil {
		t.Fatal(err)
	}
	listed, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if diff := cmp.Diff(want, listed); err != nil || diff != "" {
		t.Errorf("listed origins: %v (-forge +listed):\n%s", err, diff)
	}
	first := a.compare()

	a.commit("e.git", "not listed yet", longAgo)
	saved := a.forge.Origin("e.git")
	a.run(a.config.Web(a.server, filepath.Join(a.dir, "web")), a.python, filepath.Join("testdata", "archive_web.py"), a.forge.URL, saved)
	a.compare()
	a.deposit(saved)

	changed := a.forge.Origin("b.git")
	a.commit("b.git", "two", time.Now())
	// Until then it isn't said when it changed.
	a.until("gitweb says how many seconds ago it changed", func() bool { return strings.Contains(a.page(), "sec ago") })
	a.list()
	a.until("the change is known", func() bool { return a.known()[changed] != first[changed] })
	a.compare()
}

func startArchive(t *testing.T) *archiveParts {
	t.Helper()
	python, dir := testenv.ArchivePython(t), t.TempDir()
	for _, name := range []string{"forge", "objects", "uploads"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	forge, err := archive.StartForge(filepath.Join(dir, "forge"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(forge.Close)
	mq, dsn := testenv.RabbitMQ(t), testenv.Database(t)
	storage := archive.Storage{
		DSN: testenv.Postgres(t), Objects: filepath.Join(dir, "objects"),
		Brokers: testenv.Kafka(t), Prefix: testenv.Journal(t, 1, archive.ObjectTypes...),
	}
	for _, args := range storage.Init(python) {
		if r := command(t, args[0], environment(), args[1:]...); r.code != 0 {
			t.Fatalf("%q: %s", args, r.stderr)
		}
	}
	testenv.ListenerQueue(t, mq.URL) // no event of a worker is lost
	a := &archiveParts{
		t: t, dir: dir, python: python, server: ourServer(t, dsn), config: storage, forge: forge,
		scheduler: archiveDatabase(t, dsn), storage: archiveDatabase(t, storage.DSN),
	}
	a.swh("scheduler", "task-type", "register", "-p", "lister.gitweb", "-p", "lister.save-bulk", "-p", "loader.git", "-p", "loader.deposit", "-p", "swh.deposit")

	conf := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n"+
		"journal: {brokers: [%s], prefix: %q, group_id: %q, auto_offset_reset: earliest}\n%s",
		dsn, mq.URL, mq.ManagementURL, strings.Join(storage.Brokers, ", "), storage.Prefix, storage.Prefix, archivePolicy))
	for _, args := range []string{
		"start-listener", "journal-client", "start-runner --period 1", "start-runner --period 1 --with-priority", "schedule-recurrent --visit-type git",
	} {
		start(t, append([]string{"-C", conf}, strings.Fields(args)...)...)
	}
	a.worker("lister", 1, archive.Lister(mq.URL, a.server))
	a.worker("loader", 1, storage.Loader(mq.URL, archive.LoadTask, "save_code_now:"+archive.LoadTask))
	return a
}

func archiveDatabase(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	return testenv.Connect(t, dsn)
}

// worker starts a worker, which is killed with its processes at the end of the test.
func (a *archiveParts) worker(name string, processes int, config string) {
	a.t.Helper()
	log, err := os.Create(filepath.Join(a.t.TempDir(), name))
	if err != nil {
		a.t.Fatal(err)
	}
	cmd := exec.Command(a.python, archive.Worker(name, processes)...)
	cmd.Env = environment("SWH_CONFIG_FILENAME=" + configFile(a.t, config))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = log.Close()
		if said, _ := os.ReadFile(log.Name()); a.t.Failed() {
			a.t.Logf("log of the %s:\n%s", name, said)
		}
	})
}

// run runs a program with a configuration, and returns what it prints.
func (a *archiveParts) run(config, program string, args ...string) string {
	a.t.Helper()
	r := command(a.t, program, environment("SWH_CONFIG_FILENAME="+configFile(a.t, config)), args...)
	if r.code != 0 {
		a.t.Fatalf("%q: %s", args, r.stderr)
	}
	return strings.TrimSpace(r.stdout)
}

// swh runs the archive's command on our server.
func (a *archiveParts) swh(args ...string) {
	a.t.Helper()
	a.run(fmt.Sprintf("scheduler: {cls: remote, url: %q}\n", a.server), filepath.Join(filepath.Dir(a.python), "swh"), args...)
}

// list has the forge listed.
func (a *archiveParts) list() {
	a.t.Helper()
	a.swh("scheduler", "task", "add", "--policy", "oneshot", "list-gitweb", "url="+a.forge.URL)
}

// deposit makes a deposit, whose checks and loading are sent to workers that aren't there, and
// has it loaded again.
func (a *archiveParts) deposit(origin string) {
	a.t.Helper()
	config, err := a.config.Deposit(a.server, testenv.Postgres(a.t), filepath.Join(a.dir, "uploads"))
	if err != nil {
		a.t.Fatal(err)
	}
	sent := func(runs ...string) {
		a.t.Helper()
		testenv.Becomes(a.t, "what was sent of the deposit", runs, func() []string {
			return testenv.Column[string](a.t, a.scheduler, `select type || ' ' || count(*) from task_run join task on task.id = task_run.task
				where type like '%-deposit' group by type order by type`)
		})
	}
	number := a.run(config, a.python, filepath.Join("testdata", "archive_deposit.py"), a.forge.URL, origin)
	sent("check-deposit 1", "load-deposit 1")
	a.run(config, filepath.Join(filepath.Dir(a.python), "swh"), "deposit", "admin", "--platform", "production", "deposit", "reschedule", "--deposit-id", number)
	sent("check-deposit 1", "load-deposit 2")
}

func (a *archiveParts) commit(name, content string, when time.Time) {
	a.t.Helper()
	if err := a.forge.Commit(name, content, when); err != nil {
		a.t.Fatal(err)
	}
}

// known returns the snapshots that the scheduler knows, by origin.
func (a *archiveParts) known() map[string]string {
	a.t.Helper()
	rows, err := a.scheduler.Query(a.t.Context(), `select url, encode(last_snapshot, 'hex') from origin_visit_stats
		where visit_type = 'git' and last_visit_status = 'successful'`)
	if err != nil {
		a.t.Fatal(err)
	}
	found := map[string]string{}
	var url, snapshot string
	if _, err := pgx.ForEachRow(rows, []any{&url, &snapshot}, func() error {
		found[url] = snapshot
		return nil
	}); err != nil {
		a.t.Fatal(err)
	}
	return found
}

// stored returns the snapshots of the last full visits in the storage, by origin.
func (a *archiveParts) stored() map[string]string {
	a.t.Helper()
	visits, err := archive.Visits(a.t.Context(), a.storage)
	if err != nil {
		a.t.Fatal(err)
	}
	found := map[string]string{}
	for _, v := range visits {
		if v.Status == "full" {
			found[v.Origin] = v.Snapshot
		}
	}
	return found
}

// compare fails the test unless the scheduler comes to know all that is stored, and
// returns it.
func (a *archiveParts) compare() map[string]string {
	a.t.Helper()
	var known map[string]string
	a.until("the scheduler knows the snapshots that the storage has", func() bool {
		known = a.known()
		return cmp.Equal(known, a.stored())
	})
	return known
}

// page returns the forge's list of repositories.
func (a *archiveParts) page() string {
	a.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(a.forge.URL)
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(text)
}

func (a *archiveParts) until(what string, holds func() bool) {
	a.t.Helper()
	testenv.Becomes(a.t, what, "", func() string {
		if holds() {
			return ""
		}
		return fmt.Sprintf("the scheduler knows %v, stored is %v", a.known(), a.stored())
	})
}
