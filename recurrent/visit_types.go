package recurrent

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
)

// visitTypesPeriod is how often the task types are read.
const visitTypesPeriod = 10 * time.Second

// visitTypes runs a loop for each visit type.
type visitTypes struct {
	*Scheduler
	start   func(visitType string) (stop context.CancelFunc)
	running map[string]context.CancelFunc // the functions that stop the loops, by visit type
	logged  []string                      // the visit types of the last log entry
	warned  bool                          // that there is no visit type, once
}

// followVisitTypes starts and stops loops of the group until ctx ends.
func (s *Scheduler) followVisitTypes(ctx context.Context, loops *errgroup.Group) error {
	v := visitTypes{Scheduler: s, running: make(map[string]context.CancelFunc), start: func(visitType string) context.CancelFunc {
		ctx, stop := context.WithCancel(ctx)
		loops.Go(func() error { return s.loop(visitType).Run(ctx) })
		return stop
	}}
	return (&service.Loop{
		Name: "reading visit types", Log: s.Log,
		RunOnce: v.update, Period: s.typesPeriod,
	}).Run(ctx)
}

// update starts loops for new visit types and stops the loops of removed ones.
func (v *visitTypes) update(ctx context.Context) (service.Result, error) {
	wanted, err := wantedTypes(ctx, v.Store, v.VisitTypes)
	if err != nil {
		return service.Result{}, err
	}
	if !slices.Equal(wanted, v.logged) {
		v.logged = wanted
		v.Log.Info("scheduling recurrent visits", "visit_types", wanted)
	} else if len(wanted) == 0 && !v.warned {
		v.warned = true
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

// wantedTypes returns asked if it is not empty, and otherwise the visit types of all task types load-*.
func wantedTypes(ctx context.Context, store interface {
	TaskTypes(ctx context.Context) ([]model.TaskType, error)
}, asked []string) ([]string, error) {
	if len(asked) > 0 {
		return asked, nil
	}
	types, err := store.TaskTypes(ctx)
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
