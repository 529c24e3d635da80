package process

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/rpc/door"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/tracing"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/postgres"
)

// Options are the options of every daemon.
type Options struct {
	Command     string // in logs and names of connections
	Name        string // in metrics and the list of daemons; "": Command
	Version     string
	MetricsAddr string // address of metrics and probes; "" for none

	Config    *config.Config
	Log       *slog.Logger
	Level     *slog.LevelVar // of Log
	Metrics   *prometheus.Registry
	OpenStore func(ctx context.Context) (*db.Store, error)
}

// Process is a process of this program that works on a database.
type Process struct {
	Options
	Store  *db.Store
	Health *service.Health // nil if it isn't reported
	Tracer *tracing.Tracer // nil if traces are off

	// Workers, if set by a daemon, returns the workers whose events it reads.
	Workers func() map[string]db.Worker
	// Restriction, if not nil, is the task types to which a runner is restricted.
	Restriction *model.Restriction
	// Open, if set by a daemon, returns the address that needs no credentials, or "".
	Open func() string

	patient bool // it waits for the database, which has answered once
}

// Run runs a daemon: it waits for the database, calls build, and runs the components that build returns until ctx
// ends.
//
// Before it calls build, the daemon begins to report health, metrics and traces. service.Group stops it; then it
// sends its last spans and counters, and Run returns nil. A daemon waits for unreachable services. A database that
// needs a migration is an error, and so is an error of build.
func Run(ctx context.Context, o Options, build func(ctx context.Context, p *Process) ([]service.Component, error)) (err error) {
	store, err := o.OpenStore(ctx)
	if err != nil {
		return err
	}
	stopCounters, err := sendCounters(ctx, o)
	if err != nil {
		return err
	}
	defer stopCounters()
	p := &Process{Options: o, Store: store, Health: service.NewHealth(), patient: true}
	ctx = service.WithHealth(ctx, p.Health)
	stop, err := p.report(ctx)
	if err != nil {
		return err
	}
	defer stop()
	p.Tracer, err = tracing.New(ctx, "swh-scheduler "+o.Command, o.Version, o.Log)
	if ctx.Err() != nil {
		return nil // stopped before the start
	}
	if err != nil {
		return err
	}
	defer func() { // sends the last spans
		if err := service.Within(context.WithoutCancel(ctx), 3*time.Second, p.Tracer.Close); err != nil {
			o.Log.Warn("the last spans were not sent", "error", err)
		}
	}()
	defer func() {
		// Close would wait for the connections of components whose stop was forced.
		if !errors.Is(err, service.ErrForced) {
			store.Close()
		}
	}()
	components, err := p.start(ctx, build)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped during the start
		}
		return err
	}
	o.Log.Info("started", "command", o.Command, "version", o.Version, "configuration", o.Config.File)
	if err := (service.Group{Log: o.Log}).Run(ctx, components...); err != nil {
		return err
	}
	o.Log.Info("stopped", "command", o.Command)
	return nil
}

// start waits for the database and returns the daemon's components and those of every daemon.
func (p *Process) start(ctx context.Context, build func(ctx context.Context, p *Process) ([]service.Component, error)) ([]service.Component, error) {
	met := p.Health.Expect("PostgreSQL") // until start returns; /readyz is public, so that it has no host or user
	if err := p.waitForDatabase(ctx); err != nil {
		return nil, err
	}
	components, err := build(ctx, p)
	met()
	return append(components, p.contactWithDatabase(), p.listOfDaemons()), err
}

// Once calls do with a process that doesn't wait for the database and reports only its counters. It describes errors
// of the database (Describe).
func Once(ctx context.Context, o Options, do func(ctx context.Context, p *Process) error) error {
	stopCounters, err := sendCounters(ctx, o)
	if err != nil {
		return err
	}
	defer stopCounters()
	store, err := o.OpenStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	if err = store.CheckVersion(ctx); err == nil {
		err = do(ctx, &Process{Options: o, Store: store})
	}
	return Describe(store, err)
}

// name returns the daemon's name in metrics.
func (p *Process) name() string { return cmp.Or(p.Name, p.Command) }

// waitForDatabase returns when the database answers and the daemon has its rights. It returns an error for an
// unusable database.
func (p *Process) waitForDatabase(ctx context.Context) error {
	opened := func() {}
	return p.repeat(ctx, func(ctx context.Context) error {
		err := p.Store.CheckUsable(ctx, p.Command)
		opened()
		opened = func() {}
		if closed, ok := errors.AsType[*door.ClosedError](err); ok {
			opened, err = p.Health.Expect(closed.Advice()), closed
		}
		return err
	}, func(err error) bool {
		return errors.Is(err, migrate.ErrNotMigrated) || errors.Is(err, migrate.ErrUnsupported)
	})
}

// RetryAtStart calls ask, which queries the database. While a daemon starts, it repeats ask until the database answers,
// and takes writes.
func (p *Process) RetryAtStart(ctx context.Context, ask func(ctx context.Context) error) error {
	if !p.patient {
		return ask(ctx)
	}
	return p.repeat(ctx, ask, func(err error) bool {
		return !postgres.IsUnreachable(err) && postgres.SQLState(err) != postgres.ReadOnly
	})
}

// repeat repeats ask until it succeeds, its error is final, or ctx ends.
func (p *Process) repeat(ctx context.Context, ask func(ctx context.Context) error, final func(error) bool) error {
	asked := service.NewService(p.Log, p.Store.Name())
	var backoff service.Backoff
	for {
		err := ask(ctx)
		switch {
		case err == nil:
			asked.OK()
			return nil
		case final(err):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if _, reached := errors.AsType[*migrate.RightsError](err); reached {
			asked.Refused(err)
		} else {
			asked.Failed(pytext.OneLine(err))
		}
		if err := backoff.Wait(ctx); err != nil {
			return err
		}
	}
}
