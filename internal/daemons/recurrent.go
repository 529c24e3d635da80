package daemons

import (
	"context"
	"slices"

	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/process"
	"swh-scheduler/internal/service"
	"swh-scheduler/recurrent"
)

// Recurrent sends due visits.
type Recurrent struct {
	process.Options
	VisitTypes []string // none: those of all task types load-*
}

// Run runs it until ctx ends. It returns model.UnknownTaskType for an unknown visit type.
func (r *Recurrent) Run(ctx context.Context) error {
	taskTypes := make([]string, len(r.VisitTypes))
	for i, visitType := range r.VisitTypes {
		taskTypes[i] = model.LoaderTaskType(visitType)
	}
	broker, err := r.Config.Broker()
	if err != nil {
		return err
	}
	return process.Run(ctx, r.Options, func(ctx context.Context, p *process.Process) ([]service.Component, error) {
		if err := p.RetryAtStart(ctx, func(ctx context.Context) error { return model.CheckTaskTypes(ctx, p.Store, taskTypes) }); err != nil {
			return nil, err
		}
		c, d := p.Config, newDelivery(p, broker)
		configure := func(ctx context.Context) error {
			return maintenance.ConfigureFreshness(ctx, p.Store, c.SchedulingPolicy)
		}
		if err := p.RetryAtStart(ctx, configure); err != nil {
			return nil, err
		}
		s := recurrent.New(recurrent.Options{
			Store: p.Store, Slots: d.Slots, Log: p.Log, Reg: p.Metrics,
			VisitTypes: r.VisitTypes, Policies: c.SchedulingPolicy, Shares: c.Shares, Lanes: c.Lanes,
			NoOriginsBackoff: c.NoOriginsScheduledBackoff, QueueFullBackoff: c.QueueFullBackoff,
		})
		also, err := dividing(ctx, p, d, true)
		return slices.Concat([]service.Component{{Name: "visit scheduler", Run: s.Run}}, also, delivering(p, d, maintenance.Freshness(p.Store, c.SchedulingPolicy), maintenance.Refusals(p.Store))), err
	})
}
