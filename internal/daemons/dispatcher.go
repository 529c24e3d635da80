package daemons

import (
	"context"
	"errors"
	"strings"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/keep"
	"swh-scheduler/internal/monitor"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

// dispatcher has the parts of a daemon that sends: slots for claims, and a deliverer of
// outgoing work.
type dispatcher struct {
	slots     *dispatch.Slots
	deliverer *dispatch.Deliverer
	publisher *celery.Publisher
	inspector *celery.QueueInspector
	monitor   *monitor.Monitor
}

func (o *Options) newDispatcher(store *db.Store) (*dispatcher, error) {
	broker, err := o.Config.Broker()
	if err != nil {
		return nil, err
	}
	connection := celery.ConnectionOptions{Name: "swh-scheduler " + o.Command}
	d := &dispatcher{
		publisher: celery.NewPublisher(broker, celery.PublisherOptions{ConnectionOptions: connection, Logger: o.Log}),
		inspector: o.newInspector(broker, connection),
	}
	d.deliverer = dispatch.NewDeliverer(store, d.publisher, o.Log, o.Metrics)
	d.deliverer.Tracer = o.tracer
	d.slots = dispatch.NewSlots(store, d.inspector, d.deliverer.Wake)
	d.slots.Log = o.Log
	d.slots.Register(o.Metrics)
	d.monitor = monitor.New(store, o.Log, o.Metrics)
	return d, nil
}

func (o *Options) newInspector(broker celery.Broker, connection celery.ConnectionOptions) *celery.QueueInspector {
	return celery.NewQueueInspector(broker, string(o.Config.RabbitMQ.ManagementURL), celery.InspectorOptions{
		ConnectionOptions: connection, Logger: o.Log, StatsAge: o.Config.RabbitMQ.StatsAge,
	})
}

// Deliveries are kept for longer than the broker's figures may be old.
const _ = uint(db.DeliveriesKept - config.MaxStatsAge - time.Minute)

// firstContact waits for the broker, without which the daemon is not ready.
func (d *dispatcher) firstContact(ctx context.Context) error {
	met := service.HealthOf(ctx).Expect("RabbitMQ")
	var backoff service.Backoff
	for {
		if _, err := d.inspector.Length(ctx, "celery", 0); err == nil || celery.IsOfQueue(err) {
			met()
			<-ctx.Done()
			return nil
		}
		if backoff.Wait(ctx) != nil {
			return nil
		}
	}
}

// deliver returns the deliverer as a component: the last to stop, closing its connections.
func (d *dispatcher) deliver() service.Component {
	return service.Component{Name: "deliverer", Run: func(ctx context.Context) error {
		return errors.Join(d.deliverer.Run(ctx), d.close())
	}}
}

func (d *dispatcher) close() error { return errors.Join(d.publisher.Close(), d.inspector.Close()) }

// keeper returns a component that runs the maintenance jobs which need only the database,
// and others.
func (o *Options) keeper(store *db.Store, others ...keep.Job) service.Component {
	k := keep.Keeper{Store: store, Log: o.Log, Jobs: append(others, mendGraphs(store), keep.Job{
		Name: "old notes", Period: time.Hour, Do: func(ctx context.Context) (string, error) {
			if err := store.ForgetRuns(ctx, time.Now()); err != nil {
				return "", err
			}
			return "", store.ForgetLanes(ctx, time.Now())
		},
	})}
	return service.Component{Name: "keeper", Run: k.Run}
}

// mendGraphs releases waiting tasks of graphs whose wake-up was lost.
func mendGraphs(store *db.Store) keep.Job {
	return keep.Job{Name: "graphs", Period: 10 * time.Minute, Do: func(ctx context.Context) (string, error) {
		return "", store.MendGraphs(ctx)
	}}
}

// sending returns the further components of a daemon that sends, the deliverer last.
func (o *Options) sending(store *db.Store, d *dispatcher, others ...keep.Job) []service.Component {
	m := dispatch.Maintenance{
		Store: store, Slots: d.slots, Lengths: d.inspector, Log: o.Log,
		Queues: o.lanedQueues(store),
		Home: func(ctx context.Context, laneSet string) (dispatch.Queue, error) {
			tt, err := store.TaskType(ctx, strings.TrimPrefix(laneSet, priorityPrefix))
			return homeQueue(laneSet, tt), err
		},
	}
	return []service.Component{
		o.keeper(store, append(others, m.Jobs()...)...),
		{Name: "monitor", Run: d.monitor.Run},
		{Name: "first contact with the broker", Run: d.firstContact},
		d.deliver(),
	}
}
