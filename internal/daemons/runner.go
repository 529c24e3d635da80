package daemons

import (
	"context"
	"maps"
	"time"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/process"
	"swh-scheduler/internal/send"
	"swh-scheduler/runner"
	"swh-scheduler/sql/db"
)

// Runner sends ready tasks every Period, or once if that is 0.
type Runner struct {
	process.Options
	Period           time.Duration
	TaskTypes        []string // none: all
	TaskTypePatterns []string
	WithPriority     bool
	LostAfter        time.Duration // default of the configuration's lost_after; 0 is never
	LostBefore       time.Time     // maintenance.LostOptions' Before
}

// Run runs it until ctx ends. It returns model.UnknownTaskType for an unknown task type.
func (r *Runner) Run(ctx context.Context) error {
	o := r.Options
	if r.WithPriority {
		o.Name = r.Command + " --with-priority"
	}
	return runSender(ctx, o, r.Period, r.build)
}

// build returns the sender of tasks, and the maintenance jobs of a runner.
func (r *Runner) build(ctx context.Context, p *process.Process, d *send.Delivery) (sender, error) {
	if err := p.RetryAtStart(ctx, func(ctx context.Context) error { return model.CheckTaskTypes(ctx, p.Store, r.TaskTypes) }); err != nil {
		return sender{}, err
	}
	if len(r.TaskTypes)+len(r.TaskTypePatterns) > 0 {
		p.Restriction = &model.Restriction{TaskTypes: r.TaskTypes, Patterns: r.TaskTypePatterns}
	}
	// This comes before anything is sent; the job below repeats it.
	if err := p.RetryAtStart(ctx, func(ctx context.Context) error { return p.Store.NoteSending(ctx, r.WithPriority) }); err != nil {
		return sender{}, err
	}
	jobs := []maintenance.Job{maintenance.RecordSending(p.Store, r.WithPriority)}
	also, err := laning(ctx, p, d)
	if err != nil {
		return sender{}, err
	}
	var n *runner.Runner
	listen := p.Store.Listener(db.GraphChannel, db.PriorityChannel)
	if !r.WithPriority { // one kind of runner is enough for these jobs
		listen = p.Store.ListenerBeside(db.PriorityChannel, func() { n.PriorityCameIn() }, db.GraphChannel)
		ofShares, err := sharing(ctx, p, false)
		if err != nil {
			return sender{}, err
		}
		also, jobs = append(also, ofShares), append(jobs, r.lostRuns(p, d), maintenance.Archive(p.Store, p.Config.Archive, p.Log, p.Metrics))
	}
	n = runner.New(runner.Options{
		Store: p.Store, Slots: d.Slots, Log: p.Log, Reg: p.Metrics,
		Period: r.Period, TaskTypes: r.TaskTypes, TaskTypePatterns: r.TaskTypePatterns, WithPriority: r.WithPriority,
		Ageing: p.Config.PriorityAgeing, Shares: p.Config.Shares, Lanes: p.Config.Lanes,
		Listen: listen,
	})
	once := func(ctx context.Context) (int, error) {
		mend := maintenance.Keeper{Store: p.Store, Jobs: []maintenance.Job{maintenance.Graphs(p.Store)}}
		if err := mend.RunOnce(ctx); err != nil {
			p.Log.Warn("waiting tasks of graphs were not checked", "error", err)
		}
		return n.Drain(ctx)
	}
	return sender{name: "runner", run: n.Run, once: once, also: also, jobs: jobs}, nil
}

// lostRuns returns the job that gives up lost runs.
func (r *Runner) lostRuns(p *process.Process, d *send.Delivery) maintenance.Job {
	o := maintenance.LostOptions{Store: p.Store, Broker: d.Inspector, Log: p.Log, Reg: p.Metrics, After: lostAfter(p.Config, r.LostAfter), Before: r.LostBefore}
	job := maintenance.NewLostRuns(o).Job()
	job.Unconfigured = len(o.After) == 0
	return job
}

// lostAfter returns the configuration's lost_after, with otherwise as its default.
func lostAfter(c *config.Config, otherwise time.Duration) map[string]time.Duration {
	after := map[string]time.Duration{}
	if otherwise > 0 {
		after["default"] = otherwise
	}
	maps.Copy(after, c.LostAfter)
	return after
}
