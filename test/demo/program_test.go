package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"swh-scheduler/internal/testenv"
)

// A failing program ends at once, cleans up in reverse order, also after a cleanup that fails, and returns all
// failures.
func TestProgramFailsAsATestDoes(t *testing.T) {
	t.Parallel()
	first := errors.New("first")
	var cleaned []int
	err := runProgram(t.Context(), func(p *program) {
		p.Cleanup(func() { cleaned = append(cleaned, 1) })
		p.Cleanup(func() { p.Fatalf("second") })
		p.Cleanup(func() { cleaned = append(cleaned, 3) })
		p.parallel(func() { p.must(first) }, func() { p.must(nil) })
		t.Error("it goes on")
	})
	if !errors.Is(err, first) || !strings.Contains(err.Error(), "second") || !slices.Equal(cleaned, []int{3, 1}) {
		t.Errorf("error %v, cleaned %d; want the first and the second, 3 and 1", err, cleaned)
	}
}

// A command that is interrupted leaves no process behind.
func TestCommandEndsWithItsContext(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() { done <- runCommand(ctx, "sh", "-c", "sleep 600 & echo $! > "+file+"; wait") }()
	var pid int
	testenv.Becomes(t, "there is a process id", true, func() bool {
		text, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid > 0
	})
	cancel()
	if err := <-done; err == nil {
		t.Error("no error from an interrupted command")
	}
	testenv.Becomes(t, "the command's child is there", false, func() bool {
		state, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		return err == nil && !strings.Contains(string(state), ") Z ") && syscall.Kill(pid, 0) == nil
	})
}
