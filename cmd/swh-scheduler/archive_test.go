package main

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/swh"
)

const archivePolicy = `
scheduling_policy:
  git:
  - {policy: never_visited_oldest_update_first, weight: 50}
  - {policy: already_visited_order_by_lag, weight: 50, absolute_cooldown: 2}
no_origins_scheduled_backoff: 1
gone_origins: {gitweb: {clock_margin: 1}}
`

// archiveParts are the archive's own components. Their only scheduler is ours.
type archiveParts struct {
	t         *testing.T
	parts     *swh.Parts
	forge     *swh.Forge
	scheduler *pgx.Conn // connection to the scheduler's database
	storage   *pgx.Conn
}

// The archive's unchanged lister, loader, storage, web pages and deposit API work with our scheduler alone. The loader
// visits all that the forge lists, and the scheduler records the visits that the storage has. "Save code now", changed
// repositories, and a deposit's check, load and second load work too. After the next full
// listing a repository that was removed from the forge is disabled, and enabled when it is listed again.
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
	a.run(a.parts.WebCommand(filepath.Join("testdata", "archive_web.py"), a.forge.URL, saved)...)
	a.compare()
	a.deposit(saved)

	changed := a.forge.Origin("b.git")
	a.commit("b.git", "two", time.Now())
	// Until then, gitweb gives no time of the change.
	a.until("gitweb says how many seconds ago it changed", func() bool { return strings.Contains(a.page(), "sec ago") })
	a.list()
	a.until("the change is known", func() bool { return a.known()[changed] != first[changed] })
	a.compare()

	disabled := func(want string) {
		t.Helper()
		testenv.Becomes(t, "disabled origins", want, func() string {
			return testenv.Value[string](t, a.scheduler, "select coalesce(string_agg(url, ' '), '') from listed_origins where not enabled")
		})
	}
	if err := a.forge.Remove("d.git"); err != nil {
		t.Fatal(err)
	}
	a.list()
	disabled(a.forge.Origin("d.git"))
	a.commit("d.git", "back", longAgo)
	a.list()
	disabled("")
}

func startArchive(t *testing.T) *archiveParts {
	t.Helper()
	dir := t.TempDir()
	forge, err := swh.StartForge(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(forge.Close)
	mq, dsn := testenv.RabbitMQ(t), testenv.Database(t)
	server := ourServer(t, dsn)
	parts := swh.NewParts(t, dir, swh.Storage{
		DSN: testenv.Postgres(t), Brokers: testenv.Kafka(t), Prefix: testenv.Journal(t, 1, swh.ObjectTypes...),
	}, mq.URL, swh.Servers{Listers: server, Commands: server})
	testenv.ListenerQueue(t, mq.URL) // declared first, so that no event of a worker is lost
	storage := parts.Storage
	for _, argv := range append(parts.StorageCommands(), parts.SchedulerCommand("task-type", "register", "-p", "lister.gitweb", "-p", "lister.save-bulk",
		"-p", "loader.git", "-p", "loader.deposit", "-p", "swh.deposit")) {
		if r := command(t, argv[0], environment(), argv[1:]...); r.code != 0 {
			t.Fatalf("%q: %s", argv, r.stderr)
		}
	}
	conf := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n"+
		"journal: {brokers: [%s], prefix: %q, group_id: %q, auto_offset_reset: earliest}\n%s",
		dsn, mq.URL, mq.ManagementURL, strings.Join(storage.Brokers, ", "), storage.Prefix, storage.Prefix, archivePolicy))
	for _, args := range []string{
		"start-listener", "journal-client", "start-runner --period 1", "start-runner --period 1 --with-priority", "schedule-recurrent --visit-type git",
	} {
		start(t, append([]string{"-C", conf}, strings.Fields(args)...)...)
	}
	for _, child := range []*testenv.Child{parts.StartLister(1), parts.StartLoader("loader", 1, swh.LoadTask, "save_code_now:"+swh.LoadTask)} {
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("log of the %s:\n%s", child.Name, child.Tail(1000))
			}
		})
	}
	return &archiveParts{
		t: t, parts: parts, forge: forge,
		scheduler: testenv.Connect(t, dsn), storage: testenv.Connect(t, storage.DSN),
	}
}

// run runs a command and returns its output.
func (a *archiveParts) run(argv ...string) string {
	a.t.Helper()
	r := command(a.t, argv[0], environment(), argv[1:]...)
	if r.code != 0 {
		a.t.Fatalf("%q: %s", argv, r.stderr)
	}
	return strings.TrimSpace(r.stdout)
}

// list runs the lister on the forge.
func (a *archiveParts) list() {
	a.t.Helper()
	a.run(a.parts.SchedulerCommand("task", "add", "--policy", "oneshot", "list-gitweb", "url="+a.forge.URL)...)
}

// deposit makes a deposit and requests its load again. No worker reads the tasks of its checks and loads.
func (a *archiveParts) deposit(origin string) {
	a.t.Helper()
	python, swh := a.parts.DepositCommands(testenv.Postgres(a.t))
	sent := func(runs ...string) {
		a.t.Helper()
		testenv.Becomes(a.t, "what was sent of the deposit", runs, func() []string {
			return testenv.Column[string](a.t, a.scheduler, `select type || ' ' || count(*) from task_run join task on task.id = task_run.task
				where type like '%-deposit' group by type order by type`)
		})
	}
	number := a.run(append(python, filepath.Join("testdata", "archive_deposit.py"), a.forge.URL, origin)...)
	sent("check-deposit 1", "load-deposit 1")
	a.run(append(swh, "deposit", "admin", "--platform", "production", "deposit", "reschedule", "--deposit-id", number)...)
	sent("check-deposit 1", "load-deposit 2")
}

func (a *archiveParts) commit(name, content string, when time.Time) {
	a.t.Helper()
	if err := a.forge.Commit(name, content, when); err != nil {
		a.t.Fatal(err)
	}
}

// known returns the last snapshots in the scheduler's database, by origin.
func (a *archiveParts) known() map[string]string {
	a.t.Helper()
	snapshots := map[string]string{}
	for url, k := range a.visits() {
		if k.Status == "successful" {
			snapshots[url] = k.Snapshot
		}
	}
	return snapshots
}

func (a *archiveParts) visits() map[string]swh.Known {
	a.t.Helper()
	known, err := swh.KnownVisits(a.t.Context(), a.scheduler)
	if err != nil {
		a.t.Fatal(err)
	}
	return known
}

func (a *archiveParts) differences() []string {
	a.t.Helper()
	stored, err := swh.Visits(a.t.Context(), a.storage)
	if err != nil {
		a.t.Fatal(err)
	}
	return swh.Differences(a.visits(), stored)
}

// compare waits until the scheduler has each snapshot of the storage, or fails the test. It returns the snapshots.
func (a *archiveParts) compare() map[string]string {
	a.t.Helper()
	testenv.Becomes(a.t, "what the scheduler doesn't know as the storage has it", nil, a.differences)
	return a.known()
}

// page returns gitweb's list of repositories.
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
		return fmt.Sprintf("the scheduler knows %v, else than the storage: %q", a.known(), a.differences())
	})
}
