package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"swh-scheduler/internal/testenv"
)

// onTerminal runs our program on a terminal of the given width in characters, and returns its standard output.
func onTerminal(t *testing.T, width uint16, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	return showing(t, width, &stderr, args...)
}

// showing runs our program on a terminal, and returns what the terminal shows: also standard error, if stderr is nil.
func showing(t *testing.T, width uint16, stderr *bytes.Buffer, args ...string) string {
	t.Helper()
	keyboard, screen := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(keyboard.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: width}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = screen, screen, environment("TERM=xterm")
	if stderr != nil {
		cmd.Stderr = stderr
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = screen.Close()
	x := &terminal{done: make(chan struct{})}
	go x.read(keyboard)
	err := cmd.Wait()
	<-x.done
	if err != nil {
		t.Errorf("%q: %v\n%s\n%s", args, err, x.written(), stderr)
	}
	return strings.ReplaceAll(x.written(), "\r\n", "\n") // a terminal's line ends
}

// Tables of status commands fit the terminal: they shorten names or become lists. Heads are bold, and an empty table
// says why.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	const host = "git.a-hoster-with-a-very-long-name.example.org"
	file := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\nhosters: {limits: {%s: {max_in_flight: 5}}}\n", dsn, host))
	args := []string{"-C", file, "hosters", "status"}
	if got, want := ours(t, args...).stdout, ""+
		"HOSTER                                          IN FLIGHT  MAX  LAST MINUTE  MAX\n"+
		host+"          0    5            0    -\n"; got != want {
		t.Errorf("in a pipe:\n%s\nwant\n%s", got, want)
	}
	wide := onTerminal(t, 60, args...)
	if lines := strings.Split(wide, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "\x1b[1mHOSTER ") || len([]rune(lines[1])) != 60 || !strings.Contains(lines[1], "…") {
		t.Errorf("on 60 characters:\n%q", wide)
	}
	if narrow := onTerminal(t, 40, args...); !strings.Contains(narrow, "\x1b[1mHOSTER\x1b[0m       "+host+"\n") {
		t.Errorf("on 40 characters:\n%q", narrow)
	}
	none := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", dsn))
	if shown := onTerminal(t, 80, "-C", none, "hosters", "status"); !strings.HasPrefix(shown, "No hoster has a limit") {
		t.Errorf("%q", shown)
	}
	if piped := ours(t, "-C", none, "hosters", "status", "--output", "json"); piped.stdout != "[]\n" {
		t.Errorf("%q", piped.stdout)
	}
}

// A watched table is printed again after the database closed its connections.
func TestWatchedTableGoesOn(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	conn := testenv.Connect(t, dsn)
	file := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\nhosters: {limits: {host: {per_minute: 100}}}\n", dsn))
	cmd := exec.CommandContext(t.Context(), binary, "-C", file, "hosters", "status", "--watch=0.02")
	cmd.Env = environment()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	shown := ""
	for lines := bufio.NewScanner(out); !strings.Contains(shown, "77") && lines.Scan(); {
		if shown = lines.Text(); !strings.HasPrefix(shown, "host ") {
			continue
		}
		testenv.Exec(t, conn, "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid != pg_backend_pid()")
		testenv.Exec(t, conn, "insert into scheduler_go.hoster_claims (hoster, claimed, visits) values ('host', now(), 77)")
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil || !strings.Contains(shown, "77") {
		t.Errorf("%q, then %v", shown, err)
	}
}

// If a name doesn't exist and nothing is found, standard error has the name and the nearest existing one.
func TestUnknownNamesAreNamed(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	w.execute(someTaskTypes)
	for _, one := range []struct {
		args []string
		says string
	}{
		{[]string{"task", "list", "-t", "load-gti"}, "did_you_mean=load-git"},
		{[]string{"task", "list-pending", "load-gti"}, "did_you_mean=load-git"},
		{[]string{"origin", "peek-next", "gti", "3"}, "did_you_mean=load-git"},
		{[]string{"task", "list", "-t", "load-git"}, ""},
	} {
		if one.says == "" || one.args[1] != "peek-next" { // Python prints other columns
			w.compare(nil, one.args...)
		}
		got := ours(t, append([]string{"-d", w.ours}, one.args...)...)
		if got.code != 0 || !strings.Contains(got.stderr, one.says) || one.says == "" && got.stderr != "" {
			t.Errorf("%q: %+v", one.args, got)
		}
	}
	if got := ours(t, "-d", w.ours, "task", "add", "load-gti", "url=x"); got.code != 2 || !strings.HasSuffix(got.stderr, "Error: Unknown task name load-gti. Did you mean 'load-git'?\n") {
		t.Errorf("task add: %+v", got)
	}
}
