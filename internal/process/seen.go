package process

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
func (p *Process) seen() service.Component {
	host, _ := os.Hostname() // "" if it is not known
	d := db.Daemon{ID: uuid.New(), Name: p.name(), Version: p.Version, Host: host, Started: time.Now()}
	return service.Component{Name: "list of daemons", Run: func(ctx context.Context) error {
		err := service.Every(ctx, time.Minute, p.Log, "updating the list of daemons", func(ctx context.Context) error {
			d.State.Waiting, d.State.Overdue = p.Health.Durations()
			d.State.Last = p.Health.LastRounds()
			if p.Workers != nil {
				d.State.Workers = p.Workers()
			}
			if p.Open != nil {
				d.State.Open = p.Open()
			}
			return service.Within(ctx, contactTimeout, func(ctx context.Context) error { return p.Store.RecordDaemon(ctx, d) })
		})
		remove := func(ctx context.Context) error { return p.Store.RemoveDaemon(ctx, d.ID) }
		if err := service.Within(service.InFlight(ctx), time.Second, remove); err != nil {
			p.Log.Debug("this daemon stays in the list of daemons for a day", "error", err)
		}
		return err
	}}
}
