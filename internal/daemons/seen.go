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
			ctx, cancel := context.WithTimeout(ctx, contactTimeout)
			defer cancel()
			d.State.Waiting, d.State.Overdue = o.health.Durations()
			d.State.Last = o.health.LastRounds()
			if o.workers != nil {
				d.State.Workers = o.workers()
			}
			return store.SeeDaemon(ctx, d)
		})
		last, cancel := context.WithTimeout(service.InFlight(ctx), time.Second)
		defer cancel()
		if err := store.RemoveDaemon(last, d.ID); err != nil {
			o.Log.Debug("this daemon stays in the list of daemons for a day", "error", err)
		}
		return err
	}}
}
