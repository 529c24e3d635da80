package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/testenv/throwaway"
)

// The command gets the addresses of the services, and its exit code is passed on: a failed test run must not look
// like a success.
func TestExecutePassesServicesAndExitCode(t *testing.T) {
	t.Parallel()
	s := &throwaway.Services{Endpoints: throwaway.Endpoints{Kafka: "broker:9092"}}
	for script, want := range map[string]int{
		`test "$SWH_TEST_KAFKA_BROKERS" = broker:9092`: 0,
		`exit 7`: 7,
	} {
		if code, err := execute(t.Context(), s, []string{"sh", "-c", script}); code != want || err != nil {
			t.Errorf("%s: exit code %d, error %v; want %d", script, code, err, want)
		}
	}
	if code, err := execute(t.Context(), s, []string{"/no/such/program"}); code == 0 || err == nil {
		t.Errorf("a program that is not there: exit code %d, error %v", code, err)
	}
}

// What the command leaves in its directory for temporary files is removed.
func TestExecuteRemovesTemporaryFiles(t *testing.T) {
	t.Parallel()
	list := filepath.Join(t.TempDir(), "left")
	code, err := execute(t.Context(), &throwaway.Services{}, []string{"sh", "-c", `mktemp >"$0"`, list})
	if code != 0 || err != nil {
		t.Fatalf("exit code %d, error %v", code, err)
	}
	left, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(strings.TrimSpace(string(left))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", left, err)
	}
}

// An interrupted command is not a success.
func TestExecuteEndsWhenInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer interrupt()
	if code, _ := execute(ctx, &throwaway.Services{}, []string{"sleep", "1000"}); code == 0 {
		t.Errorf("exit code 0 for an interrupted command")
	}
}

// In -serve mode the servers run until the input ends, with the process that holds the pipe.
func TestUntilEndEndsWithTheInput(t *testing.T) {
	t.Parallel()
	read, write := io.Pipe()
	ctx := untilEnd(t.Context(), read)
	if ctx.Err() != nil {
		t.Fatal("ended before the input did")
	}
	_ = write.Close()
	<-ctx.Done()
}
