package main

import (
	"context"

	"github.com/spf13/cobra"

	"swh-scheduler/celery"
	"swh-scheduler/internal/daemon"
	"swh-scheduler/listener"
	"swh-scheduler/sql"
)

func newStartListener(a *app) *cobra.Command {
	return &cobra.Command{
		Use:                   "start-listener [OPTIONS]",
		Short:                 "Starts a swh-scheduler listener service",
		Long:                  "Starts a swh-scheduler listener service: it hears from Celery's events how tasks\nfare and records it in the database.",
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
		RunE: a.configured(func(cmd *cobra.Command, _ []string) error {
			broker, err := a.broker()
			if err != nil {
				return err
			}
			return a.runDaemon(cmd, func(ctx context.Context, store *sql.Store) ([]daemon.Component, error) {
				options := listener.ConsumerOptions(a.log)
				options.Reading = daemon.HealthOf(ctx).Expect("RabbitMQ")
				l := listener.New(listener.Options{
					Source: celery.NewConsumer(broker, options),
					Store:  store, Log: a.log, Registerer: a.metrics, Tracer: a.tracer,
				})
				return []daemon.Component{{Name: "listener", Run: l.Run}}, nil
			})
		}),
	}
}
