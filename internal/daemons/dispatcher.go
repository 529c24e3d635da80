package daemons

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/monitor"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

// dispatcher holds the parts of a daemon that sends: slots for claims, and a deliverer of
// outgoing work.
type dispatcher struct {
	slots     *dispatch.Slots
	deliverer *dispatch.Deliverer
	publisher *celery.Publisher
	inspector *celery.QueueInspector
	monitor   *monitor.Monitor
}

func (o *Options) newDispatcher(store *db.Store, broker celery.Broker) *dispatcher {
	connection := celery.ConnectionOptions{Name: "swh-scheduler " + o.Command}
	d := &dispatcher{
		publisher: celery.NewPublisher(broker, celery.PublisherOptions{ConnectionOptions: connection, Logger: o.Log, Sending: o.Config.Celery.Sending}),
		inspector: o.newInspector(broker, connection),
	}
	d.deliverer = dispatch.NewDeliverer(store, d.publisher, o.Log, o.Metrics)
	d.deliverer.Tracer, d.deliverer.Ageing = o.tracer, o.Config.PriorityAgeing
	d.slots = dispatch.NewSlots(store, d.inspector, d.deliverer.Wake)
	d.slots.Log = o.Log
	d.slots.Register(o.Metrics)
	d.monitor = monitor.New(store, o.Log, o.Metrics)
	return d
}

func (o *Options) newInspector(broker celery.Broker, connection celery.ConnectionOptions) *celery.QueueInspector {
	management := service.NewService(o.Log, "the management API")
	o.health.Show(management)
	return celery.NewQueueInspector(broker, string(o.Config.RabbitMQ.ManagementURL), celery.InspectorOptions{
		ConnectionOptions: connection, Logger: o.Log, StatsAge: o.Config.RabbitMQ.StatsAge, Management: management,
	})
}

// Deliveries are kept for longer than the broker's figures may be old.
const _ = uint(db.DeliveriesKept - config.MaxStatsAge - time.Minute)

// deliver returns the deliverer as a component: the last to stop, closing its connections.
func (d *dispatcher) deliver() service.Component {
	return service.Component{Name: "deliverer", Run: func(ctx context.Context) error {
		return errors.Join(d.deliverer.Run(ctx), d.close())
	}}
}

func (d *dispatcher) close() error { return errors.Join(d.publisher.Close(), d.inspector.Close()) }

// keeper returns a component that runs the maintenance jobs which need only the database,
// and others.
func (o *Options) keeper(store *db.Store, others ...maintenance.Job) service.Component {
	jobs := append(others, maintenance.Graphs(store), maintenance.SetAside(store, o.Log), maintenance.OldNotes(store, o.Log), maintenance.CandidateChanges(store, o.Log))
	jobs = append(jobs, maintenance.Counts(store)...)
	k := maintenance.Keeper{Store: store, Log: o.Log, Jobs: jobs}
	return service.Component{Name: "keeper", Run: k.Run}
}

// sending returns the further components of a daemon that sends, the deliverer last.
func (o *Options) sending(store *db.Store, d *dispatcher, others ...maintenance.Job) []service.Component {
	unheard := maintenance.UnheardWork{
		Store: store, Broker: d.inspector, Log: o.Log, GivenUp: maintenance.NewGivenUp(o.Metrics), LostAfter: o.Config.Hosters.LostAfter,
	}
	removed := maintenance.RemovedLanes{
		Store: store, Slots: d.slots, Log: o.Log,
		LaneSets: func() []string { return slices.Collect(maps.Keys(o.Config.Lanes)) },
		Home: func(ctx context.Context, laneSet string) (dispatch.Queue, error) {
			types, err := store.TaskTypes(ctx)
			tt, prefix, ok := model.TypeOf(laneSet, types)
			if err == nil && !ok {
				err = model.ErrUnknownTaskType
			}
			return dispatch.Queue{Name: tt.QueueWith(prefix), Limit: tt.MaxQueueLength}, err
		},
	}
	gauges := dispatch.QueueGauges{Lengths: d.inspector, Log: o.Log, Queues: func(ctx context.Context) ([]string, error) {
		queues, err := KnownQueues(ctx, store, o.Config)
		names := make([]string, len(queues))
		for i, q := range queues {
			names[i] = q.Name
		}
		return names, err
	}}
	gauges.Register(o.Metrics, d.slots)
	counting := maintenance.Keeper{Name: "updating origin metrics", Store: store, Log: o.Log, Jobs: []maintenance.Job{maintenance.OriginMetrics(store, o.Config.UpdateMetricsAfter)}}
	jobs := []maintenance.Job{
		maintenance.Events(store, d.inspector), // before what judges by them
		unheard.Job(), removed.Job(), maintenance.LowWater(store), maintenance.BelowLowWater(store, o.Log),
	}
	return []service.Component{
		o.keeper(store, slices.Concat(jobs, others, []maintenance.Job{maintenance.CheckOfCandidates(store, o.Log, o.Metrics)})...),
		{Name: "monitor", Run: d.monitor.Run},
		{Name: "gauges of queues", Run: gauges.Run},
		d.contact(o),
		{Name: "origin metrics", Run: counting.Run},
		d.deliver(),
	}
}
