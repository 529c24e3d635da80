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

// archiveParts are the archive's lister, loader and storage, and its scheduler: ours.
type archiveParts struct {
	t              *testing.T
	python, server string
	forge          *archive.Forge
	scheduler      *pgx.Conn // its database
	storage        *pgx.Conn
}

// The archive's own lister, loader and storage, unchanged, work with ours as their only
// scheduler: what the forge has is listed and loaded, the visits are known as the storage
// has them, an origin is saved now, and a changed repository is visited again.
func TestArchive(t *testing.T) {
	t.Parallel()
	a := startArchive(t)
	names, longAgo := []string{"a.git", "b.git", "c.git", "d.git"}, time.Now().AddDate(0, 0, -2)
	for _, name := range names {
		a.commit(name, "one of "+name, longAgo)
	}

	a.client("list", a.forge.URL)
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
	a.client("save", saved)
	a.until("the visit is known", func() bool { return a.known()[saved] != "" })
	a.compare()
	a.client("others", saved)

	changed := a.forge.Origin("b.git")
	a.commit("b.git", "two", time.Now())
	// Until then it isn't said when it changed.
	a.until("gitweb says how many seconds ago it changed", func() bool { return strings.Contains(a.page(), "sec ago") })
	a.client("list", a.forge.URL)
	a.until("the change is known", func() bool { return a.known()[changed] != first[changed] })
	a.compare()
}

func startArchive(t *testing.T) *archiveParts {
	t.Helper()
	dir := t.TempDir()
	forge, err := archive.StartForge(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(forge.Close)
	mq, dsn := testenv.RabbitMQ(t), testenv.Database(t)
	server := ourServer(t, dsn)
	parts := archive.NewParts(t, dir, archive.Storage{
		DSN: testenv.Postgres(t), Brokers: testenv.Kafka(t), Prefix: testenv.Journal(t, 1, archive.ObjectTypes...),
	}, mq.URL, server)
	testenv.ListenerQueue(t, mq.URL) // no event of a worker is lost
	storage := parts.Storage
	for _, argv := range append(parts.StorageCommands(), parts.SchedulerCommand("task-type", "register", "-p", "lister.gitweb", "-p", "loader.git")) {
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
	for _, child := range []*testenv.Child{parts.StartLister(1), parts.StartLoader("loader", 1, archive.LoadTask, "save_code_now:"+archive.LoadTask)} {
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("log of the %s:\n%s", child.Name, child.Tail(1000))
			}
		})
	}
	return &archiveParts{
		t: t, python: testenv.ArchivePython(t), server: server, forge: forge,
		scheduler: testenv.Connect(t, dsn), storage: testenv.Connect(t, storage.DSN),
	}
}

// client runs testdata/archive_client.py.
func (a *archiveParts) client(what, origin string) {
	a.t.Helper()
	if r := command(a.t, a.python, environment(), filepath.Join("testdata", "archive_client.py"), a.server, what, origin); r.code != 0 {
		a.t.Fatalf("%s: %s", what, r.stderr)
	}
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
	snapshots := map[string]string{}
	for url, k := range a.visits() {
		if k.Status == "successful" {
			snapshots[url] = k.Snapshot
		}
	}
	return snapshots
}

func (a *archiveParts) visits() map[string]archive.Known {
	a.t.Helper()
	known, err := archive.KnownVisits(a.t.Context(), a.scheduler)
	if err != nil {
		a.t.Fatal(err)
	}
	return known
}

func (a *archiveParts) differences() []string {
	a.t.Helper()
	stored, err := archive.Visits(a.t.Context(), a.storage)
	if err != nil {
		a.t.Fatal(err)
	}
	return archive.Differences(a.visits(), stored)
}

// compare fails the test unless the scheduler comes to know all that is stored, and
// returns the snapshots.
func (a *archiveParts) compare() map[string]string {
	a.t.Helper()
	testenv.Becomes(a.t, "what the scheduler doesn't know as the storage has it", nil, a.differences)
	return a.known()
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
		return fmt.Sprintf("the scheduler knows %v, else than the storage: %q", a.known(), a.differences())
	})
}
