package testenv_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// startShell starts a shell, and returns it with the number in its output.
func startShell(t *testing.T, script string) (c *testenv.Child, pid string) {
	t.Helper()
	c = testenv.StartChild(t, t.TempDir(), "child", "sh", "-c", script)
	testenv.Becomes(t, "a process id is in the log", true, func() bool {
		pid = c.Tail(1)
		n, _ := strconv.Atoi(pid)
		return n > 0
	})
	return c, pid
}

func alive(pid string) bool {
	state, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	return err == nil && !strings.Contains(string(state), ") Z ")
}

// Stop leaves no process of a child's group, not even a grandchild that ignores signals, and returns the child's
// exit.
func TestChildStopsWithItsGroup(t *testing.T) {
	t.Parallel()
	child, grandchild := startShell(t, `trap 'exit 0' TERM; sh -c 'trap "" TERM; echo $$; while :; do sleep 1; done' & wait`)
	if err := child.Stop(time.Minute); err != nil {
		t.Errorf("stopped with %v, want exit code 0", err)
	}
	testenv.Becomes(t, "the grandchild is there", false, func() bool { return alive(grandchild) })
}

// Stop kills a child that doesn't end within the bound.
func TestChildIsKilledAfterTheBound(t *testing.T) {
	t.Parallel()
	child, pid := startShell(t, `trap "" TERM; echo $$; while :; do sleep 1; done`)
	if err := child.Stop(50 * time.Millisecond); err == nil || alive(pid) {
		t.Errorf("stopped with %v, alive: %t; want it killed", err, alive(pid))
	}
}

// Ended reports a child that ended by itself. Restart starts it again with the same log.
func TestChildEndsAndRestarts(t *testing.T) {
	t.Parallel()
	child, _ := startShell(t, "echo 1; exit 3")
	for range 2 {
		testenv.Becomes(t, "it has ended with an error", true, func() bool {
			ended, how := child.Ended()
			return ended && how != nil
		})
		child.Restart()
	}
	testenv.Becomes(t, "what it printed", "1\n1\n1", func() string { return child.Tail(9) })
}
