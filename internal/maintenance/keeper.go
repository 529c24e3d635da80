package maintenance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"swh-scheduler/internal/service"
)

// pollPeriod is the period at which a Keeper queries the due jobs.
const pollPeriod = 10 * time.Second

// retryAfter is the delay after a failure, if the job's period is longer.
const retryAfter = time.Minute

// DefaultTimeout bounds a job.
const DefaultTimeout = 30 * time.Second

// Job is a maintenance job.
type Job struct {
	Name    string // key of its row, the same in all processes
	Period  time.Duration
	Timeout time.Duration // 0: DefaultTimeout
	// Unconfigured leaves the job to other processes.
	Unconfigured bool
	// Origins leaves the job to other processes if the user of the database has no rights on origins. That is the
	// user of start-listener, which has no rights on the tables of these jobs either.
	Origins bool
	// Do runs the job. It returns a short result, such as "3 rows deleted", or "" if there was nothing to do.
	Do func(ctx context.Context) (string, error)
}

// Store runs each job in one process at a time.
type Store interface {
	MayMaintainOrigins(ctx context.Context) (bool, error)
	DueJobs(ctx context.Context, periods map[string]time.Duration, retry time.Duration) (due []string, failures map[string]error, err error)
	RunJob(ctx context.Context, job string, period, retry, timeout time.Duration, do func(ctx context.Context) (string, error)) (done bool, err error)
}

// Keeper runs jobs.
type Keeper struct {
	Name  string // of its loop; "" is "maintenance"
	Store Store
	Jobs  []Job
	Log   *slog.Logger
}

// Run runs due jobs until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	return (&service.Loop{
		Name: cmp.Or(k.Name, "maintenance"), Log: k.Log,
		RunOnce: func(inFlight context.Context) (service.Result, error) {
			return service.Result{}, k.runOnce(inFlight, ctx)
		},
		Period: pollPeriod, Jitter: true, Optional: true,
	}).Run(ctx)
}

// RunOnce runs the due jobs, which one statement finds. A job that fails doesn't stop the others. Every round returns
// its failure until the job succeeds, in any process.
func (k *Keeper) RunOnce(ctx context.Context) error { return k.runOnce(ctx, ctx) }

// runOnce is RunOnce. It begins no job after stopping has ended.
func (k *Keeper) runOnce(ctx, stopping context.Context) error {
	jobs, err := k.own(ctx)
	if err != nil {
		return err
	}
	periods := make(map[string]time.Duration, len(jobs))
	for _, job := range jobs {
		periods[job.Name] = job.Period
	}
	if len(periods) == 0 {
		return nil
	}
	due, failures, err := k.Store.DueJobs(ctx, periods, retryAfter)
	if err != nil {
		return err
	}
	var failed []error
	for _, job := range jobs {
		failure := failures[job.Name]
		if slices.Contains(due, job.Name) && stopping.Err() == nil {
			done, err := k.Store.RunJob(ctx, job.Name, job.Period, retryAfter, cmp.Or(job.Timeout, DefaultTimeout), job.Do)
			if done || err != nil {
				failure = err
			}
		}
		if failure != nil {
			failed = append(failed, fmt.Errorf("%s: %w", job.Name, failure))
		}
	}
	return errors.Join(failed...)
}

// own returns the jobs that this process can do.
func (k *Keeper) own(ctx context.Context) (jobs []Job, err error) {
	may := true
	if slices.ContainsFunc(k.Jobs, func(job Job) bool { return job.Origins }) {
		may, err = k.Store.MayMaintainOrigins(ctx)
	}
	for _, job := range k.Jobs {
		if !job.Unconfigured && (may || !job.Origins) {
			jobs = append(jobs, job)
		}
	}
	return jobs, err
}
