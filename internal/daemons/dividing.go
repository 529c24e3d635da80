package daemons

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/process"
	"swh-scheduler/internal/send"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

// dividing returns the components of a daemon of visits that divide its work between groups, lanes and hosters: see
// sharing, laning and hosting.
func dividing(ctx context.Context, p *process.Process, d *send.Delivery, visits bool) ([]service.Component, error) {
	ofShares, err := sharing(ctx, p, visits)
	if err != nil {
		return nil, err
	}
	ofLanes, err := laning(ctx, p, d)
	if err != nil {
		return nil, err
	}
	ofHosters, err := hosting(ctx, p)
	return slices.Concat(ofHosters, []service.Component{ofShares}, ofLanes), err
}

// sharing checks that the database is ready for the configured shares, and warns of unknown names. It returns the
// component that measures shares: ready tasks and, if the process sends visits, origins that are due.
func sharing(ctx context.Context, p *process.Process, visits bool) (service.Component, error) {
	c := p.Config
	err := p.RetryAtStart(ctx, func(ctx context.Context) error {
		if len(c.Shares) == 0 {
			return nil
		}
		if err := p.Store.CheckShares(ctx, c.Shares); err != nil {
			return err
		}
		return warnOfShares(ctx, p, c.Shares)
	})
	policies := c.SchedulingPolicy
	if !visits {
		policies = nil
	}
	gauges := dispatch.NewShareGauges(p.Store, func(ctx context.Context) ([]dispatch.SharedQueue, error) {
		return dispatch.SharedQueues(ctx, p.Store, c.Shares, policies)
	}, p.Log, p.Metrics)
	return service.Component{Name: "gauges of shares", Run: gauges.Run}, err
}

// hosting warns of unknown instances of listers, and returns the component that measures hosters; none without
// limits.
func hosting(ctx context.Context, p *process.Process) ([]service.Component, error) {
	if !p.Config.Hosters.Any() {
		return nil, nil
	}
	var known []string
	err := p.RetryAtStart(ctx, func(ctx context.Context) error {
		listers, err := p.Store.Listers(ctx)
		known = groupsThatCanBe(model.ShareByListerInstance, nil, listers)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, hoster := range slices.Sorted(maps.Keys(p.Config.Hosters.Limits)) {
		if model.IsInstance(hoster) && !slices.Contains(known, hoster) {
			warnOfName(p.Log, "hosters limit an instance of a lister that does not exist", hoster, known)
		}
	}
	gauges := dispatch.NewHosterGauges(p.Store, p.Config.Hosters, p.Log, p.Metrics)
	return []service.Component{{Name: "gauges of hosters", Run: gauges.Run}}, nil
}

// laning warns of lanes of unknown task types and returns the component that sends to lanes; none without
// lanes.
func laning(ctx context.Context, p *process.Process, d *send.Delivery) ([]service.Component, error) {
	lanes := p.Config.Lanes
	if len(lanes) == 0 {
		return nil, nil
	}
	err := p.RetryAtStart(ctx, func(ctx context.Context) error {
		types, err := p.Store.TaskTypes(ctx)
		if err != nil {
			return err
		}
		names := typeNames(types)
		for _, laneSet := range slices.Sorted(maps.Keys(lanes)) {
			if tt, _, ok := model.TypeOf(laneSet, types); !ok {
				warnOfName(p.Log, "lanes are configured for a task type that does not exist", laneSet, names)
			} else if r := p.Config.Celery.Sending.Route(tt.BackendName); r != nil && r.Exchange != "" {
				return fmt.Errorf("the lanes of %s can't work, as celery.task_routes sends its messages to the exchange %q: remove one of both", laneSet, r.Exchange)
			}
		}
		// The lane sets are recorded before work may come into their backlogs.
		return p.Store.RecordLaneSets(ctx, slices.Collect(maps.Keys(lanes)), p.Store.Now())
	})
	pump := dispatch.NewLanePump(dispatch.LanePumpOptions{
		Store: p.Store, Slots: d.Slots, Log: p.Log, Reg: p.Metrics, Listen: p.Store.Listener(db.LaneChannel),
		Queues: func(ctx context.Context) ([]dispatch.Queue, error) { return dispatch.LanedQueues(ctx, p.Store, lanes) },
	})
	return []service.Component{{Name: "lanes", Run: pump.Run}}, err
}
