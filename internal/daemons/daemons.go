package daemons

import (
	"context"
	"errors"
	"slices"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/settle"
	"swh-scheduler/journal"
	"swh-scheduler/listener"
	"swh-scheduler/recurrent"
	"swh-scheduler/sql/db"
)

// Listener records the progress of tasks from Celery's events.
type Listener struct{ Options }

func (l *Listener) Run(ctx context.Context) error {
	broker, err := l.Config.Broker()
	if err != nil {
		return err
	}
	return l.run(ctx, func(ctx context.Context, store *db.Store) ([]service.Component, error) {
		options := listener.ConsumerOptions(l.Log)
		rabbitmq := service.NewService(l.Log, "RabbitMQ")
		l.health.Watch(rabbitmq)
		met := l.health.Expect("RabbitMQ")
		options.Reading, options.Lost = func() { met(); rabbitmq.OK() }, rabbitmq.Failed
		n := listener.New(listener.Options{
			Source: celery.NewConsumer(broker, options),
			Store:  settle.Store{Store: store, Metrics: settle.NewMetrics(l.Metrics)}, Log: l.Log, Registerer: l.Metrics, Tracer: l.tracer,
		})
		inspector := l.newInspector(broker, options.ConnectionOptions)
		queue := dispatch.QueueGauges{
			Lengths: inspector, Log: l.Log, Unacknowledged: true,
			Queues: func(context.Context) ([]string, error) { return []string{options.Queue}, nil },
		}
		queue.Register(l.Metrics, nil)
		look := func(ctx context.Context) error { return errors.Join(queue.Run(ctx), inspector.Close()) }
		return []service.Component{{Name: "listener", Run: n.Run}, {Name: "gauges of the queue", Run: look}, l.keeper(store)}, nil
	})
}

// Recurrent sends due visits.
type Recurrent struct {
	Options
	VisitTypes []string // none: those of all task types load-*
}

// Run returns backend.UnknownTaskType for an unknown visit type.
func (r *Recurrent) Run(ctx context.Context) error {
	return r.run(ctx, func(ctx context.Context, store *db.Store) ([]service.Component, error) {
		taskTypes := make([]string, len(r.VisitTypes))
		for i, visitType := range r.VisitTypes {
			taskTypes[i] = model.LoaderTaskType(visitType)
		}
		if err := r.checkTaskTypes(ctx, store, taskTypes); err != nil {
			return nil, err
		}
		d, err := r.newDispatcher(store)
		if err != nil {
			return nil, err
		}
		s := recurrent.New(recurrent.Options{
			Store: store, Slots: d.slots, Log: r.Log, Reg: r.Metrics,
			VisitTypes: r.VisitTypes, Policies: r.Config.SchedulingPolicy, Shares: r.Config.Shares, Lanes: r.Config.Lanes,
			NoOriginsBackoff: r.Config.NoOriginsScheduledBackoff, QueueFullBackoff: r.Config.QueueFullBackoff,
		})
		sharing, err := r.sharing(ctx, store)
		if err != nil {
			return nil, err
		}
		hosting, err := r.hosting(ctx, store)
		if err != nil {
			return nil, err
		}
		laning, err := r.laning(ctx, store, d)
		return slices.Concat([]service.Component{{Name: "visit scheduler", Run: s.Run}}, sharing, hosting, laning, r.sending(store, d)), err
	})
}

// Journal records the outcomes of visits from a Kafka journal.
type Journal struct {
	Options
	StopAfterObjects int64 // 0 is no limit
	// Read reads the journal until ctx ends or client is done.
	Read     func(ctx context.Context, client *journal.Client) error
	Progress func(processed, remaining int64)
}

// Run runs it until ctx ends or Read returns.
func (j *Journal) Run(ctx context.Context) error {
	return j.run(ctx, func(_ context.Context, store *db.Store) ([]service.Component, error) {
		o := j.JournalOptions(store)
		o.StopAfterObjects, o.Progress = j.StopAfterObjects, j.Progress
		client, err := j.NewJournalClient(o)
		if err != nil {
			return nil, err
		}
		return []service.Component{{Name: "journal client", Run: func(ctx context.Context) error { return j.Read(ctx, client) }}, j.keeper(store)}, nil
	})
}

// JournalOptions returns the configured options of the journal client.
func (o *Options) JournalOptions(store *db.Store) journal.Options {
	c := o.Config.Journal
	return journal.Options{
		Brokers: c.Brokers, GroupID: c.GroupID, Store: store,
		Prefix: c.Prefix, Privileged: c.Privileged, BatchSize: c.BatchSize,
		AutoOffsetReset: journal.Reset(c.AutoOffsetReset), OnEOF: journal.EOF(c.OnEOF),
		StopAfterObjects: int64(c.StopAfterObjects), ConsumerSettings: c.ConsumerSettings,
		Rules: journal.Rules{Visits: &o.Config.VisitRules, FailuresKeepDate: o.Config.FailuresKeepDate}, Log: o.Log, Registry: o.Metrics,
	}
}

// NewJournalClient makes a client and logs its warnings.
func (o *Options) NewJournalClient(options journal.Options) (*journal.Client, error) {
	client, warnings, err := journal.New(options)
	for _, w := range warnings {
		o.Log.Warn(w)
	}
	return client, err
}

type RPC struct {
	Options
	Address string // HOST:PORT
}

func (r *RPC) Run(ctx context.Context) error {
	c := r.Config.RPCServe
	o := rpc.Options{
		Address: r.Address, Log: r.Log, Registry: r.Metrics, MaxBody: int64(c.MaxBodySize),
		Credentials: rpc.Credentials{Token: string(c.Token), Username: c.Username, Password: string(c.Password)},
	}
	if c.TLSCertificate != "" {
		var err error
		if o.TLS, err = rpc.TLS(r.Config.Beside(c.TLSCertificate), r.Config.Beside(c.TLSKey), r.Log); err != nil {
			return err
		}
	}
	return r.run(ctx, func(ctx context.Context, store *db.Store) ([]service.Component, error) {
		o.Store, o.Health = store, r.health
		server, err := rpc.Listen(ctx, o)
		if err != nil {
			return nil, err
		}
		return []service.Component{{Name: "RPC server", Run: server.Run}, r.keeper(store)}, nil
	})
}
