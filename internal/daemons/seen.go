package daemons

import (
	"context"
	"os"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

// seen returns a component that writes into the database, for the dashboard, once a minute that
// the daemon runs and how it is, and at the end that it has stopped.
func (o *Options) seen(store *db.Store) service.Component {
	host, _ := os.Hostname() // "" if it is not known
	d := db.Daemon{ID: uuid.New(), Name: o.name(), Version: o.Version, Host: host, Started: time.Now()}
	return service.Component{Name: "list of daemons", Run: func(ctx context.Context) error {
		err := service.Every(ctx, time.Minute, o.Log, "updating the list of daemons", func(ctx context.Context) error {
			d.State.Waiting, d.State.Overdue = o.health.Durations()
			d.State.Last = o.health.LastRounds()
			if o.workers != nil {
				d.State.Workers = o.workers()
			}
			return service.Within(ctx, contactTimeout, func(ctx context.Context) error { return store.SeeDaemon(ctx, d) })
		})
		remove := func(ctx context.Context) error { return store.RemoveDaemon(ctx, d.ID) }
		if err := service.Within(service.InFlight(ctx), time.Second, remove); err != nil {
			o.Log.Debug("this daemon stays in the list of daemons for a day", "error", err)
		}
		return err
	}}
}
