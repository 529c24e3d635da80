package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"swh-scheduler/internal/testenv/throwaway"
)

// options are the demo's settings.
type options struct {
	Repositories int
	Archives     int
	Calm         bool   // without faults
	Scheduler    string // path of the scheduler's binary
	Timeout      time.Duration
	Keeper       *keeper // nil unless everything is to be left running at the end
	Log          *slog.Logger
}

var (
	errTimeout = errors.New("not done in time")
	// errReported is a failure that was printed before.
	errReported = errors.New("failed")
)

func main() {
	var o options
	var keep, stop, verbose bool
	repositories, archives := 60, 12
	if truth("SHORT") {
		repositories, archives = minRepositories, 4
	}
	flag.IntVar(&o.Repositories, "repos", repositories, fmt.Sprintf("git repositories to make; SHORT=1 makes %d", minRepositories))
	flag.IntVar(&o.Archives, "packages", archives, "packages with releases to make")
	flag.BoolVar(&o.Calm, "calm", truth("CALM"), "let no faults fall; also CALM=1")
	flag.StringVar(&o.Scheduler, "scheduler", "bin/swh-scheduler", "the scheduler's `binary`")
	flag.DurationVar(&o.Timeout, "timeout", 20*time.Minute, "give up after this long")
	flag.BoolVar(&keep, "keep", truth("KEEP"), "leave everything running at the end; also KEEP=1")
	flag.BoolVar(&stop, "stop", false, "stop what -keep left running")
	flag.BoolVar(&verbose, "v", false, "also say how the services are started")
	flag.Parse()
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if flag.NArg() > 0 || o.Repositories < minRepositories {
		fmt.Fprintf(os.Stderr, "demo: no arguments are expected, and at least %d repositories: one of each kind in the small forge\n", minRepositories)
		os.Exit(2)
	}
	if err := execute(o, keep, stop); err != nil {
		if !errors.Is(err, errReported) {
			fmt.Fprintln(os.Stderr, "demo:", err)
		}
		os.Exit(1)
	}
}

func truth(name string) bool {
	value, err := strconv.ParseBool(os.Getenv(name))
	return err == nil && value
}

// execute executes the command line.
func execute(o options, keep, stop bool) (err error) {
	ctx, cancel := signalContext()
	defer cancel()
	switch {
	case stop:
		if err = stopKept(); err == nil {
			fmt.Println("stopped")
		}
		return err
	case keep && os.Getenv(keeperVar) == "":
		return runInBackground(ctx)
	case keep:
		// Files in memory may be removed when the user logs out.
		if err = os.Setenv(throwaway.DurableVar, "1"); err != nil {
			return err
		}
		if o.Keeper, err = newKeeper(ctx); err != nil {
			return err
		}
		defer runtime.KeepAlive(o.Keeper) // garbage collection would release its lock
		ctx = o.Keeper.until
	}
	return run(ctx, o)
}

// signalContext returns a context that ends at the first SIGINT, SIGTERM or, unless started with nohup, SIGHUP. Later
// signals are ignored, as the time to stop is bounded.
func signalContext() (context.Context, context.CancelFunc) {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), signals...)
}

// run runs the demo in a new directory, which it removes after a success.
func run(parent context.Context, o options) (err error) {
	if _, err := os.Stat(o.Scheduler); err != nil {
		return fmt.Errorf("no scheduler to demonstrate: %w; `make build` makes it", err)
	}
	if o.Scheduler, err = filepath.Abs(o.Scheduler); err != nil {
		return err
	}
	state, err := stateDir()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(state, "run-")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(parent, o.Timeout)
	defer cancel()
	err = runProgram(ctx, func(p *program) { playIn(p, dir, o) })
	switch {
	case err == nil:
		return os.RemoveAll(dir)
	case parent.Err() != nil: // the cause of other errors
		err = errors.New("interrupted")
	case ctx.Err() != nil && !errors.Is(err, errTimeout):
		err = fmt.Errorf("%w: %w", errTimeout, err)
	}
	return fmt.Errorf("%w\nThe logs are in %s", err, dir)
}

// stateDir returns the directory for the files of runs. It is in the cache directory, like all files that the
// project's commands leave behind.
func stateDir() (string, error) {
	cache, err := throwaway.CacheDir()
	dir := filepath.Join(cache, "demo")
	return dir, cmp.Or(err, os.MkdirAll(dir, 0o755))
}
