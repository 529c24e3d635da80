package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"swh-scheduler/celery"
	"swh-scheduler/internal/daemon"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/monitor"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/internal/tracing"
	"swh-scheduler/sql"
)

// runDaemon opens the database, waits until it is there and fit, and runs what
// build makes until a signal stops it. A daemon waits for services that are
// away (its machine may start before theirs), but not for a database that
// somebody has to migrate first.
func (a *app) runDaemon(cmd *cobra.Command, build func(ctx context.Context, store *sql.Store) ([]daemon.Component, error)) (err error) {
	health := daemon.NewHealth()
	ctx := daemon.WithHealth(cmd.Context(), health)
	store, err := a.openStore(ctx, cmd)
	if err != nil {
		return err
	}
	stop, err := a.tell(ctx, health)
	if err != nil {
		return err
	}
	defer stop()
	if a.tracer, err = tracing.New(ctx, "swh-scheduler "+cmd.Name(), version(), a.log); err != nil {
		return err
	}
	defer a.closeTracer(ctx)
	defer func() {
		// What was stopped by force may still hold a connection, for which
		// Close would wait; the end of the process closes it.
		if !errors.Is(err, daemon.ErrForced) {
			store.Close()
		}
	}()
	if err := a.waitForDatabase(ctx, store); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before there was anything to stop
		}
		return err
	}
	a.starting = true
	components, err := build(ctx, store)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped while it asked the database what to build
		}
		return err
	}
	a.log.Info("started", "command", cmd.Name(), "version", version())
	if err := (daemon.Group{Log: a.log}).Run(ctx, components...); err != nil {
		return err
	}
	a.log.Info("stopped", "command", cmd.Name())
	return nil
}

// closeTracer sends the last spans; a collector that is away is not waited for.
func (a *app) closeTracer(ctx context.Context) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if err := a.tracer.Close(last); err != nil {
		a.log.Warn("the last spans were not sent", "error", err)
	}
}

// tell has those who watch over a daemon told how it is, from before its services
// are there until stop is called: Prometheus, probes and systemd. Signals change
// how much it logs.
func (a *app) tell(ctx context.Context, health *daemon.Health) (stop func(), err error) {
	telling, end := context.WithCancel(ctx)
	var told sync.WaitGroup
	told.Go(func() { daemon.Systemd(telling, health, a.log) })
	told.Go(func() { a.followLevelSignals(telling) })
	endTelling := func() {
		end()
		told.Wait()
	}
	address := a.options.metricsAddr
	if address == "" {
		address = a.config.MetricsAddr
	}
	if address == "" {
		return endTelling, nil
	}
	a.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	stopServer, err := daemon.MetricsServer{Addr: address, Gatherer: a.metrics, Health: health, Log: a.log}.Start(ctx)
	if err != nil {
		endTelling()
		return nil, err
	}
	return func() {
		endTelling()
		stopServer()
	}, nil
}

// buildInfo is a metric that is always 1, for its labels.
func buildInfo() prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "swh_scheduler_build_info", Help: "1, with the version of this program and of Go.",
		ConstLabels: prometheus.Labels{"version": version(), "goversion": runtime.Version()},
	})
	g.Set(1)
	return g
}

// followLevelSignals has SIGUSR1 log everything, and SIGUSR2 what was configured.
func (a *app) followLevelSignals(ctx context.Context) {
	configured := a.level.Level()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	for {
		select {
		case s := <-signals:
			level := configured
			if s == syscall.SIGUSR1 {
				level = slog.LevelDebug
			}
			a.level.Set(level)
			a.log.Log(ctx, max(level, slog.LevelInfo), "log level changed", "level", level, "signal", s.String())
		case <-ctx.Done():
			return
		}
	}
}

// waitForDatabase returns when the database answers, with an error if it is not
// one that this program can work with or if ctx ends first.
func (a *app) waitForDatabase(ctx context.Context, store *sql.Store) error {
	met := daemon.HealthOf(ctx).Expect(serverName(store))
	err := a.askDatabase(ctx, store, func(ctx context.Context) (final bool, err error) {
		err = store.CheckVersion(ctx)
		return errors.Is(err, sql.ErrNotMigrated) || errors.Is(err, sql.ErrUnsupported), err
	})
	if err == nil {
		met()
	}
	return err
}

// patiently asks something of the database. A daemon that is starting asks again until
// it answers, as it may go away at any time.
func (a *app) patiently(ctx context.Context, store *sql.Store, ask func(ctx context.Context) error) error {
	if !a.starting {
		return ask(ctx)
	}
	return a.askDatabase(ctx, store, func(ctx context.Context) (final bool, err error) {
		err = ask(ctx)
		return !sql.IsAway(err), err
	})
}

// askDatabase asks until the database answers, the answer is a final error, or ctx ends.
func (a *app) askDatabase(ctx context.Context, store *sql.Store, ask func(ctx context.Context) (final bool, err error)) error {
	service := daemon.NewService(a.log, serverName(store))
	var backoff daemon.Backoff
	for {
		final, err := ask(ctx)
		switch {
		case err == nil:
			service.OK()
			return nil
		case final:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		service.Failed(oneLine{err})
		if err := backoff.Wait(ctx); err != nil {
			return err
		}
	}
}

// dispatcher is what a daemon needs that sends tasks: slots to claim within,
// and a deliverer that empties the outbox.
type dispatcher struct {
	slots     *dispatch.Slots
	deliverer *dispatch.Deliverer
	publisher *celery.Publisher
	inspector *celery.QueueInspector
	monitor   *monitor.Monitor
}

func (a *app) newDispatcher(cmd *cobra.Command, store *sql.Store) (*dispatcher, error) {
	broker, err := a.broker()
	if err != nil {
		return nil, err
	}
	connection := celery.ConnectionOptions{Name: "swh-scheduler " + cmd.Name()}
	d := &dispatcher{
		publisher: celery.NewPublisher(broker, celery.PublisherOptions{ConnectionOptions: connection, Logger: a.log}),
		inspector: celery.NewQueueInspector(broker, string(a.config.RabbitMQ.ManagementURL),
			celery.InspectorOptions{ConnectionOptions: connection, Logger: a.log}),
	}
	d.deliverer = dispatch.NewDeliverer(store, d.publisher, a.log, a.metrics)
	d.deliverer.Tracer = a.tracer
	d.slots = dispatch.NewSlots(store, d.inspector, d.deliverer.Wake)
	d.slots.Register(a.metrics)
	d.monitor = monitor.New(store, a.log, a.metrics)
	return d, nil
}

// watching are the components beside those that send: what measures the database,
// and the first contact with the broker, without which the daemon is not ready.
func (d *dispatcher) watching() []daemon.Component {
	return []daemon.Component{
		{Name: "monitor", Run: d.monitor.Run},
		{Name: "first contact with the broker", Run: d.firstContact},
	}
}

func (d *dispatcher) firstContact(ctx context.Context) error {
	met := daemon.HealthOf(ctx).Expect("RabbitMQ")
	var backoff daemon.Backoff
	for {
		if _, err := d.inspector.Length(ctx, "celery", 0); err == nil {
			met()
			<-ctx.Done()
			return nil
		}
		if backoff.Wait(ctx) != nil {
			return nil
		}
	}
}

// deliver is the deliverer as a component: the last to stop, with its
// connections.
func (d *dispatcher) deliver() daemon.Component {
	return daemon.Component{Name: "deliverer", Run: func(ctx context.Context) error {
		return errors.Join(d.deliverer.Run(ctx), d.close())
	}}
}

func (d *dispatcher) close() error { return errors.Join(d.publisher.Close(), d.inspector.Close()) }

// taskTypes finds task types by name.
type taskTypes interface {
	TaskType(ctx context.Context, name string) (scheduler.TaskType, error)
}

// checkTaskTypes refuses names of task types that the database does not have.
func checkTaskTypes(ctx context.Context, cmd *cobra.Command, from taskTypes, format string, names []string) error {
	for _, name := range names {
		_, err := from.TaskType(ctx, name)
		switch {
		case errors.Is(err, scheduler.ErrUnknownTaskType):
			return usagef(cmd, format, name)
		case err != nil:
			return fmt.Errorf("look up task type %s: %w", name, err)
		}
	}
	return nil
}
