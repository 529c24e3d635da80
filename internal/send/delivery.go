package send

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/tracing"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// Options configure a Delivery.
type Options struct {
	Command string // in names of connections
	Config  *config.Config
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Health  *service.Health // may be nil
	Tracer  *tracing.Tracer // nil if traces are off
}

// Delivery has slots for claims, and delivers outgoing messages. It opens its connections at their first use.
type Delivery struct {
	Slots     *dispatch.Slots
	Inspector *celery.QueueInspector

	log       *slog.Logger
	deliverer *dispatch.Deliverer
	publisher *celery.Publisher
}

// NewDelivery returns a Delivery, whose metrics it registers. Deliver or Close must close it.
func NewDelivery(o Options, store *db.Store, broker celery.Broker) *Delivery {
	connection := celery.ConnectionOptions{Name: "swh-scheduler " + o.Command}
	d := &Delivery{
		Inspector: NewInspector(o, broker, connection),
		log:       o.Log,
		publisher: celery.NewPublisher(broker, celery.PublisherOptions{ConnectionOptions: connection, Logger: o.Log, Sending: o.Config.Celery.Sending}),
	}
	d.deliverer = dispatch.NewDeliverer(store, d.publisher, o.Log, o.Metrics)
	d.deliverer.Tracer, d.deliverer.Ageing = o.Tracer, o.Config.PriorityAgeing
	d.Slots = dispatch.NewSlots(store, d.Inspector, d.deliverer.Wake)
	d.Slots.Log = o.Log
	d.Slots.Register(o.Metrics)
	return d
}

// NewInspector returns an inspector of queues. The process's health shows whether the management API is unreachable.
func NewInspector(o Options, broker celery.Broker, connection celery.ConnectionOptions) *celery.QueueInspector {
	management := service.NewService(o.Log, "the management API")
	o.Health.Show(management)
	return celery.NewQueueInspector(broker, string(o.Config.RabbitMQ.ManagementURL), celery.InspectorOptions{
		ConnectionOptions: connection, Logger: o.Log, StatsAge: o.Config.RabbitMQ.StatsAge, Management: management,
	})
}

// Deliveries are kept for longer than the largest age of the broker's figures.
const _ = uint(ledger.DeliveriesKept - config.MaxStatsAge - time.Minute)

// Deliver delivers outgoing messages until ctx ends, and closes the connections. Callers end claims before.
func (d *Delivery) Deliver(ctx context.Context) error {
	return errors.Join(d.deliverer.Run(ctx), d.Close())
}

// Close closes the connections to the broker.
func (d *Delivery) Close() error { return errors.Join(d.publisher.Close(), d.Inspector.Close()) }

// Once calls claim, and delivers outgoing messages until claim has returned and all are delivered. It returns an
// error for a refused message, which stays in the ledger.
func (d *Delivery) Once(ctx context.Context, claim func(ctx context.Context) (claimed int, err error)) error {
	claiming, stopClaiming := context.WithCancel(ctx)
	defer stopClaiming()
	done := make(chan struct{})
	var claimErr error
	go func() {
		defer close(done)
		if _, err := claim(claiming); claiming.Err() == nil {
			claimErr = err
		}
	}()
	sent, err := d.deliverer.DrainUntil(ctx, done)
	stopClaiming() // after an error, no slots become free
	<-done
	if sent.Confirmed > 0 {
		d.log.Info("messages sent", "messages", sent.Confirmed)
	}
	if sent.Refused > 0 {
		err = errors.Join(err, fmt.Errorf("the broker refused %s, which the ledger keeps; the log has the reasons", model.Count(sent.Refused, "message", "messages")))
	}
	return errors.Join(claimErr, err)
}
