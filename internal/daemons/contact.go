package daemons

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/celery"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

const (
	contactPeriod  = 5 * time.Second // between two looks whether a service answers
	contactTimeout = 10 * time.Second
)

// contact returns a component that checks whether the database answers, also while the daemon
// is idle.
func (o *Options) contact(store *db.Store) service.Component {
	return o.asking("PostgreSQL", func(ctx context.Context) error {
		err := service.Within(ctx, contactTimeout, store.Pool().Ping)
		if s := store.Pool().Stat(); errors.Is(err, context.DeadlineExceeded) && s.AcquiredConns() == s.MaxConns() {
			err = nil // the pool is used up, which has a metric of its own
		}
		return err
	})
}

// contact returns a component that checks whether the broker and its management API answer.
// Without the broker the daemon is not ready.
func (d *dispatcher) contact(o *Options) service.Component {
	return o.asking("RabbitMQ", func(ctx context.Context) error {
		_, err := d.inspector.Length(ctx, "celery", 0)
		if celery.IsOfQueue(err) {
			err = nil
		}
		return err
	})
}

// asking returns a component that asks a service every contactPeriod whether it answers.
func (o *Options) asking(name string, ask func(ctx context.Context) error) service.Component {
	s := service.NewService(o.Log, name)
	o.health.Watch(s)
	loop := service.Loop{
		Name: "asking " + name, Log: o.Log, Period: contactPeriod,
		RunOnce: func(ctx context.Context) (service.Result, error) {
			if err := ask(ctx); ctx.Err() == nil {
				s.Tried(err)
			}
			return service.Result{}, nil
		},
	}
	return service.Component{Name: "contact with " + name, Run: loop.Run}
}

// registerPool registers the metrics of a daemon's connections to the database.
func registerPool(reg prometheus.Registerer, daemon string, stat func() *pgxpool.Stat) {
	f := promauto.With(prometheus.WrapRegistererWith(prometheus.Labels{"daemon": daemon}, reg))
	gauge := func(name, help string, value func(*pgxpool.Stat) int32) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Name: "swh_scheduler_database_" + name, Help: help}, func() float64 { return float64(value(stat())) })
	}
	gauge("connections_used", "Connections to the database that are in use.", (*pgxpool.Stat).AcquiredConns)
	gauge("connections_limit", "How many connections to the database the daemon may have.", (*pgxpool.Stat).MaxConns)
	f.NewCounterFunc(prometheus.CounterOpts{
		Name: "swh_scheduler_database_wait_seconds_total", Help: "Total time spent waiting for a connection because all were in use.",
	}, func() float64 { return stat().EmptyAcquireWaitTime().Seconds() })
}
