package main

import (
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"swh-scheduler/internal/testenv"
)

// On a terminal that shows the log, migrate prints each step once; a pipe has the whole report.
func TestMigrateOnATerminal(t *testing.T) {
	t.Parallel()
	const step = "00350_work"
	dsn := testenv.PythonDatabase(t)
	migrated := func(args ...string) string {
		t.Helper()
		keyboard, screen := openTerminal(t)
		if err := unix.IoctlSetWinsize(int(keyboard.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 200}); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"-d", dsn, "migrate"}, args...)...)
		cmd.Stdout, cmd.Stderr, cmd.Env = screen, screen, environment("TERM=xterm")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = screen.Close()
		x := &terminal{done: make(chan struct{})}
		go x.read(keyboard)
		err := cmd.Wait()
		<-x.done
		if err != nil {
			t.Errorf("%v\n%s", err, x.written())
		}
		return x.written()
	}
	if text := migrated(); strings.Count(text, step) != 1 || !strings.Contains(text, " migrations: applied") {
		t.Error(text)
	}
	if text := migrated("--remove"); strings.Count(text, "schema scheduler_go") != 1 || !strings.Contains(text, ": removed") {
		t.Error(text)
	}
	if r := ours(t, "-d", dsn, "migrate"); r.code != 0 || strings.Count(r.stdout, step) != 1 {
		t.Errorf("%+v", r)
	}
}
