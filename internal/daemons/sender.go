package daemons

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"swh-scheduler/internal/backend"
	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

// sender claims work for the deliverer.
type sender struct {
	name string
	run  func(ctx context.Context) error
	once func(ctx context.Context) (claimed int, err error)
	also []service.Component // of the daemon
	jobs []maintenance.Job   // of its keeper
}

// send runs the sender that build makes beside the deliverer: as a daemon, or once if
// period is 0.
func (o *Options) send(ctx context.Context, period time.Duration, build func(ctx context.Context, store *db.Store, d *dispatcher) (sender, error)) error {
	broker, err := o.Config.Broker()
	if err != nil {
		return err
	}
	prepare := func(ctx context.Context, store *db.Store) (*dispatcher, sender, error) {
		d := o.newDispatcher(store, broker)
		s, err := build(ctx, store, d)
		return d, s, err
	}
	if period > 0 {
		return o.run(ctx, func(ctx context.Context, store *db.Store) ([]service.Component, error) {
			d, s, err := prepare(ctx, store)
			if err != nil {
				return nil, err
			}
			return slices.Concat([]service.Component{{Name: s.name, Run: s.run}}, s.also, o.sending(store, d, s.jobs...)), nil
		})
	}
	stopCounters, err := o.sendCounters(ctx)
	if err != nil {
		return err
	}
	defer stopCounters()
	store, err := o.OpenStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.CheckVersion(ctx); err != nil {
		return backend.Describe(store, err)
	}
	d, s, err := prepare(ctx, store)
	if err == nil {
		err = errors.Join(o.sendOnce(ctx, d, s), d.close())
	}
	return backend.Describe(store, err)
}

// sendOnce claims all ready work and delivers it. A refused message, which stays in the
// ledger, is an error.
func (o *Options) sendOnce(ctx context.Context, d *dispatcher, s sender) error {
	claiming, stopClaiming := context.WithCancel(ctx)
	defer stopClaiming()
	done := make(chan struct{})
	var claimErr error
	go func() {
		defer close(done)
		if _, err := s.once(claiming); claiming.Err() == nil {
			claimErr = err
		}
	}()
	sent, err := d.deliverer.DrainUntil(ctx, done)
	stopClaiming() // after an error, no slots become free
	<-done
	if sent.Confirmed > 0 {
		o.Log.Info("messages sent", "messages", sent.Confirmed)
	}
	if sent.Refused > 0 {
		err = errors.Join(err, fmt.Errorf("the broker refused %s, which the ledger keeps; the log has the reasons", model.Count(sent.Refused, "message", "messages")))
	}
	return errors.Join(claimErr, err)
}
