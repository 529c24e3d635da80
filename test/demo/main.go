package main

import (
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
	// The causes of contexts that end early.
	errInterrupted = errors.New("interrupted")
	errTimeout     = errors.New("not done in time")
	// errReported is a failure of which the user has been told.
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
	if err := validate(o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
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

func validate(o options, args []string) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("unexpected argument %q", args[0])
	case o.Repositories < minRepositories:
		return fmt.Errorf("-repos %d: at least %d are needed, one of each kind in the small forge", o.Repositories, minRepositories)
	}
	return nil
}

// execute does what the command line asks for.
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
		if o.Keeper, err = newKeeper(ctx); err != nil {
			return err
		}
		defer runtime.KeepAlive(o.Keeper) // its lock: as garbage it would be released
	}
	return run(ctx, o)
}

// signalContext ends with errInterrupted at the first SIGINT, SIGTERM or, unless
// started with nohup, SIGHUP. What follows is bounded, so a second one changes
// nothing.
func signalContext() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		for range signals {
			cancel(errInterrupted)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// run makes a directory for a run of the demo, and removes it if all went well.
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
	ctx, cancel := context.WithTimeoutCause(parent, o.Timeout, errTimeout)
	defer cancel()
	err = runProgram(ctx, func(p *program) { playIn(p, dir, o) })
	if err == nil {
		return os.RemoveAll(dir)
	}
	// Why the context ended says more than what failed because of it.
	if cause := context.Cause(ctx); errors.Is(cause, errInterrupted) {
		err = cause
	} else if cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return fmt.Errorf("%w\nThe logs are in %s", err, dir)
}

// stateDir is where runs keep their files: in the cache directory, as all that
// the project's commands leave behind.
func stateDir() (string, error) {
	cache := os.Getenv("SWH_SCHEDULER_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil { // no home directory, as in some containers
			user = os.TempDir()
		}
		cache = filepath.Join(user, "swh-scheduler")
	}
	dir := filepath.Join(cache, "demo")
	return dir, os.MkdirAll(dir, 0o755)
}
