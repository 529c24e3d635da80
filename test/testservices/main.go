// Command testservices runs private PostgreSQL, RabbitMQ and Kafka servers for
// tests (see package throwaway), in one of two ways:
//
//	testservices COMMAND [ARGUMENT...]
//
// runs the command with the SWH_TEST_… variables of the servers, stops them after it, and exits with its code. It removes
// the temporary files of the command, such as those of killed workers.
//
//	testservices -serve
//
// prints those variables, one a line and then an empty line, and keeps the servers until its standard input ends.
//
// SWH_TEST_SERVICES=docker or =local chooses how to run them. It uses services that the environment names, and
// doesn't start these.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"swh-scheduler/internal/testenv/throwaway"
	"swh-scheduler/test/docker"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	code, err := run(log, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testservices:", err)
	}
	os.Exit(code)
}

// run returns the exit code.
func run(log *slog.Logger, args []string) (int, error) {
	if len(args) == 0 {
		return 2, errors.New("usage: testservices -serve | testservices COMMAND [ARGUMENT...]")
	}
	// Ctrl-C also reaches the command itself; the servers are stopped after its end.
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx := interrupted
	if args[0] == "-serve" {
		// The reader of our output may have ended, which must not end us before the servers are stopped.
		signal.Ignore(syscall.SIGPIPE)
		ctx = untilEnd(interrupted, os.Stdin)
	}
	s, err := throwaway.Start(ctx, throwaway.Options{
		Provider: throwaway.Provider(os.Getenv("SWH_TEST_SERVICES")),
		Given:    throwaway.FromEnvironment(),
		Docker:   docker.Connect,
		Log:      log,
	})
	if err != nil {
		return 1, err
	}
	defer s.Stop()
	if args[0] == "-serve" {
		return serve(ctx, s)
	}
	return execute(interrupted, s, args)
}

// untilEnd returns a context that ends with the input too.
func untilEnd(ctx context.Context, input io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, input)
	}()
	return ctx
}

// serve prints the variables and waits until ctx ends.
func serve(ctx context.Context, s *throwaway.Services) (int, error) {
	if _, err := fmt.Println(strings.Join(s.Environ(), "\n") + "\n"); err != nil {
		return 1, err
	}
	<-ctx.Done()
	return 0, nil
}

func execute(interrupted context.Context, s *throwaway.Services, args []string) (int, error) {
	temporary, err := os.MkdirTemp("", "swh-scheduler-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(temporary)
	if err := os.Chmod(temporary, 0o711); err != nil { // servers with a user of their own have files in it
		return 1, err
	}
	cmd := exec.CommandContext(interrupted, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(append(os.Environ(), s.Environ()...), "TMPDIR="+temporary)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var failed *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &failed) && failed.Exited():
		return failed.ExitCode(), nil
	default:
		return 1, err
	}
}
