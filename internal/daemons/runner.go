package daemons

import (
	"context"
	"maps"
	"time"

	"swh-scheduler/internal/backend"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/maintenance"
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
	// LostBefore, if not nil, returns maintenance.LostOptions' Before. zone is that of dates without one.
	LostBefore func(zone *time.Location) time.Time
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
			Listen: store.Listener(db.GraphChannel),
		}
		note := func(ctx context.Context) error { return store.NoteSending(ctx, r.WithPriority) }
		if err := r.patiently(ctx, store, note); err != nil { // before anything is sent
			return sender{}, err
		}
		jobs := []maintenance.Job{maintenance.NoteOfSending(store, r.WithPriority)}
		laning, err := r.laning(ctx, store, d)
		if err != nil {
			return sender{}, err
		}
		also := laning
		if r.WithPriority {
			o.Listen = store.Listener(db.GraphChannel, db.PriorityChannel)
		} else {
			sharing, err := r.sharing(ctx, store, false)
			if err != nil {
				return sender{}, err
			}
			lost, err := r.lostRuns(ctx, store, d)
			if err != nil {
				return sender{}, err
			}
			also, jobs = append(also, sharing), append(jobs, lost, maintenance.Archive(store, r.Config.Archive, r.Log, r.Metrics))
		}
		n := runner.New(o)
		once := func(ctx context.Context) (int, error) {
			mend := maintenance.Keeper{Store: store, Jobs: []maintenance.Job{maintenance.Graphs(store)}}
			if err := mend.RunOnce(ctx); err != nil {
				r.Log.Warn("waiting tasks of graphs were not checked", "error", err)
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
	return v.send(ctx, v.Period, func(ctx context.Context, store *db.Store, d *dispatcher) (sender, error) {
		dividing, err := v.dividing(ctx, store, d, false)
		if err != nil {
			return sender{}, err
		}
		f := runner.NewFirstVisits(runner.FirstVisitsOptions{
			Store: store, Slots: d.slots, Log: v.Log, Reg: v.Metrics, Period: v.Period, Shares: v.Config.Shares, Lanes: v.Config.Lanes,
		})
		return sender{name: "runner of first visits", run: f.Run, once: f.RunOnce, also: dividing}, nil
	})
}

// lostRuns returns the job that gives up lost runs.
func (r *Runner) lostRuns(ctx context.Context, store *db.Store, d *dispatcher) (maintenance.Job, error) {
	o := maintenance.LostOptions{Store: store, Lengths: d.inspector, Log: r.Log, Reg: r.Metrics}
	if r.LostBefore != nil {
		err := r.patiently(ctx, store, func(ctx context.Context) error {
			zone, err := backend.Zone(ctx, store)
			o.Before = r.LostBefore(zone)
			return err
		})
		if err != nil {
			return maintenance.Job{}, err
		}
	}
	o.After = lostAfter(r.Config, r.LostAfter)
	job := maintenance.NewLostRuns(o).Job()
	job.Unconfigured = len(o.After) == 0
	return job, nil
}

// lostAfter returns the configuration's, with another default.
func lostAfter(c *config.Config, otherwise time.Duration) map[string]time.Duration {
	after := map[string]time.Duration{}
	if otherwise > 0 {
		after["default"] = otherwise
	}
	maps.Copy(after, c.LostAfter)
	return after
}
