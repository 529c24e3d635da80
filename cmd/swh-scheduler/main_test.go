package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"swh-scheduler/internal/cli"
	"swh-scheduler/internal/testenv"
)

// binary is the program, built once for all tests, with the race detector if the tests have it. Tests run it for
// daemons, and for commands that need an environment, a signal or a terminal.
var binary string

// settings match the variables of the environment that the program reads.
var settings = regexp.MustCompile(`^(SWH_(CONFIG|SCHEDULER|SENTRY|MAIN)_|PG|CELERY_|KAFKA_|STATSD_|OTEL_)`)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "swh-scheduler-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "swh-scheduler")
	if err := testenv.BuildProgram(binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); settings.MatchString(name) && name != "SWH_SCHEDULER_CACHE" {
			_ = os.Unsetenv(name) // as environment does, for commands in this process
		}
	}
	time.Local = time.UTC
	// Removes the binary after the tests; goleak exits the process.
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// result is the outcome of a command line.
type result struct {
	stdout, stderr string
	code           int
}

// environment returns a clean environment with additional variables: the machine's settings must not affect tests.
func environment(vars ...string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LC_ALL=C.UTF-8", "TZ=UTC", testenv.ProgramEnv, testenv.EndsConnections()}
	return append(env, vars...)
}

func command(t *testing.T, program string, env []string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || !exit.Exited()) {
		t.Fatalf("%s %q: %v\n%s", program, args, err, stderr.String())
	}
	checkCrash(t, args, stderr.String())
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// checkCrash fails the test if standard error contains a data race or a panic.
func checkCrash(t testing.TB, args []string, stderr string) {
	t.Helper()
	if crash := testenv.Crash(stderr); crash != "" {
		t.Errorf("%q: %s", args, crash)
	}
}

// ours runs a command line of our program in this process: a separate one takes longer to start than most commands to
// run.
func ours(t *testing.T, args ...string) result {
	t.Helper()
	args = onRoad(t, args)
	var stdout, stderr testenv.Buffer
	code := cli.Run(t.Context(), "", args, &stdout, &stderr)
	return result{stdout.String(), stderr.String(), code}
}

// oursWith is ours with additional variables of the environment.
func oursWith(t *testing.T, more []string, args ...string) result {
	t.Helper()
	if len(more) == 0 {
		return ours(t, args...)
	}
	return command(t, binary, environment(more...), args...)
}

// configFile writes a configuration and returns its path.
func configFile(t *testing.T, text string) string {
	t.Helper()
	return testenv.File(t, "scheduler.yml", text)
}

// services returns a configuration with real services for one test.
func services(t *testing.T) string {
	t.Helper()
	mq := testenv.RabbitMQ(t)
	return fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n",
		testenv.Database(t), mq.URL, mq.ManagementURL)
}

// process is a running daemon.
type process struct {
	cmd    *exec.Cmd
	name   string       // application name of its database connections, if they have one of their own
	stdout bytes.Buffer // to be read after the process has ended
	stderr testenv.Buffer
	done   chan error
}

func (p *process) log() string { return p.stderr.String() }

// start starts a daemon, and kills it at the end of the test if it still runs.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startWith(t, nil, args...)
}

// startWith starts a daemon with additional variables of the environment.
func startWith(t *testing.T, more []string, args ...string) *process {
	t.Helper()
	if !slices.Contains(more, ownFile) {
		args = onRoad(t, args)
	}
	p := &process{cmd: exec.Command(binary, args...), done: make(chan error, 1)}
	p.cmd.Env = append(environment(), more...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		p.done <- p.cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-ended
		checkCrash(t, args, p.log())
		if t.Failed() {
			t.Logf("log of %q:\n%s", args, p.log())
		}
	})
	return p
}

// logs waits until the daemon's log contains text.
func (p *process) logs(t *testing.T, text string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(p.log(), text) {
		if time.Now().After(deadline) {
			t.Fatalf("nothing in the log about %q:\n%s", text, p.log())
		}
		select {
		case <-tick.C:
		case err := <-p.done:
			p.done <- err
			if !strings.Contains(p.log(), text) {
				t.Fatalf("ended (%v) without %q in the log:\n%s", err, text, p.log())
			}
		}
	}
}

// wait waits for the end of a killed process.
func (p *process) wait(t *testing.T) {
	t.Helper()
	select {
	case err := <-p.done:
		p.done <- err
	case <-time.After(patience):
		t.Fatalf("%q: still there %s after it was killed", p.cmd.Args, patience)
	}
}

// stop sends a signal and waits for exit code 0. A stop by force, after the grace period, has another exit code.
func (p *process) stop(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.done:
		p.done <- err
		if err != nil {
			t.Errorf("after %s: %v, want exit code 0", signal, err)
		}
	case <-time.After(patience):
		t.Errorf("still there %s after %s", patience, signal)
	}
}
