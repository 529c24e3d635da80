package daemons

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/rpc/door"
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
		components, consumer := l.components(broker, settle.Store{Store: store, Metrics: settle.NewMetrics(l.Metrics)})
		progress := listener.Progress{ProgressOptions: listener.ProgressOptions{Consumer: consumer, Store: store, Log: l.Log}}
		return append(components, service.Component{Name: "progress", Run: progress.Run}, l.keeper(store)), nil
	})
}

func (l *Listener) components(broker celery.Broker, store listener.Store) ([]service.Component, *celery.Consumer) {
	options := listener.ConsumerOptions(l.Log)
	rabbitmq := service.NewService(l.Log, "RabbitMQ")
	l.health.Watch(rabbitmq)
	met := l.health.Expect("RabbitMQ")
	options.Reading, options.Lost = func() { met(); rabbitmq.OK() }, rabbitmq.Failed
	consumer := celery.NewConsumer(broker, options)
	n := listener.New(listener.Options{
		Source: consumer,
		Store:  store, Log: l.Log, Registerer: l.Metrics, Tracer: l.tracer,
	})
	l.workers = n.Workers
	inspector := l.newInspector(broker, options.ConnectionOptions)
	queue := dispatch.QueueGauges{
		Lengths: inspector, Log: l.Log, Unacknowledged: true,
		Queues: func(context.Context) ([]string, error) { return []string{options.Queue}, nil },
	}
	queue.Register(l.Metrics, nil)
	look := func(ctx context.Context) error { return errors.Join(queue.Run(ctx), inspector.Close()) }
	return []service.Component{{Name: "listener", Run: n.Run}, {Name: "gauges of the queue", Run: look}}, consumer
}

// Recurrent sends due visits.
type Recurrent struct {
	Options
	VisitTypes []string // none: those of all task types load-*
}

// Run returns backend.UnknownTaskType for an unknown visit type.
func (r *Recurrent) Run(ctx context.Context) error {
	taskTypes := make([]string, len(r.VisitTypes))
	for i, visitType := range r.VisitTypes {
		taskTypes[i] = model.LoaderTaskType(visitType)
	}
	broker, err := r.Config.Broker()
	if err != nil {
		return err
	}
	return r.run(ctx, func(ctx context.Context, store *db.Store) ([]service.Component, error) {
		if err := r.checkTaskTypes(ctx, store, taskTypes); err != nil {
			return nil, err
		}
		d := r.newDispatcher(store, broker)
		policies := r.Config.SchedulingPolicy
		configure := func(ctx context.Context) error { return maintenance.ConfigureFreshness(ctx, store, policies) }
		if err := r.patiently(ctx, store, configure); err != nil {
			return nil, err
		}
		c := r.Config
		s := recurrent.New(recurrent.Options{
			Store: store, Slots: d.slots, Log: r.Log, Reg: r.Metrics,
			VisitTypes: r.VisitTypes, Policies: c.SchedulingPolicy, Shares: c.Shares, Lanes: c.Lanes,
			NoOriginsBackoff: c.NoOriginsScheduledBackoff, QueueFullBackoff: c.QueueFullBackoff,
		})
		dividing, err := r.dividing(ctx, store, d, true)
		return slices.Concat([]service.Component{{Name: "visit scheduler", Run: s.Run}}, dividing, r.sending(store, d, maintenance.Freshness(store, policies))), err
	})
}

// Journal records the outcomes of visits from a Kafka journal.
type Journal struct {
	Options
	StopAfterObjects int64 // 0 is no limit
	FailIfMissing    bool  // if the topic isn't there; else it is waited for
	// Read reads the journal until ctx ends or client is done.
	Read     func(ctx context.Context, client *journal.Client) error
	Progress func(processed, remaining int64)
}

// Run runs it until ctx ends or Read returns. Settings that can't be honoured are an error at once.
func (j *Journal) Run(ctx context.Context) error {
	if err := j.checkJournal(); err != nil {
		return err
	}
	return j.run(ctx, func(_ context.Context, store *db.Store) ([]service.Component, error) {
		components, err := j.components(store)
		return append(components, j.keeper(store)), err
	})
}

func (j *Journal) components(store journal.Store) ([]service.Component, error) {
	o := j.JournalOptions(store)
	o.StopAfterObjects, o.FailIfMissing, o.Progress = j.StopAfterObjects, j.FailIfMissing, j.Progress
	client, err := j.NewJournalClient(o)
	if err != nil {
		return nil, err
	}
	return []service.Component{{Name: "journal client", Run: func(ctx context.Context) error { return j.Read(ctx, client) }}}, nil
}

// JournalOptions returns the configured options of the journal client.
func (o *Options) JournalOptions(store journal.Store) journal.Options {
	c := o.Config.Journal
	return journal.Options{
		Brokers: c.Brokers, GroupID: c.GroupID, Store: store,
		Prefix: c.Prefix, Privileged: c.Privileged, CreateTopics: c.CreateTopics, BatchSize: c.BatchSize,
		AutoOffsetReset: journal.Reset(c.AutoOffsetReset), OnEOF: journal.EOF(c.OnEOF),
		StopAfterObjects: int64(c.StopAfterObjects), ConsumerSettings: c.ConsumerSettings,
		Rules: journal.Rules{Visits: &o.Config.VisitRules, FailuresKeepDate: o.Config.FailuresKeepDate}, Log: o.Log, Registry: o.Metrics,
	}
}

// NewJournalClient makes a client and logs its warnings. It returns an error for settings of the
// file that can't be honoured.
func (o *Options) NewJournalClient(options journal.Options) (*journal.Client, error) {
	if err := o.checkJournal(); err != nil {
		return nil, err
	}
	client, warnings, err := journal.New(options)
	for _, w := range warnings {
		o.Log.Warn(w)
	}
	return client, err
}

// checkJournal returns the error for settings of the file that the journal client can't honour.
func (o *Options) checkJournal() error {
	err := o.Config.Journal.Refused
	if err == nil {
		err = journal.CheckSettings(o.Config.Journal.ConsumerSettings)
	}
	if wrong, ok := errors.AsType[*journal.SettingError](err); ok {
		err = o.Config.WrongConsumerSetting(wrong.Setting, wrong.Problem)
	}
	return err
}

type RPC struct {
	Options
	Address  string  // HOST:PORT
	LogCalls bool    // at level debug
	NewSite  NewSite // nil: none
}

func (r *RPC) Run(ctx context.Context) error {
	c := r.Config.RPCServe
	o := rpc.Options{
		Address: r.Address, Log: r.Log, Registry: r.Metrics, LogCalls: r.LogCalls, MaxBody: int64(c.MaxBodySize),
		Credentials: rpc.Credentials{Token: string(c.Token), Username: c.Username, Password: string(c.Password)},
		Proxies:     r.Config.Dashboard.Proxy.Addresses,
		DoorLimits:  door.Limits{Connections: c.Door.MaxConnections, PerClient: c.Door.MaxPerClient, PerAddress: c.Door.MaxPerAddress},
	}
	var err error
	if o.TLS, err = r.tls(c.TLSCertificate, c.TLSKey); err != nil {
		return err
	}
	return r.run(ctx, func(ctx context.Context, store *db.Store) ([]service.Component, error) {
		o.Store, o.Health = store, r.health
		if o.Door, err = db.NewDoor(store, string(c.Door.DB)); err != nil {
			return nil, err
		}
		closeSite := func() error { return nil }
		if r.NewSite != nil {
			if o.Site, closeSite, err = r.NewSite(ctx, store, r.Metrics); err != nil {
				return nil, err
			}
		}
		server, err := rpc.Listen(ctx, o)
		if err != nil {
			return nil, errors.Join(err, closeSite())
		}
		serve := func(ctx context.Context) error { return errors.Join(server.Run(ctx), closeSite()) }
		return []service.Component{{Name: "RPC server", Run: serve}, r.keeper(store)}, nil
	})
}

// tls returns the TLS of a server, from two PEM files that the configuration names; nil without them.
func (o *Options) tls(certificate, key string) (*tls.Config, error) {
	if certificate == "" {
		return nil, nil
	}
	return rpc.TLS(o.Config.Beside(certificate), o.Config.Beside(key), o.Log)
}
