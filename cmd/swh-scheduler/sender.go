package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/daemon"
	"swh-scheduler/sql"
)

// sender is what claims work for the deliverer to send: again and again, or once.
type sender struct {
	name string
	run  func(ctx context.Context) error
	once func(ctx context.Context) (claimed int, err error)
	also []daemon.Component // of the daemon
}

// send runs what build makes with the deliverer beside it: as a daemon, or if
// period is 0 once.
func (a *app) send(cmd *cobra.Command, period int, build func(ctx context.Context, store *sql.Store, d *dispatcher) (sender, error)) error {
	if period < 0 {
		return usagef(cmd, "Invalid value for '--period' / '-p': %d is negative.", period)
	}
	prepare := func(ctx context.Context, store *sql.Store) (*dispatcher, sender, error) {
		d, err := a.newDispatcher(cmd, store)
		if err != nil {
			return nil, sender{}, err
		}
		s, err := build(ctx, store, d)
		return d, s, err
	}
	if period > 0 {
		return a.runDaemon(cmd, func(ctx context.Context, store *sql.Store) ([]daemon.Component, error) {
			d, s, err := prepare(ctx, store)
			if err != nil {
				return nil, err
			}
			return slices.Concat([]daemon.Component{{Name: s.name, Run: s.run}}, s.also, d.watching(), []daemon.Component{d.deliver()}), nil
		})
	}
	return a.withStore(cmd, func(ctx context.Context, store *sql.Store) error {
		if err := store.CheckVersion(ctx); err != nil {
			return err
		}
		d, s, err := prepare(ctx, store)
		if err != nil {
			return err
		}
		return errors.Join(a.sendOnce(ctx, d, s), d.close())
	})
}

// sendOnce claims what is ready and delivers it meanwhile. It is an error if a
// message was refused: that one waits in the outbox.
func (a *app) sendOnce(ctx context.Context, d *dispatcher, s sender) error {
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
	stopClaiming() // after an error nothing makes room for more
	<-done
	if sent.Confirmed > 0 {
		a.log.Info("messages sent", "messages", sent.Confirmed)
	}
	if sent.Refused > 0 {
		err = errors.Join(err, fmt.Errorf("the broker refused %d messages; they wait in the outbox, and the log has the reasons", sent.Refused))
	}
	return errors.Join(claimErr, err)
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
