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
	"golang.org/x/term"

	"swh-scheduler/internal/services"
	"swh-scheduler/test/docker"
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
	servers, err := services.Start(ctx, services.Options{Docker: docker.Connect, Given: services.FromEnvironment(), Log: o.Log})
	if err != nil {
		return err
	}
	defer servers.Stop()
	r, err := openResources(ctx, servers.Endpoints)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()

	workerPath, err := writeWorker(dir)
	if err != nil {
		return err
	}
	config := filepath.Join(dir, "config.yml")
	if err := writeConfiguration(config, r); err != nil {
		return err
	}
	s := &scenario{
		options: o, dir: dir, resources: r,
		show: show, sampler: &sampler{resources: r}, ledger: newLedger(),
		committed: map[string]bool{},
	}
	s.processes = newProcesses(dir, []string{
		"SWH_CONFIG_FILENAME=" + config,
		"PYTHONPATH=" + workerPath,
		"DEMO_ARCHIVE=" + s.archive(),
	})
	defer s.processes.stop(stopBound)

	e, err := s.play(ctx)
	closeShow()
	if err != nil {
		return err
	}
	if o.Keeper == nil {
		e.Stopped = stopDaemons(s.processes)
	}
	checks := verdict(e)
	color := term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == ""
	printSummary(os.Stdout, e, checks, time.Since(begin), color)
	if n := len(failed(checks)); n > 0 {
		return fmt.Errorf("%d of %d checks failed", n, len(checks))
	}
	if o.Keeper != nil {
		s.lookAround(os.Stdout, config)
		return o.Keeper.keep(parent, s.processes, filepath.Join(dir, "demo.log"))
	}
	return nil
}

// play runs the main job and gathers the evidence.
func (s *scenario) play(ctx context.Context) (evidence, error) {
	if err := s.prepare(ctx); err != nil {
		return evidence{}, err
	}
	if err := s.start(); err != nil {
		return evidence{}, err
	}
	var err error
	if s.db, err = pgx.Connect(ctx, s.resources.dsn); err != nil {
		return evidence{}, err
	}
	defer func() { _ = s.db.Close(context.WithoutCancel(ctx)) }()
	if err := s.list(ctx); err != nil {
		return evidence{}, err
	}
	if err := s.watch(ctx); err != nil {
		return evidence{}, err
	}
	return s.collect(ctx)
}

// stopDaemons stops all processes and returns how our daemons ended.
func stopDaemons(p *processes) []stopped {
	var ended []stopped
	for _, child := range p.stop(stopBound) {
		if slices.Contains(daemons, child.name) {
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
