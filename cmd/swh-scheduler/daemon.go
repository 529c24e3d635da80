package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"swh-scheduler/celery"
	"swh-scheduler/internal/daemon"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// runDaemon opens the database, waits until it is there and fit, and runs what
// build makes until a signal stops it. A daemon waits for services that are
// away (its machine may start before theirs), but not for a database that
// somebody has to migrate first.
func (a *app) runDaemon(cmd *cobra.Command, build func(ctx context.Context, store *sql.Store) ([]daemon.Component, error)) (err error) {
	ctx := cmd.Context()
	store, err := a.openStore(ctx, cmd)
	if err != nil {
		return err
	}
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
	components, err := build(ctx, store)
	if err != nil {
		return err
	}
	if a.options.metricsAddr != "" {
		server := daemon.MetricsServer{Addr: a.options.metricsAddr, Gatherer: a.metrics, Log: a.log}
		components = append(components, daemon.Component{Name: "metrics server", Run: server.Run})
	}
	a.log.Info("started", "command", cmd.Name(), "version", version())
	if err := (daemon.Group{Log: a.log}).Run(ctx, components...); err != nil {
		return err
	}
	a.log.Info("stopped", "command", cmd.Name())
	return nil
}

// waitForDatabase returns when the database answers, with an error if it is not
// one that this program can work with or if ctx ends first.
func (a *app) waitForDatabase(ctx context.Context, store *sql.Store) error {
	service := daemon.NewService(a.log, serverName(store))
	var backoff daemon.Backoff
	for {
		err := store.CheckVersion(ctx)
		switch {
		case err == nil:
			service.OK()
			return nil
		case errors.Is(err, sql.ErrNotMigrated), errors.Is(err, sql.ErrUnsupported):
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
	d.slots = dispatch.NewSlots(store, d.inspector, d.deliverer.Wake)
	return d, nil
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
