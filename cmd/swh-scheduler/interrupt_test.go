package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// One signal ends a command that waits for its input: a pipe without a writer that is open for both, standard input, or
// the configuration.
func TestSignalEndsWaitingForInput(t *testing.T) {
	t.Parallel()
	config := configFile(t, "scheduler: {cls: postgresql, db: dbname=none}\n")
	fifo := filepath.Join(t.TempDir(), "fifo.yml")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"config", "hash-password"}, {"-C", config, "task", "graph", "submit", "-"}, {"-C", config, "task", "schedule", "-"},
		{"-C", config, "task", "graph", "submit", fifo}, {"-C", fifo, "task", "list"},
	} {
		read, write, err := os.Pipe() // nothing is written
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(binary, args...)
		var output bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = read, &output, &output
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond) // an earlier signal ends it, too
		_ = cmd.Process.Signal(syscall.SIGTERM)
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		select {
		case <-ended:
			if cmd.ProcessState.Success() {
				t.Errorf("%q ended with %s: %s", args, cmd.ProcessState, &output)
			}
		case <-time.After(time.Minute):
			t.Errorf("%q goes on after SIGTERM", args)
			_ = cmd.Process.Kill()
			<-ended
		}
		_ = read.Close()
		_ = write.Close()
	}
}
