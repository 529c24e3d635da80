// Command testservices runs private PostgreSQL, RabbitMQ and Kafka servers for
// tests (see package services), in one of two ways:
//
//	testservices COMMAND [ARGUMENT...]
//
// runs the command with the SWH_TEST_… variables that say where the servers
// are, stops them after it, and exits as it did.
//
//	testservices -serve
//
// prints those variables, one a line and then an empty line, and keeps the
// servers until its standard input ends.
//
// SWH_TEST_SERVICES=docker or =local chooses how to run them. Services that the
// environment names already are used as they are.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"swh-scheduler/internal/services"
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
	// Ctrl-C reaches the command by itself; what it does about it decides when
	// the servers are stopped.
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	s, err := services.Start(interrupted, services.Options{
		Provider: services.Provider(os.Getenv("SWH_TEST_SERVICES")),
		Given:    services.FromEnvironment(),
		Log:      log,
	})
	if err != nil {
		return 1, err
	}
	defer s.Stop()
	if args[0] == "-serve" {
		return serve(interrupted, s)
	}
	return execute(interrupted, s, args)
}

func serve(interrupted context.Context, s *services.Services) (int, error) {
	var lines bytes.Buffer
	for _, variable := range s.Environ() {
		fmt.Fprintln(&lines, variable)
	}
	fmt.Fprintln(&lines)
	if _, err := os.Stdout.Write(lines.Bytes()); err != nil {
		return 1, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	select {
	case <-ended:
	case <-interrupted.Done():
	}
	return 0, nil
}

func execute(interrupted context.Context, s *services.Services, args []string) (int, error) {
	cmd := exec.CommandContext(interrupted, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), s.Environ()...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
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
