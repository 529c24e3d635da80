// Command suite runs `go test` for CI, and fails if any test fails:
//
//	suite FLAG... PACKAGE...
//
// with flags of `go test` as -name=value. It prints the output of what fails, and
// go test's closing line of each package.
//
// Nothing is repeated, except a test that .ci/quarantine names (quarantine.go).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	entries, err := quarantine(".ci/quarantine", time.Now())
	if err == nil {
		err = suite{os.Stdout, goTest}.run(ctx, entries, os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(1)
	}
}

// goTest runs `go test -json`, and hands on its events. When ctx ends, it
// interrupts go test and its tests. The error is also non-nil when a test fails.
func goTest(ctx context.Context, args []string, each func(event)) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = decode(output, each)
	return errors.Join(err, cmd.Wait())
}

func decode(events io.Reader, each func(event)) error {
	for d := json.NewDecoder(events); ; {
		var e event
		switch err := d.Decode(&e); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("read the events of go test: %w", err)
		}
		each(e)
	}
}
