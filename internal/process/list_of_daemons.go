package process

import (
	"context"
	"os"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

// listOfDaemons returns a component that writes the daemon's row for the dashboard once a minute, with its health, and
// removes the row at its end.
func (p *Process) listOfDaemons() service.Component {
	host, _ := os.Hostname() // "" if unknown
	d := db.Daemon{ID: uuid.New(), Name: p.name(), Version: p.Version, Host: host, Started: time.Now(), State: db.DaemonState{Restriction: p.Restriction}}
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
