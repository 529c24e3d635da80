package recurrent

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
)

// visitTypesPeriod is how often the task types are looked at.
const visitTypesPeriod = 10 * time.Second

// visitTypes runs a loop for each visit type that there is.
type visitTypes struct {
	*Scheduler
	start   func(visitType string) (stop context.CancelFunc)
	running map[string]context.CancelFunc // what stops the loops, by visit type
	known   []string                      // as they were logged
	told    bool                          // that there is none
}

// followVisitTypes starts loops in the group, and stops them, until ctx ends.
func (s *Scheduler) followVisitTypes(ctx context.Context, loops *errgroup.Group) error {
	v := visitTypes{Scheduler: s, running: make(map[string]context.CancelFunc), start: func(visitType string) context.CancelFunc {
		ctx, stop := context.WithCancel(ctx)
		loops.Go(func() error { return s.loop(visitType).Run(ctx) })
		return stop
	}}
	return (&service.Loop{
		Name: "looking for visit types", Log: s.Log,
		RunOnce: v.look, Period: s.typesPeriod,
	}).Run(ctx)
}

// look starts the loops of new visit types, and ends those of visit types that are gone.
func (v *visitTypes) look(ctx context.Context) (service.Result, error) {
	wanted, err := wantedTypes(ctx, v.Store, v.VisitTypes)
	if err != nil {
		return service.Result{}, err
	}
	if !slices.Equal(wanted, v.known) {
		v.known = wanted
		v.Log.Info("scheduling recurrent visits", "visit_types", wanted)
	} else if len(wanted) == 0 && !v.told {
		v.told = true
		v.Log.Warn("there is no task type load-*, so there is nothing to visit; waiting for one")
	}
	for visitType, stop := range v.running {
		if !slices.Contains(wanted, visitType) {
			stop()
			delete(v.running, visitType)
		}
	}
	for _, visitType := range wanted {
		if _, ok := v.running[visitType]; !ok {
			v.running[visitType] = v.start(visitType)
		}
	}
	return service.Result{}, nil
}

// wantedTypes returns those visit types, or else those of the loaders' task types.
func wantedTypes(ctx context.Context, from interface {
	TaskTypes(ctx context.Context) ([]model.TaskType, error)
}, asked []string) ([]string, error) {
	if len(asked) > 0 {
		return asked, nil
	}
	types, err := from.TaskTypes(ctx)
	if err != nil {
		return nil, err
	}
	var visitTypes []string
	for _, tt := range types {
		if visitType, ok := model.LoadedVisitType(tt.Type); ok {
			visitTypes = append(visitTypes, visitType)
		}
	}
	return visitTypes, nil
}
