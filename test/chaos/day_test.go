package chaos

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/testenv"
)

const dayHours = 24

// For the time in DAY, the daemons and workers of TestChaos go through a scaled day of 24 hours under load, with the
// actions of operators (dayEvents). The daemons begin with the code of an earlier commit (FROM: a commit, or a
// program). Then TestChaos's checks pass, and memory, tables, dead rows, and the times of claims and of tasks with
// priority have not grown.
func TestDay(t *testing.T) {
	lasts, err := time.ParseDuration(os.Getenv("DAY"))
	if err != nil {
		t.Skip("only `make day` runs this: it sets DAY to a duration")
	}
	runtime.LockOSThread() // children die with the thread that started them
	dir := t.ArtifactDir()
	present := buildProgram(t, dir)
	earlier, commit := earlierProgram(t, filepath.Join(dir, "swh-scheduler-earlier"), os.Getenv("FROM"))
	if earlier == "" {
		earlier = present
	}
	d := &day{present: present, earlier: earlier, dir: dir, authority: testenv.Authority(t), password: "first", counts: map[string]int{}}
	d.newCertificate(t)
	authority := filepath.Join(dir, "authority.crt")
	if err := os.WriteFile(authority, []byte(d.authority.PEM), 0o644); err != nil {
		t.Fatal(err)
	}
	d.c = newCluster(t, dir, earlier, d.access("SSL_CERT_FILE="+authority))
	d.vacuumOften()
	d.c.awaitReady(newWatcher(d.c))
	d.w, d.l = newWatcher(d.c), &load{c: d.c}
	watching, stopWatching := context.WithCancel(t.Context())
	d.w.run(watching)

	d.hour, d.began = lasts/dayHours, time.Now()
	d.meter = newMeter(d.w, d.began, d.hour)
	d.w.all.Go(func() { d.meter.run(watching) })
	d.work()
	for _, e := range dayEvents {
		d.until(e.hour)
		t.Logf("%s hour %d: %s", d.w.age(), d.meter.began(e.what), e.what)
		e.do(d)
		t.Logf("%s over", d.w.age())
	}
	late := time.Since(d.began) > (dayHours-compared)*d.hour
	d.until(dayHours + 1)
	d.rest()
	<-d.meter.done
	d.c.awaitReady(d.w)
	v := d.c.settle(d.w, d.l.added, patience)
	stopWatching()
	d.w.wait()
	d.w.check(v, d.counts)
	hours, err := d.meter.hours(d.l.urgent, d.c.notes)
	if err != nil {
		t.Fatal(err)
	}
	if late {
		t.Logf("growth is not judged: %s are too short for this machine, as something happened in the last %d hours", lasts, compared)
	} else {
		for _, wrong := range grown(hours) {
			t.Error(wrong)
		}
	}
	report := fmt.Sprintf("| day | |\n|---|---|\n| lasted | %s |\n| earlier code | %s |\n", lasts, commit) + outcome(v) + tabulate(hours) + d.w.longest()
	if path := os.Getenv("REPORT"); path != "" {
		if err := os.WriteFile(path, []byte(report), 0o644); err != nil {
			t.Error(err)
		}
	}
	t.Log("\n" + report + "\n" + d.w.stalls())
}

// earlierProgram returns a program of an earlier commit and its name in reports, or "" if there is none. FROM names a
// program or a commit. The default is the newest commit that lacks migrations such that the present code only adds
// later ones, as migrate applies them in order.
func earlierProgram(t *testing.T, path, from string) (program, name string) {
	t.Helper()
	if info, err := os.Stat(from); err == nil && info.Mode().IsRegular() {
		program, err := filepath.Abs(from)
		if err != nil {
			t.Fatal(err)
		}
		return program, filepath.Base(from)
	}
	root, err := testenv.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	if from == "" {
		if from = beforeMigrations(git); from == "" {
			t.Log("no upgrade: git knows no earlier commit (set FROM to a commit or a program)")
			return "", "none: daemons are restarted with the present code"
		}
	}
	commit, err := git("rev-parse", "--short", from+"^{commit}")
	if err != nil {
		if os.Getenv("FROM") != "" {
			t.Fatalf("FROM=%s is neither a program nor a commit of this clone", from)
		}
		t.Log("no upgrade: this clone has no commit from before the newest migration (set FROM to a program)")
		return "", "none: daemons are restarted with the present code"
	}
	sources := t.TempDir()
	archive := filepath.Join(sources, "sources.tar")
	if _, err := git("archive", "--format=tar", "-o", archive, commit); err != nil {
		t.Fatalf("git archive %s: %v", commit, err)
	}
	if out, err := exec.Command("tar", "-x", "-C", sources, "-f", archive).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	if err := testenv.BuildProgramIn(sources, path); err != nil {
		t.Fatal(err)
	}
	return path, commit
}

// beforeMigrations returns the newest commit that lacks the last migrations and no earlier one; "" if git has none.
func beforeMigrations(git func(args ...string) (string, error)) string {
	migrations := func(commit string) []string {
		names, err := git("ls-tree", "--name-only", commit, "sql/migrations/")
		if err != nil {
			return nil
		}
		return strings.Fields(names)
	}
	present := migrations("HEAD")
	added, err := git("log", "--diff-filter=A", "--format=%H", "--", "sql/migrations")
	if err != nil {
		return ""
	}
	for commit := range strings.FieldsSeq(added) {
		there := migrations(commit + "^")
		if len(there) == 0 {
			continue
		}
		last := there[len(there)-1]
		if !slices.ContainsFunc(present, func(name string) bool { return name < last && !slices.Contains(there, name) }) {
			return commit + "^"
		}
	}
	return ""
}

// day is a run of TestDay.
type day struct {
	c                *cluster
	w                *watcher
	l                *load
	meter            *meter
	dir              string
	present, earlier string // programs
	began            time.Time
	hour             time.Duration
	counts           map[string]int // of causes of repeats

	authority testenv.Pair
	password  string // of the RPC servers
	rest      func() // ends the load
	snapshot  *pgx.Conn
	exported  string // its name
}

// dayEvent happens at the beginning of an hour, or after the event before it.
type dayEvent struct {
	hour int
	what string
	do   func(d *day)
}

// dayEvents leave out the first two hours and the last ones, which are compared.
var dayEvents = []dayEvent{
	{3, "snapshot of pg_dump begins", (*day).beginDump},
	{4, "logs rotated", (*day).rotateLogs},
	{5, "snapshot of pg_dump ends", (*day).endDump},
	{6, "certificate of the RPC servers renewed", (*day).renewCertificate},
	{7, "upgrade: migrate, RPC servers, daemons", (*day).upgrade},
	{9, "role of the door gets a new password, RPC servers and daemons new credentials", (*day).renewCredentials},
	{11, "back to the earlier code: daemons, RPC servers", (*day).goBack},
	{13, "failover of PostgreSQL", (*day).failOver},
	{14, "upgrade again: RPC servers, daemons", (*day).upgradeAgain},
	{16, "all off for twelve hours", (*day).night},
	{18, "snapshot of pg_dump begins", (*day).beginDump},
	{20, "snapshot of pg_dump ends", (*day).endDump},
}

// until waits until an hour begins.
func (d *day) until(hour int) {
	for begins := d.began.Add(time.Duration(hour-1) * d.hour); time.Now().Before(begins); <-time.After(200 * time.Millisecond) {
		d.c.keepWorkers()
	}
}

// work begins the load.
func (d *day) work() {
	ctx, stop := context.WithCancel(d.c.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.l.run(ctx)
	}()
	d.rest = func() {
		stop()
		<-ended
	}
}

// vacuumOften makes autovacuum check each table that has changed a little every few seconds. A promoted standby lacks
// its primary's settings.
func (d *day) vacuumOften() {
	for _, setting := range []string{"autovacuum_naptime = '2s'", "autovacuum_vacuum_threshold = 100", "autovacuum_vacuum_scale_factor = 0.02",
		"autovacuum_analyze_threshold = 100", "autovacuum_analyze_scale_factor = 0.02"} {
		if _, err := d.c.pool.Exec(d.c.t.Context(), "alter system set "+setting); err != nil {
			d.c.t.Fatal(err)
		}
	}
	if _, err := d.c.pool.Exec(d.c.t.Context(), "select pg_reload_conf()"); err != nil {
		d.c.t.Fatal(err)
	}
}

// beginDump begins a transaction with a snapshot, and dumps by that snapshot.
func (d *day) beginDump() {
	ctx := d.c.t.Context()
	var err error
	if d.snapshot, err = pgx.Connect(ctx, d.c.database.DSN()); err != nil {
		d.c.t.Fatal(err)
	}
	if _, err = d.snapshot.Exec(ctx, "begin isolation level repeatable read read only"); err == nil {
		err = d.snapshot.QueryRow(ctx, "select pg_export_snapshot()").Scan(&d.exported)
	}
	if err != nil {
		d.c.t.Fatal(err)
	}
	d.dump()
}

// endDump dumps by the snapshot again, as at the end of a large dump, and ends the transaction.
func (d *day) endDump() {
	d.dump()
	if err := d.snapshot.Close(d.c.t.Context()); err != nil {
		d.c.t.Error(err)
	}
}

func (d *day) dump() {
	out, err := exec.Command("pg_dump", "--snapshot="+d.exported, "-Fc", "-f", filepath.Join(d.dir, "dump"), "-d", d.c.database.DSN()).CombinedOutput()
	if err != nil {
		d.c.t.Errorf("pg_dump: %v\n%s", err, out)
	}
}

// rotateLogs renames every other daemon's log, which the daemon continues to write, and copies and truncates the
// others'.
func (d *day) rotateLogs() {
	for i, x := range d.c.daemons {
		if i%2 == 0 {
			if err := os.Rename(x.log, x.log+".1"); err != nil {
				d.c.t.Error(err)
			}
			continue
		}
		text, err := os.ReadFile(x.log)
		if err == nil {
			err = errors.Join(os.WriteFile(x.log+".1", text, 0o644), os.Truncate(x.log, 0))
		}
		if err != nil {
			d.c.t.Error(err)
		}
	}
}

// access returns the present access to the RPC servers.
func (d *day) access(env ...string) access {
	return access{
		serve: fmt.Sprintf("rpc_serve: {tls_certificate: %q, tls_key: %q, username: swh, password: %s}\n",
			filepath.Join(d.dir, "rpc.crt"), filepath.Join(d.dir, "rpc.key"), d.password),
		client: "https://swh:" + d.password + "@", env: env,
	}
}

// newCertificate writes a certificate of the RPC servers, and its key.
func (d *day) newCertificate(t *testing.T) testenv.Pair {
	t.Helper()
	pair := d.authority.Issue(t, "127.0.0.1")
	if err := errors.Join(os.WriteFile(filepath.Join(d.dir, "rpc.crt"), []byte(pair.PEM), 0o644),
		os.WriteFile(filepath.Join(d.dir, "rpc.key"), []byte(pair.KeyPEM), 0o600)); err != nil {
		t.Fatal(err)
	}
	return pair
}

// renewCertificate writes a new certificate, and waits until both RPC servers present it.
func (d *day) renewCertificate() {
	want := d.newCertificate(d.c.t).Leaf.SerialNumber
	for _, server := range d.c.servers {
		shown := func() bool {
			conn, err := tls.Dial("tcp", server, &tls.Config{RootCAs: d.authority.Pool()})
			if err != nil {
				return false
			}
			defer func() { _ = conn.Close() }()
			return conn.ConnectionState().PeerCertificates[0].SerialNumber.Cmp(want) == 0
		}
		d.await("the new certificate of "+server, shown)
	}
}

// await waits for a condition, for readyBound at most.
func (d *day) await(what string, holds func() bool) {
	d.c.t.Helper()
	for deadline := time.Now().Add(readyBound); !holds(); <-time.After(200 * time.Millisecond) {
		if d.c.keepWorkers(); time.Now().After(deadline) {
			d.c.t.Errorf("%s: not after %s", what, readyBound)
			return
		}
	}
}

// migrate runs the present code's migrate.
func (d *day) migrate(options ...string) {
	d.c.t.Helper()
	if out, err := exec.Command(d.present, append([]string{"-C", d.c.config, "migrate"}, options...)...).CombinedOutput(); err != nil {
		d.c.t.Errorf("migrate: %v\n%s", err, out)
	}
}

// servers and others return the daemons, in the order of their start.
func (d *day) servers() []*daemon { return d.c.named("rpc-serve") }

func (d *day) others() []*daemon {
	return slices.DeleteFunc(slices.Clone(d.c.daemons), func(x *daemon) bool { return strings.HasPrefix(x.name, "rpc-serve") })
}

// restart stops daemons and starts them with a program, one after the other, each once the one before is ready.
func (d *day) restart(program string, daemons []*daemon) {
	for _, x := range daemons {
		h := d.c.harmOf(x)
		d.w.begin(h)
		if strings.HasPrefix(x.name, "rpc-serve") {
			d.counts["connections through a door ended"]++
		}
		x.stop()
		x.argv[0] = program
		x.start()
		d.w.end(h)
		d.await(x.name+" is ready", func() bool { return d.w.ready(d.c.t.Context(), x) })
	}
}

func (d *day) upgrade() {
	d.migrate()
	d.restart(d.present, d.servers())
	d.restart(d.present, d.others())
}

func (d *day) goBack() {
	d.restart(d.earlier, d.others())
	d.restart(d.earlier, d.servers())
}

func (d *day) upgradeAgain() {
	d.restart(d.present, d.servers())
	d.restart(d.present, d.others())
}

// renewCredentials changes the password of the door's role, and restarts the RPC servers, then the daemons, with new
// credentials. In between, daemons whose connections end can't open new ones.
func (d *day) renewCredentials() {
	d.migrate("--door")
	d.password = "second"
	d.c.access = d.access(d.c.access.env...)
	between := harm{d.others(), all}
	d.w.begin(between)
	for _, x := range d.c.daemons {
		x.configure()
	}
	d.restart(d.present, d.servers())
	d.restart(d.present, d.others())
	d.w.end(between)
}

func (d *day) failOver() {
	h := harm{d.c.daemons, all}
	d.w.begin(h)
	d.counts["failover"]++
	d.c.database.Kill()
	d.c.database.Promote()
	d.w.end(h)
	d.c.database.Rejoin()
	d.vacuumOften()
}

// night is a power cut of twelve hours, without load.
func (d *day) night() {
	d.rest()
	h := harm{d.c.daemons, all}
	d.w.begin(h)
	d.c.pass(12*time.Hour, "", nil)
	d.w.end(h)
	d.work()
}
