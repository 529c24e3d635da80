package process

import (
	"context"
	"errors"
	"time"

	"swh-scheduler/internal/service"
	"swh-scheduler/sql/migrate"
)

const (
	contactPeriod  = 5 * time.Second // between two checks of a service
	contactTimeout = 10 * time.Second
)

// contactWithDatabase returns a component that checks whether the database answers and is still the scheduler's, also
// while the daemon is idle. CheckVersion reads the database's time, too: the monotonic clock, by which Store.Now goes on,
// stops while the host is suspended, and the database's clock may be set.
func (p *Process) contactWithDatabase() service.Component {
	return p.Probe("PostgreSQL", func(ctx context.Context) error {
		err := service.Within(ctx, contactTimeout, p.Store.CheckVersion)
		if s := p.Store.Pool().Stat(); errors.Is(err, context.DeadlineExceeded) && s.AcquiredConns() == s.MaxConns() {
			err = nil // the pool is exhausted, which has a metric of its own
		}
		return err
	})
}

// Probe returns a component that calls ask every contactPeriod. While ask fails, the daemon is not ready.
func (p *Process) Probe(name string, ask func(ctx context.Context) error) service.Component {
	s := service.NewService(p.Log, name)
	p.Health.Watch(s)
	loop := service.Loop{
		Name: "asking " + name, Log: p.Log, Period: contactPeriod, CutShort: true,
		RunOnce: func(ctx context.Context) (service.Result, error) {
			switch err := ask(ctx); {
			case ctx.Err() != nil:
			case errors.Is(err, migrate.ErrNotMigrated), errors.Is(err, migrate.ErrUnsupported):
				s.Refused(err)
			default:
				s.Tried(err)
			}
			return service.Result{}, nil
		},
	}
	return service.Component{Name: "contact with " + name, Run: loop.Run}
}
