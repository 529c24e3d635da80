package daemons

import (
	"context"
	"errors"
	"maps"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/backend"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
)

// isRemote reports whether the scheduler is an RPC server.
func (o *Options) isRemote() bool { return o.Config.Scheduler.Cls == config.Remote }

// remote runs the components that build makes for an RPC server until ctx ends. It refuses a
// configuration with one of the keys that need a database.
func (o *Options) remote(ctx context.Context, needed func(c *config.Config) map[string]bool, build func(ctx context.Context, server backend.Remote) ([]service.Component, error)) error {
	server, err := o.OpenRPC()
	if err != nil {
		return err
	}
	defer server.Close()
	return o.work(ctx, nil, func(ctx context.Context) ([]service.Component, error) {
		err := o.prepare(ctx, nil, func(_ context.Context, c *config.Config) error { return needNoDatabase(needed(c)) })
		if err != nil {
			return nil, err
		}
		return build(ctx, backend.Remote{Client: server})
	})
}

// sendRemote makes a sender for an RPC server and calls its pass, which returns the number of
// messages sent: every period, or until there are none if that is 0. It returns
// backend.UnknownTaskType for an unknown task type.
func (o *Options) sendRemote(ctx context.Context, period time.Duration, taskTypes []string, sender func(server backend.Remote, direct *dispatch.Direct) (pass func(context.Context) (int, error))) error {
	broker, err := o.Config.Broker()
	if err != nil {
		return err
	}
	return o.remote(ctx, ofSenders, func(ctx context.Context, server backend.Remote) ([]service.Component, error) {
		err := o.askPatiently(ctx, "the RPC server", func(ctx context.Context) error {
			return backend.CheckTaskTypes(ctx, server, taskTypes)
		}, func(err error) bool {
			_, unknown := errors.AsType[backend.UnknownTaskType](err)
			return unknown || period == 0
		})
		if err != nil {
			return nil, err
		}
		direct := o.direct(broker)
		pass := sender(server, direct)
		loop := service.Loop{
			Name: "sending", Log: o.Log, Period: period,
			RunOnce: func(ctx context.Context) (service.Result, error) {
				n, err := pass(ctx)
				if celery.IsOfQueue(err) {
					o.Log.Warn("a queue fails; the others go on", "error", err)
					err = nil // no outage
				}
				return service.Result{Again: n > 0}, err
			},
		}
		return []service.Component{{Name: "sender", Run: func(ctx context.Context) (err error) {
			if period > 0 {
				err = loop.Run(ctx)
			} else {
				for n := 1; n > 0 && err == nil && ctx.Err() == nil; {
					n, err = pass(service.InFlight(ctx))
				}
			}
			return errors.Join(err, direct.Close())
		}}}, nil
	})
}

// direct returns what sends to the broker without a ledger.
func (o *Options) direct(broker celery.Broker) *dispatch.Direct {
	connection := celery.ConnectionOptions{Name: "swh-scheduler " + o.Command}
	return &dispatch.Direct{
		Publisher: celery.NewPublisher(broker, celery.PublisherOptions{
			ConnectionOptions: connection, Logger: o.Log, MaxWait: dispatch.PublishWait, Sending: o.Config.Celery.Sending,
		}),
		Inspector: o.newInspector(broker, connection), Rest: time.Minute,
	}
}

// needNoDatabase returns an error if one of the keys is needed: it can't be done through an RPC
// server.
func needNoDatabase(keys map[string]bool) error {
	for key, needed := range keys {
		if needed {
			return errors.New(key + " needs a database, and the configuration names an RPC server (scheduler.cls is remote)")
		}
	}
	return nil
}

// CheckRemoteSimulation returns an error for what can't be simulated through an RPC server.
func CheckRemoteSimulation(c *config.Config, policies map[string][]model.WeightedPolicy, urgent bool) error {
	simulated := *c
	simulated.SchedulingPolicy = policies
	keys := ofSenders(&simulated)
	maps.Copy(keys, ofJournal(&simulated))
	keys["--priority-tasks"] = urgent
	return needNoDatabase(keys)
}

// ofSenders are the keys for which senders need a database.
func ofSenders(c *config.Config) map[string]bool {
	keys := map[string]bool{
		"lanes": len(c.Lanes) > 0, "shares": len(c.Shares) > 0, "lost_after": len(c.LostAfter) > 0,
		"hosters": len(c.Hosters.Limits) > 0 || c.Hosters.Default != model.HosterLimit{},
	}
	for _, policies := range c.SchedulingPolicy {
		for _, p := range policies {
			if p.Filter.Policy == model.Pools || p.Filter.Policy == model.Freshness {
				keys["the policy "+string(p.Filter.Policy)] = true
			}
			if p.Forks > 0 {
				keys["forks of a policy"] = true
			}
		}
	}
	return keys
}
