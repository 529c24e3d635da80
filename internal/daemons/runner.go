package daemons

import (
	"context"
	"maps"
	"slices"
	"time"

	"swh-scheduler/internal/keep"
	"swh-scheduler/runner"
	"swh-scheduler/sql/db"
)

// Runner sends ready tasks every Period, or once if that is 0.
type Runner struct {
	Options
	Period           time.Duration
	TaskTypes        []string // none: all
	TaskTypePatterns []string
	WithPriority     bool
	LostAfter        time.Duration // default of the configuration's lost_after; 0 is never
}

// Run returns backend.UnknownTaskType for an unknown task type.
func (r *Runner) Run(ctx context.Context) error {
	if r.WithPriority {
		r.daemon = r.Command + " --with-priority"
	}
	return r.send(ctx, r.Period, func(ctx context.Context, store *db.Store, d *dispatcher) (sender, error) {
		if err := r.checkTaskTypes(ctx, store, r.TaskTypes); err != nil {
			return sender{}, err
		}
		o := runner.Options{
			Store: store, Slots: d.slots, Log: r.Log, Reg: r.Metrics,
			Period: r.Period, TaskTypes: r.TaskTypes, TaskTypePatterns: r.TaskTypePatterns, WithPriority: r.WithPriority,
			Ageing: r.Config.PriorityAgeing, Shares: r.Config.Shares, Lanes: r.Config.Lanes,
			Listen: store.ListenGraphs,
		}
		var jobs []keep.Job
		also, err := r.laning(ctx, store, d)
		if err != nil {
			return sender{}, err
		}
		if r.WithPriority {
			o.Listen = store.ListenPriorityTasks
		} else {
			sharing, err := r.sharing(ctx, store)
			if err != nil {
				return sender{}, err
			}
			also, jobs = slices.Concat(also, sharing), append(r.lostRuns(store, d, r.LostAfter), r.archive(store)...)
		}
		n := runner.New(o)
		once := func(ctx context.Context) (int, error) {
			mend := keep.Keeper{Store: store, Jobs: []keep.Job{mendGraphs(store)}}
			if err := mend.RunOnce(ctx); err != nil {
				r.Log.Warn("forgotten tasks of graphs not looked for", "error", err)
			}
			return n.Drain(ctx)
		}
		return sender{name: "runner", run: n.Run, once: once, also: also, jobs: jobs}, nil
	})
}

// FirstVisits sends the visits of newly listed origins to the listers' queues for first
// visits, every Period, or once if that is 0.
type FirstVisits struct {
	Options
	Period time.Duration
}

func (v *FirstVisits) Run(ctx context.Context) error {
	return v.send(ctx, v.Period, func(_ context.Context, store *db.Store, d *dispatcher) (sender, error) {
		f := runner.NewFirstVisits(runner.FirstVisitsOptions{
			Store: store, Slots: d.slots, Log: v.Log, Reg: v.Metrics, Period: v.Period,
		})
		return sender{name: "runner of first visits", run: f.Run, once: f.RunOnce}, nil
	})
}

// lostRuns returns the job that gives up lost runs, if it is configured.
func (o *Options) lostRuns(store *db.Store, d *dispatcher, otherwise time.Duration) []keep.Job {
	after := map[string]time.Duration{}
	if otherwise > 0 {
		after["default"] = otherwise
	}
	maps.Copy(after, o.Config.LostAfter)
	if len(after) == 0 {
		return nil
	}
	l := runner.NewLostRuns(runner.LostOptions{Store: store, Lengths: d.inspector, Log: o.Log, Reg: o.Metrics, After: after})
	return []keep.Job{l.Job()}
}
