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

// errInterrupted is the cause of a context ended by a signal.
var errInterrupted = errors.New("interrupted")

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

	ctx, cancel := signalContext()
	defer cancel()
	err := execute(ctx, o, keep, stop)
	if err != nil && !errors.Is(err, errReported) {
		fmt.Fprintln(os.Stderr, "demo:", err)
	}
	if err != nil {
		os.Exit(1)
	}
}

// execute does what the command line asks for.
func execute(ctx context.Context, o options, keep, stop bool) error {
	switch {
	case stop:
		if err := stopKept(); err != nil {
			return err
		}
		fmt.Println("stopped")
		return nil
	case keep && os.Getenv(keeperVar) == "":
		return runInBackground(ctx)
	case keep:
		keeper, err := newKeeper()
		if err != nil {
			return err
		}
		o.Keeper = keeper
		defer runtime.KeepAlive(keeper) // its lock: as garbage it would be released
		return run(ctx, o)
	default:
		return run(ctx, o)
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
