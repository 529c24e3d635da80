package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/term"
)

// run makes a directory for a run of the demo, and removes it if all went well.
func run(ctx context.Context, o options) error {
	var err error
	if o.Scheduler, err = findScheduler(o.Scheduler); err != nil {
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
	if err := runIn(ctx, dir, o); err != nil {
		return fmt.Errorf("%w\nThe logs are in %s", err, dir)
	}
	return os.RemoveAll(dir)
}

// runIn starts what the job needs, runs it, and stops all again.
func runIn(parent context.Context, dir string, o options) (err error) {
	ctx, cancel := context.WithTimeoutCause(parent, o.Timeout, errTimeout)
	defer cancel()
	// Why the context ended says more than what failed because of it.
	defer func() {
		switch cause := context.Cause(ctx); {
		case err == nil || cause == nil || errors.Is(err, cause):
		case errors.Is(cause, errInterrupted):
			err = cause
		default:
			err = fmt.Errorf("%w: %w", cause, err)
		}
	}()
	begin := time.Now()
	show := newProgress(os.Stdout)
	closeShow := sync.OnceFunc(show.close)
	defer closeShow()

	show.note("starting PostgreSQL, RabbitMQ and Kafka, those that the environment does not name")
	r, err := openResources(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	s := &story{
		options: o, dir: dir, resources: r, show: show, broker: newBroker(r), evidence: newEvidence(),
		// The lister takes the time of this machine for UTC.
		processes: newProcesses(dir, []string{"TZ=UTC"}),
	}
	defer s.processes.stop(stopBound)
	err = s.play(ctx)
	closeShow()
	if err != nil {
		return err
	}
	if o.Keeper == nil {
		s.evidence.Stopped = stopDaemons(s.processes)
	}
	checks := verdict(s.evidence)
	color := term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == ""
	printSummary(os.Stdout, s.evidence, checks, time.Since(begin), color)
	if n := len(failed(checks)); n > 0 {
		return fmt.Errorf("%d of %d checks failed", n, len(checks))
	}
	if o.Keeper != nil {
		if err := s.lookAround(os.Stdout); err != nil {
			return err
		}
		return o.Keeper.keep(parent, s.processes, filepath.Join(dir, "demo.log"))
	}
	return nil
}

// play runs the main job and gathers the evidence.
func (s *story) play(ctx context.Context) (err error) {
	if s.db, err = pgxpool.New(ctx, s.resources.scheduler.dsn); err != nil {
		return err
	}
	defer s.db.Close()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if s.Keeper == nil {
		defer s.world.close()
	}
	if s.storage, err = pgx.Connect(ctx, s.resources.storage.dsn); err != nil {
		return err
	}
	defer func() { _ = s.storage.Close(context.WithoutCancel(ctx)) }()
	watching, stop := context.WithCancel(ctx)
	var watched sync.WaitGroup
	watched.Go(func() { s.broker.run(watching) })
	defer watched.Wait()
	defer stop()
	if err := s.list(ctx); err != nil {
		return err
	}
	if err := s.watch(ctx); err != nil {
		return err
	}
	return s.collect(ctx)
}

// stopDaemons stops all processes and returns how our daemons ended.
func stopDaemons(p *processes) []stopped {
	ended := []stopped{}
	for _, child := range p.stop(stopBound) {
		if slices.ContainsFunc(daemons, func(d daemon) bool { return d.name == child.name }) {
			ended = append(ended, stopped{child.name, child.stopped, child.err})
		}
	}
	return ended
}

// findScheduler returns the absolute path of the scheduler's binary.
func findScheduler(path string) (string, error) {
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no scheduler to demonstrate: %w; `make build` makes it", err)
	}
	return filepath.Abs(path)
}
