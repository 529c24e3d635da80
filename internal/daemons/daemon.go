// Package daemons has the program's daemons, each a struct of options whose Run returns
// when the context ends.
package daemons

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"swh-scheduler/internal/backend"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/rpc/door"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/statsd"
	"swh-scheduler/internal/tracing"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

type Options struct {
	Command     string // its name in logs and connections
	Version     string
	MetricsAddr string // address of metrics and probes; "" for none

	Config    *config.Config
	Log       *slog.Logger
	Level     *slog.LevelVar // of Log
	Metrics   *prometheus.Registry
	OpenStore func(ctx context.Context) (*db.Store, error)

	daemon   string // its name in metrics; Command if it is ""
	health   *service.Health
	workers  func() map[string]db.Worker // that it hears; nil if it hears none
	tracer   *tracing.Tracer             // nil if traces are off
	starting bool                        // the database has answered once
}

// run waits for the database and runs the components that build makes until ctx ends. A
// daemon waits for services that are away, but a database that must be migrated is an error.
func (o *Options) run(ctx context.Context, build func(ctx context.Context, store *db.Store) ([]service.Component, error)) error {
	store, err := o.OpenStore(ctx)
	if err != nil {
		return err
	}
	return o.work(ctx, store, func(ctx context.Context) ([]service.Component, error) {
		met := o.health.Expect("PostgreSQL") // until the start has read all; /readyz is for strangers, too: no host, no user
		if err := o.waitForDatabase(ctx, store); err != nil {
			return nil, err
		}
		o.starting = true
		components, err := build(ctx, store)
		met()
		return append(components, o.contact(store), o.seen(store)), err
	})
}

// work runs the components that build makes until ctx ends, and then closes the store, if
// there is one.
func (o *Options) work(ctx context.Context, store *db.Store, build func(ctx context.Context) ([]service.Component, error)) (err error) {
	stopCounters, err := o.sendCounters(ctx)
	if err != nil {
		return err
	}
	defer stopCounters()
	o.health = service.NewHealth()
	ctx = service.WithHealth(ctx, o.health)
	stop, err := o.startReporting(ctx, store)
	if err != nil {
		return err
	}
	defer stop()
	o.tracer, err = tracing.New(ctx, "swh-scheduler "+o.Command, o.Version, o.Log)
	if ctx.Err() != nil {
		return nil // stopped before there was anything to stop
	}
	if err != nil {
		return err
	}
	defer func() { // sends the last spans
		if err := service.Within(context.WithoutCancel(ctx), 3*time.Second, o.tracer.Close); err != nil {
			o.Log.Warn("the last spans were not sent", "error", err)
		}
	}()
	defer func() {
		// Close would wait for the connections of components that were stopped by force.
		if store != nil && !errors.Is(err, service.ErrForced) {
			store.Close()
		}
	}()
	components, err := build(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it was started
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

// name returns the daemon's name in metrics.
func (o *Options) name() string { return cmp.Or(o.daemon, o.Command) }

// startReporting reports the daemon's health to Prometheus, probes and systemd until stop
// is called. Signals change the log level.
func (o *Options) startReporting(ctx context.Context, store *db.Store) (stop func(), err error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	endReporting := service.Beside(ctx,
		func(ctx context.Context) { service.Systemd(ctx, o.health, o.Log) },
		func(ctx context.Context) { o.followLevelSignals(ctx, signals) })
	if o.MetricsAddr == "" {
		return endReporting, nil
	}
	daemon := o.name()
	o.Metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo(daemon, o.Version), o.health.Collector(daemon))
	if store != nil {
		registerPool(o.Metrics, daemon, store.Pool().Stat)
	}
	stopServer, err := service.MetricsServer{Addr: o.MetricsAddr, Gatherer: o.Metrics, Health: o.health, Log: o.Log, Pprof: o.Config.Metrics.Pprof}.Start(ctx)
	if err != nil {
		endReporting()
		return nil, err
	}
	return func() {
		endReporting()
		stopServer()
	}, nil
}

// sendCounters sends the daemon's counters to StatsD, if that is configured, until stop is
// called, which sends the last ones.
func (o *Options) sendCounters(ctx context.Context) (stop func(), err error) {
	counters, err := statsd.FromEnvironment(o.Metrics, o.Log)
	if err != nil || counters == nil {
		return func() {}, err
	}
	return service.Beside(context.WithoutCancel(ctx), counters.Run), nil
}

func buildInfo(daemon, version string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "swh_scheduler_build_info", Help: "1, with the daemon's name, and the version of this program and of Go.",
		ConstLabels: prometheus.Labels{"daemon": daemon, "version": version, "goversion": runtime.Version()},
	})
	g.Set(1)
	return g
}

// followLevelSignals sets the log level to debug on SIGUSR1, and back on SIGUSR2.
func (o *Options) followLevelSignals(ctx context.Context, signals chan os.Signal) {
	defer signal.Stop(signals)
	configured := o.Level.Level()
	for {
		select {
		case s := <-signals:
			level := configured
			if s == syscall.SIGUSR1 {
				level = slog.LevelDebug
			}
			o.Level.Set(level)
			o.Log.Log(ctx, max(level, slog.LevelInfo), "log level changed", "level", level, "signal", s.String())
		case <-ctx.Done():
			return
		}
	}
}

// waitForDatabase returns when the database answers and the daemon has the rights that it needs;
// an unusable one is an error.
func (o *Options) waitForDatabase(ctx context.Context, store *db.Store) error {
	opened := func() {}
	return o.askPatiently(ctx, store.Name(), func(ctx context.Context) error {
		err := store.CheckUsable(ctx, o.Command)
		opened()
		opened = func() {}
		if closed, ok := errors.AsType[*door.ClosedError](err); ok {
			opened, err = o.health.Expect(closed.Advice()), closed
		}
		return err
	}, func(err error) bool {
		return errors.Is(err, db.ErrNotMigrated) || errors.Is(err, db.ErrUnsupported)
	})
}

// patiently calls ask; a daemon that is starting repeats it while the database is away.
func (o *Options) patiently(ctx context.Context, store *db.Store, ask func(ctx context.Context) error) error {
	if !o.starting {
		return ask(ctx)
	}
	return o.askPatiently(ctx, store.Name(), ask, func(err error) bool { return !postgres.IsAway(err) })
}

// checkTaskTypes returns backend.UnknownTaskType for the first unknown name.
func (o *Options) checkTaskTypes(ctx context.Context, store *db.Store, names []string) error {
	return o.patiently(ctx, store, func(ctx context.Context) error { return backend.CheckTaskTypes(ctx, store, names) })
}

// askPatiently repeats ask, of a server, until it succeeds, its error is final, or ctx ends.
func (o *Options) askPatiently(ctx context.Context, server string, ask func(ctx context.Context) error, final func(error) bool) error {
	asked := service.NewService(o.Log, server)
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
		if _, reached := errors.AsType[*db.RightsError](err); reached {
			asked.Refused(err)
		} else {
			asked.Failed(pytext.OneLine(err))
		}
		if err := backoff.Wait(ctx); err != nil {
			return err
		}
	}
}
