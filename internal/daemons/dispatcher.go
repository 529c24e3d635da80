package daemons

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/celery"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/keep"
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
func (o *Options) keeper(store *db.Store, others ...keep.Job) service.Component {
	jobs := append(others, mendGraphs(store), setAside(store, o.Log), forgetNotes(store, o.Log), boundChanges(store, o.Log))
	jobs = append(jobs, counts(store)...)
	k := keep.Keeper{Store: store, Log: o.Log, Jobs: jobs}
	return service.Component{Name: "keeper", Run: k.Run}
}

// forgetNotes returns the job that deletes rows too old to be of use.
func forgetNotes(store *db.Store, log *slog.Logger) keep.Job {
	return keep.Job{Name: "old notes", Period: time.Hour, Do: func(ctx context.Context) (string, error) {
		n, err := store.Forget(ctx, store.Now(), countTime)
		if n == 0 || err != nil {
			return "", err
		}
		log.Info("forgot what was set aside long ago", "rows", n)
		return model.Count(n, "row that was set aside", "rows that were set aside") + " forgotten", nil
	}}
}

// counts returns the jobs that count origins, runs and ready tasks for monitoring, for at most
// countTime of each period, until all are counted.
func counts(store *db.Store) []keep.Job {
	job := func(name string, period time.Duration, count func(context.Context) (ended bool, err error)) keep.Job {
		return keep.Job{Name: name, Period: period, Do: func(ctx context.Context) (string, error) {
			ended, err := count(ctx)
			if !ended || err != nil {
				return "", err
			}
			return "all are counted", nil
		}}
	}
	return []keep.Job{
		job("count of origins", time.Minute, func(ctx context.Context) (bool, error) { return store.CountOrigins(ctx, countTime) }),
		job("count of runs", time.Minute, func(ctx context.Context) (bool, error) { return store.CountRuns(ctx, store.Now(), countTime) }),
		job("count of ready tasks", 20*time.Second, func(ctx context.Context) (bool, error) { return store.CountReady(ctx, store.Now(), countTime) }),
	}
}

const countTime = 5 * time.Second

// updateMetrics returns the job that counts the origins of listers again (update-metrics) when
// the counts are old. It has a keeper of its own, as a large lister takes minutes.
func (o *Options) updateMetrics(store *db.Store) keep.Job {
	var failed []uuid.UUID // tried again when all others are counted
	return keep.Job{Name: "origin metrics", Period: time.Minute, Timeout: updateMetricsTimeout, Unconfigured: o.Config.UpdateMetricsAfter <= 0, Do: func(ctx context.Context) (string, error) {
		for n := 0; ; n++ {
			lister, err := store.UpdateStaleMetrics(ctx, o.Config.UpdateMetricsAfter, failed)
			switch {
			case err != nil && lister != uuid.Nil:
				failed = append(failed, lister)
			case err == nil && lister == uuid.Nil:
				failed = nil
			}
			if err != nil || lister == uuid.Nil {
				return model.Count(n, "lister", "listers") + " counted", err
			}
		}
	}}
}

// updateMetricsTimeout is below the 15 minutes after which a loop counts as stuck.
const updateMetricsTimeout = 12 * time.Minute

// boundChanges returns the job that drains the changes of candidates where no daemon of
// visits does.
func boundChanges(store *db.Store, log *slog.Logger) keep.Job {
	return keep.Job{Name: "changes of candidates", Period: time.Minute, Do: func(ctx context.Context) (string, error) {
		bounded, err := store.BoundChanges(ctx, db.MaxCandidateChanges, boundTime)
		if bounded.GivenUp {
			log.Warn(`candidates are given up: too many changes of origins were not drained; schedule-recurrent, or "swh-scheduler migrate", builds them anew`, "deleted", bounded.Deleted)
		}
		return bounded.String(), err
	}}
}

// checkCandidates returns the job that compares a part of the candidates with the tables each
// minute, and notes origins whose candidates are wrong or missing.
func (o *Options) checkCandidates(store *db.Store) keep.Job {
	repaired := promauto.With(o.Metrics).NewCounter(prometheus.CounterOpts{
		Name: "swh_scheduler_candidates_repaired_total", Help: "Origins whose candidates were wrong or missing, which a check found.",
	})
	return keep.Job{Name: "check of candidates", Period: time.Minute, Do: func(ctx context.Context) (string, error) {
		n, err := store.CheckCandidates(ctx, checkTime)
		repaired.Add(float64(n))
		if n == 0 {
			return "", err
		}
		o.Log.Warn("candidates of origins were wrong and are repaired: triggers missed changes", "origins", n)
		return model.Count(n, "origin", "origins") + " repaired", err
	}}
}

// checkTime is how long a run of checkCandidates works at most.
const checkTime = 20 * time.Second

// boundTime is how long boundChanges works at most, well below keep.DefaultTimeout.
const boundTime = 15 * time.Second

// mendGraphs returns the job that releases waiting tasks of graphs whose wake-up was lost.
func mendGraphs(store *db.Store) keep.Job {
	return keep.Job{Name: "graphs", Period: time.Minute, Do: func(ctx context.Context) (string, error) {
		return "", store.MendGraphs(ctx, countTime)
	}}
}

// setAside returns the job that retries tasks and origins that were set aside once they have
// changed, and logs new ones, each once.
func setAside(store *db.Store, log *slog.Logger) keep.Job {
	return keep.Job{Name: "set aside", Period: time.Minute, Do: func(ctx context.Context) (string, error) {
		tasks, origins, err := store.TellSetAside(ctx)
		for _, t := range tasks {
			log.Warn("task set aside: it can't be sent", "task", t.Task, "reason", t.Reason)
		}
		for _, o := range origins {
			log.Warn("origin set aside: it can't be sent", "origin", o.URL, "visit_type", o.VisitType, "reason", o.Reason)
		}
		if err != nil {
			return "", err
		}
		return model.Count(len(tasks), "task", "tasks") + " and " + model.Count(len(origins), "origin", "origins") + " set aside", store.RetrySetAside(ctx)
	}}
}

// sending returns the further components of a daemon that sends, the deliverer last.
func (o *Options) sending(store *db.Store, d *dispatcher, others ...keep.Job) []service.Component {
	m := dispatch.Maintenance{
		Store: store, Slots: d.slots, Lengths: d.inspector, Log: o.Log, GivenUp: dispatch.NewGivenUp(o.Metrics),
		LaneSets:  func() []string { return slices.Collect(maps.Keys(o.Config.Lanes)) },
		LostAfter: o.Config.Hosters.LostAfter,
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
	counting := keep.Keeper{Name: "updating origin metrics", Store: store, Log: o.Log, Jobs: []keep.Job{o.updateMetrics(store)}}
	return []service.Component{
		o.keeper(store, slices.Concat(m.Jobs(), others, []keep.Job{o.checkCandidates(store)})...),
		{Name: "monitor", Run: d.monitor.Run},
		{Name: "gauges of queues", Run: gauges.Run},
		d.contact(o),
		{Name: "origin metrics", Run: counting.Run},
		d.deliver(),
	}
}
