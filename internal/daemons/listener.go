package daemons

import (
	"context"
	"errors"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/process"
	"swh-scheduler/internal/send"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/settle"
	"swh-scheduler/listener"
)

// Listener records the progress of tasks from Celery's events.
type Listener struct{ process.Options }

// Run runs it until ctx ends.
func (l *Listener) Run(ctx context.Context) error {
	broker, err := l.Config.Broker()
	if err != nil {
		return err
	}
	return process.Run(ctx, l.Options, func(_ context.Context, p *process.Process) ([]service.Component, error) {
		options := listener.ConsumerOptions(p.Log)
		rabbitmq := service.NewService(p.Log, "RabbitMQ")
		p.Health.Watch(rabbitmq)
		met := p.Health.Expect("RabbitMQ")
		options.OnReading, options.OnLost = func() { met(); rabbitmq.OK() }, rabbitmq.Failed
		consumer := celery.NewConsumer(broker, options)
		n := listener.New(listener.Options{
			Source: consumer, Store: settle.Store{Store: p.Store, Metrics: settle.NewMetrics(p.Metrics), Hosters: p.Config.Hosters},
			Log: p.Log, Registerer: p.Metrics, Tracer: p.Tracer,
		})
		p.Workers = n.Workers
		progress := listener.Progress{ProgressOptions: listener.ProgressOptions{Consumer: consumer, Store: p.Store, Log: p.Log}}
		inspector := send.NewInspector(sendOptions(p), broker, options.ConnectionOptions)
		gauges := dispatch.QueueGauges{
			Observer: inspector, Log: p.Log, Unacknowledged: true,
			Queues: func(context.Context) ([]string, error) { return []string{options.Queue}, nil },
		}
		gauges.Register(p.Metrics, nil)
		return []service.Component{
			{Name: "listener", Run: n.Run},
			{Name: "gauges of the queue", Run: func(ctx context.Context) error { return errors.Join(gauges.Run(ctx), inspector.Close()) }},
			{Name: "progress", Run: progress.Run},
			keeper(p),
		}, nil
	})
}
