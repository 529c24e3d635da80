package daemons

import (
	"context"
	"time"

	"swh-scheduler/internal/process"
	"swh-scheduler/internal/send"
	"swh-scheduler/runner"
)

// FirstVisits sends the visits of newly listed origins to the listers' queues for first
// visits, every Period, or once if that is 0.
type FirstVisits struct {
	process.Options
	Period time.Duration
}

// Run runs it until ctx ends.
func (v *FirstVisits) Run(ctx context.Context) error {
	return runSender(ctx, v.Options, v.Period, func(ctx context.Context, p *process.Process, d *send.Delivery) (sender, error) {
		also, err := dividing(ctx, p, d, false)
		if err != nil {
			return sender{}, err
		}
		f := runner.NewFirstVisits(runner.FirstVisitsOptions{
			Store: p.Store, Slots: d.Slots, Log: p.Log, Reg: p.Metrics, Period: v.Period, Shares: p.Config.Shares, Lanes: p.Config.Lanes,
		})
		return sender{name: "runner of first visits", run: f.Run, once: f.RunOnce, also: also}, nil
	})
}
