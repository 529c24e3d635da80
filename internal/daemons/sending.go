package daemons

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/monitor"
	"swh-scheduler/internal/process"
	"swh-scheduler/internal/send"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/status"
	"swh-scheduler/sql/db"
)

// sender claims work for a deliverer.
type sender struct {
	name string
	run  func(ctx context.Context) error
	once func(ctx context.Context) (claimed int, err error)
	also []service.Component // further components of the daemon
	jobs []maintenance.Job   // jobs of the daemon's keeper
}

// runSender runs the sender that build makes, and a deliverer at the same time. It runs as a daemon, or once if
// period is 0.
func runSender(ctx context.Context, o process.Options, period time.Duration, build func(ctx context.Context, p *process.Process, d *send.Delivery) (sender, error)) error {
	broker, err := o.Config.Broker()
	if err != nil {
		return err
	}
	if period == 0 {
		return process.Once(ctx, o, func(ctx context.Context, p *process.Process) error {
			d := newDelivery(p, broker)
			s, err := build(ctx, p, d)
			if err != nil {
				return err
			}
			return errors.Join(d.Once(ctx, s.once), d.Close())
		})
	}
	return process.Run(ctx, o, func(ctx context.Context, p *process.Process) ([]service.Component, error) {
		d := newDelivery(p, broker)
		s, err := build(ctx, p, d)
		if err != nil {
			return nil, err
		}
		return slices.Concat([]service.Component{{Name: s.name, Run: s.run}}, s.also, delivering(p, d, s.jobs...)), nil
	})
}

func newDelivery(p *process.Process, broker celery.Broker) *send.Delivery {
	return send.NewDelivery(sendOptions(p), p.Store, broker)
}

func sendOptions(p *process.Process) send.Options {
	return send.Options{Command: p.Command, Config: p.Config, Log: p.Log, Metrics: p.Metrics, Health: p.Health, Tracer: p.Tracer}
}

// delivering returns the components of every daemon that sends: maintenance, gauges, and the deliverer, which
// stops last.
func delivering(p *process.Process, d *send.Delivery, jobs ...maintenance.Job) []service.Component {
	counting := maintenance.Keeper{Name: "updating origin metrics", Store: p.Store, Log: p.Log, Jobs: []maintenance.Job{maintenance.OriginMetrics(p.Store, p.Config.UpdateMetricsAfter)}}
	return []service.Component{
		keeper(p, slices.Concat(jobsOfSenders(p, d), jobs, []maintenance.Job{maintenance.CheckOfCandidates(p.Store, p.Log, p.Metrics)})...),
		{Name: "monitor", Run: monitor.New(p.Store, p.Log, p.Metrics).Run},
		{Name: "gauges of queues", Run: gaugesOfQueues(p, d).Run},
		{Name: "wanted workers", Run: newWantedWorkers(p, d).run},
		contactWithBroker(p, d),
		{Name: "origin metrics", Run: counting.Run},
		{Name: "deliverer", Run: d.Deliver},
	}
}

// jobsOfSenders returns the jobs that need the broker, or slots.
func jobsOfSenders(p *process.Process, d *send.Delivery) []maintenance.Job {
	giveUp := maintenance.GiveUpWork{
		Store: p.Store, Broker: d.Inspector, Log: p.Log, GivenUp: maintenance.NewGivenUp(p.Metrics), LostAfter: p.Config.Hosters.LostAfter,
	}
	removed := maintenance.RemovedLanes{
		Store: p.Store, Slots: d.Slots, Log: p.Log,
		LaneSets: func() []string { return slices.Collect(maps.Keys(p.Config.Lanes)) },
		Home: func(ctx context.Context, laneSet string) (dispatch.Queue, error) {
			types, err := p.Store.TaskTypes(ctx)
			tt, prefix, ok := model.TypeOf(laneSet, types)
			if err == nil && !ok {
				err = model.ErrUnknownTaskType
			}
			return dispatch.Queue{Name: tt.QueueWith(prefix), Limit: tt.MaxQueueLength}, err
		},
	}
	return []maintenance.Job{
		maintenance.Events(p.Store, d.Inspector), // before the jobs that depend on them
		maintenance.QueueFigures(p.Store, func(ctx context.Context) ([]db.FigureKind, []db.Figure, error) {
			return status.SampleQueues(ctx, p.Store, d.Inspector, p.Config)
		}),
		giveUp.Job(), removed.Job(), maintenance.LowWater(p.Store), maintenance.BelowLowWater(p.Store, p.Log),
	}
}

// gaugesOfQueues measures the lengths of all queues that this program may send to.
func gaugesOfQueues(p *process.Process, d *send.Delivery) *dispatch.QueueGauges {
	gauges := &dispatch.QueueGauges{Observer: d.Inspector, Log: p.Log, Queues: func(ctx context.Context) ([]string, error) {
		queues, err := dispatch.KnownQueues(ctx, p.Store, p.Config.Lanes)
		names := make([]string, len(queues))
		for i, q := range queues {
			names[i] = q.Name
		}
		return names, err
	}}
	gauges.Register(p.Metrics, d.Slots)
	return gauges
}

// contactWithBroker returns a component that checks whether the broker answers. Without it the daemon is not ready.
func contactWithBroker(p *process.Process, d *send.Delivery) service.Component {
	return p.Probe("RabbitMQ", func(ctx context.Context) error {
		_, err := d.Inspector.Length(ctx, "celery", 0)
		if celery.IsOfQueue(err) {
			err = nil
		}
		return err
	})
}
