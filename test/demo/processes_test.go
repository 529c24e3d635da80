package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// until polls a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !condition() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}

func startTest(t *testing.T, script string) (*processes, *process) {
	t.Helper()
	p := newProcesses(t.TempDir(), nil)
	t.Cleanup(func() { p.stop(0) })
	if err := p.start("child", "sh", "-c", script); err != nil {
		t.Fatal(err)
	}
	return p, p.running[0]
}

// readPID returns the number that a child writes to its log.
func readPID(t *testing.T, c *process) int {
	t.Helper()
	var pid int
	until(t, "a process id in "+c.log, func() bool {
		pid, _ = strconv.Atoi(strings.TrimSpace(c.lastLines(1)))
		return pid > 0
	})
	return pid
}

func alive(pid int) bool {
	state, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && !strings.Contains(string(state), ") Z ")
}

// Stopping leaves nothing of a child's process group, not even a grandchild
// that heeds no signal, and tells how the child ended.
func TestStopEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	p, child := startTest(t, `trap 'exit 0' TERM; sh -c 'trap "" TERM; echo $$; while :; do sleep 1; done' & wait`)
	grandchild := readPID(t, child)
	if ended := p.stop(20 * time.Second); len(ended) != 1 || ended[0].err != nil {
		t.Errorf("stop = %+v, want the child with exit code 0", ended)
	}
	until(t, "the grandchild's end", func() bool { return !alive(grandchild) })
}

// A child that does not end when told to is killed when the bound is over.
func TestStopKillsAfterTheBound(t *testing.T) {
	t.Parallel()
	p, child := startTest(t, `trap "" TERM; echo $$; while :; do sleep 1; done`)
	pid := readPID(t, child)
	if ended := p.stop(50 * time.Millisecond); len(ended) != 1 || ended[0].err == nil {
		t.Errorf("stop = %+v, want the child killed", ended)
	}
	if alive(pid) {
		t.Error("the child is still there")
	}
}

// A child that ends by itself is reported, with its log.
func TestUnaskedEndIsReported(t *testing.T) {
	t.Parallel()
	p, _ := startTest(t, "echo first; echo last words; exit 3")
	select {
	case child := <-p.ended:
		if child.err == nil || child.lastLines(1) != "last words" {
			t.Errorf("ended with %v, log %q", child.err, child.lastLines(1))
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("not reported")
	}
}

// A command that is interrupted leaves nothing behind either.
func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p, _ := startTest(t, "sleep 60")
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() {
		_, err := p.run(ctx, "sh", "-c", "sleep 60 & echo $! > "+file+"; wait")
		done <- err
	}()
	var pid int
	until(t, "a process id in "+file, func() bool {
		text, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid > 0
	})
	cancel()
	if err := <-done; err == nil {
		t.Error("no error from an interrupted command")
	}
	until(t, "the end of the command's child", func() bool { return syscall.Kill(pid, 0) != nil || !alive(pid) })
}
