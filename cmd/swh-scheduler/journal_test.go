package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/vmihailenco/msgpack/v5"
	"golang.org/x/sys/unix"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
)

// journalTopic returns a function that writes records to a partition of a section's topic.
func journalTopic(t *testing.T, section string) (produce func(partition int32, values ...[]byte)) {
	t.Helper()
	_, rest, _ := strings.Cut(section, "prefix: ")
	prefix, _, _ := strings.Cut(rest, "\n")
	client, err := kgo.NewClient(kgo.SeedBrokers(testenv.Kafka(t)...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return func(partition int32, values ...[]byte) {
		t.Helper()
		records := make([]*kgo.Record, len(values))
		for i, value := range values {
			records[i] = &kgo.Record{Topic: prefix + ".origin_visit_status", Partition: partition, Value: value}
		}
		if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// visitDay returns the date of a day's visits.
func visitDay(day int) time.Time { return time.Date(2024, 1, 1+day, 12, 0, 0, 0, time.UTC) }

// visitRecord returns the value of a visit's record.
func visitRecord(t *testing.T, origin, day int, status string) []byte {
	t.Helper()
	value, err := msgpack.Marshal(map[string]any{
		"origin": fmt.Sprintf("https://example.org/%d", origin), "visit": day, "date": visitDay(day), "status": status,
		"snapshot": make([]byte, 20), "type": "git", "metadata": nil,
	})
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// With a limit of records, journal-client ends after them with the Python scheduler's output.
func TestJournalClientEndsAtTheEndOfTheTopic(t *testing.T) {
	t.Parallel()
	settings, section := services(t), journalSection(t, "  on_eof: stop\n")
	p := start(t, "-C", configFile(t, settings+section), "journal-client")
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	select {
	case err := <-p.done:
		p.done <- err
		if want := "Processed 0 message(s).\nDone.\n"; err != nil || p.stdout.String() != want {
			t.Errorf("%v, %q, want %q", err, p.stdout.String(), want)
		}
	case <-ctx.Done():
		t.Error("it does not end")
	}
	missing := configFile(t, settings+strings.Replace(section, "prefix: ", "prefix: missing.", 1))
	if r := ours(t, "-C", missing, "journal-client", "--fail-if-missing"); r.code != 1 || !strings.Contains(r.stderr, ".origin_visit_status does not exist") {
		t.Errorf("without the topic: %+v", r)
	}
}

// With failures_keep_date, a failed visit doesn't change the date of the last visit. Without it, the date changes, as in
// the Python scheduler.
func TestJournalClientFailuresKeepDate(t *testing.T) {
	t.Parallel()
	for text, wantDay := range map[string]int{"": 1, "failures_keep_date: false\n": 1, "failures_keep_date: true\n": 0} {
		dsn, section := testenv.Database(t), journalSection(t, "  on_eof: stop\n")
		journalTopic(t, section)(0, visitRecord(t, 0, 0, "full"), visitRecord(t, 0, 1, "failed"))
		r := ours(t, "-C", configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n%s%s", dsn, section, text)), "journal-client")
		if want := "Processed 2 message(s).\nDone.\n"; r.code != 0 || r.stdout != want {
			t.Fatalf("%q: exit code %d, %q, want %q\n%s", text, r.code, r.stdout, want, r.stderr)
		}
		conn := testenv.Connect(t, dsn)
		var last time.Time
		var status string
		if err := conn.QueryRow(t.Context(), "select last_visit, last_visit_status::text from origin_visit_stats").Scan(&last, &status); err != nil {
			t.Fatal(err)
		}
		if !last.Equal(visitDay(wantDay)) || status != "failed" {
			t.Errorf("%q: the last visit is %s, %s; want failed, %s", text, status, last, visitDay(wantDay))
		}
	}
}

// terminal stores what a program writes to a terminal.
type terminal struct {
	m    sync.Mutex
	text strings.Builder
	done chan struct{} // closed when the program has closed the terminal
}

// startOnTerminal starts a program whose standard error is a terminal.
func startOnTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	keyboard, screen := openTerminal(t)
	cmd.Stderr = screen
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := screen.Close(); err != nil {
		t.Fatal(err)
	}
	x := &terminal{done: make(chan struct{})}
	go x.read(keyboard)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-x.done
		checkCrash(t, cmd.Args, x.written())
		if t.Failed() {
			t.Logf("the terminal:\n%q", x.written())
		}
	})
	return x
}

// openTerminal returns both ends of a new terminal.
func openTerminal(t *testing.T) (keyboard, screen *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(keyboard.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err = errors.Join(err,
		unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0), // a new terminal is locked
		unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 300}))
	if err != nil {
		t.Fatal(err)
	}
	screen, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return keyboard, screen
}

// read ends when no program has the terminal open.
func (x *terminal) read(keyboard *os.File) {
	defer close(x.done)
	defer func() { _ = keyboard.Close() }()
	buf := make([]byte, 4096)
	for {
		n, err := keyboard.Read(buf)
		x.m.Lock()
		x.text.Write(buf[:n])
		x.m.Unlock()
		if err != nil {
			return
		}
	}
}

func (x *terminal) written() string {
	x.m.Lock()
	defer x.m.Unlock()
	return x.text.String()
}

// screen returns the visible text: ESC [ n A moves n lines up, and ESC [ J erases everything below.
func (x *terminal) screen() string {
	lines := []string{""} // lines above the cursor and the line of the cursor
	for line := range strings.Lines(strings.ReplaceAll(x.written(), "\r", "")) {
		for rest := line; rest != ""; {
			text, control, found := strings.Cut(rest, "\x1b[")
			lines[len(lines)-1] += strings.TrimSuffix(text, "\n")
			if strings.HasSuffix(text, "\n") {
				lines = append(lines, "")
			}
			if !found {
				break
			}
			var up int
			if n, err := fmt.Sscanf(control, "%dA", &up); n == 1 && err == nil {
				lines = append(lines[:max(0, len(lines)-1-up)], "")
			}
			rest = strings.TrimLeft(control, "0123456789")
			rest = rest[min(1, len(rest)):]
		}
	}
	return strings.Join(lines, "\n")
}

func (x *terminal) shows(t *testing.T, what string) {
	t.Helper()
	testenv.Shows(t, what, x.screen)
}

// With a limit, journal-client shows its progress on a terminal, and its log stays readable. Without a limit or a
// terminal it shows no progress.
func TestJournalClientShowsItsProgress(t *testing.T) {
	t.Parallel()
	section := journalSection(t, "")
	produce := journalTopic(t, section)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", testenv.Database(t))+section)
	produce(0, visitRecord(t, 0, 0, "full"), visitRecord(t, 1, 0, "full"))

	cmd := exec.Command(binary, "-C", config, "journal-client", "--stop-after-objects", "4")
	cmd.Env = environment()
	x := startOnTerminal(t, cmd)
	x.shows(t, "2 / 2") // only these are in the topic yet
	produce(0, []byte("rubbish"))
	x.shows(t, "3 / 3")
	x.shows(t, "journal record set aside")
	produce(0, visitRecord(t, 0, 1, "full"))
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	<-x.done
	screen := x.screen()
	for _, line := range []string{"partitions assigned", "journal record set aside", "msg=stopped"} {
		if strings.Count(screen, line) != 1 {
			t.Errorf("%q is not shown once:\n%s", line, screen)
		}
	}
	if strings.Contains(screen, "records ") {
		t.Errorf("the bar is left behind:\n%s", screen)
	}

	produce(0, visitRecord(t, 0, 2, "full"))
	if r := ours(t, "-C", config, "journal-client", "-m", "1"); r.code != 0 || strings.Contains(r.stderr, "\x1b") || strings.Contains(r.stderr, "1 / 1") {
		t.Errorf("without a terminal: exit code %d\n%q", r.code, r.stderr)
	}
	unbounded := exec.Command(binary, "-C", config, "journal-client")
	unbounded.Env = environment()
	x = startOnTerminal(t, unbounded)
	x.shows(t, "partitions assigned")
	if err := unbounded.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := unbounded.Wait(); err != nil {
		t.Fatal(err)
	}
	<-x.done
	if strings.Contains(x.written(), "\x1b") {
		t.Errorf("a bar without an end was shown: %q", x.written())
	}
}

// Two journal clients are killed as soon as their results are in the database, mostly before their commit of offsets.
// Each visit counts exactly once.
func TestKilledJournalClientsCountEachVisitOnce(t *testing.T) {
	t.Parallel()
	const origins, rounds, daysARound = 400, 12, 20
	dsn, section := testenv.Database(t), journalSection(t, "")
	produce := journalTopic(t, section)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", dsn)+section)
	conn := testenv.Connect(t, dsn)
	// arrived waits until n origins have a visit of that day or a later one. It polls every millisecond: a few
	// milliseconds after a transaction, offsets are committed.
	arrived := func(day, want int) {
		t.Helper()
		deadline := time.Now().Add(testenv.Patience)
		for found := 0; found < want; pause(time.Millisecond) {
			found = testenv.Value[int](t, conn, "select count(*) from origin_visit_stats where last_visit >= $1", visitDay(day))
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d origins have a visit of day %d", found, want, day)
			}
		}
	}
	members := make([]*process, 2)
	startAll := func() {
		for i := range members {
			// Static members get their partitions back at once.
			members[i] = startWith(t, []string{fmt.Sprint("KAFKA_GROUP_INSTANCE_ID=member-", i)}, "-C", config, "journal-client")
		}
	}
	random := seed.Rand(t)
	startAll()
	for round := range rounds {
		first := round * daysARound
		for day := first; day < first+daysARound; day++ {
			for partition := range int32(2) {
				var values [][]byte
				for origin := int(partition); origin < origins; origin += 2 {
					values = append(values, visitRecord(t, origin, day, "full"))
				}
				produce(partition, values...)
			}
		}
		arrived(first+random.IntN(daysARound), 1+random.IntN(origins))
		for _, p := range members {
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range members {
			p.wait(t)
		}
		startAll()
	}
	const days = rounds * daysARound
	arrived(days-1, origins)
	for _, p := range members {
		p.logs(t, "msg=started") // from here on it handles signals
		p.stop(t, syscall.SIGTERM)
	}
	wrong := testenv.Value[int](t, conn, "select count(*) from origin_visit_stats where successive_visits <> $1", days)
	if wrong > 0 {
		t.Errorf("visits of %d origins were skipped or counted twice", wrong)
	}
}
