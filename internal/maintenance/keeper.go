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

// pollPeriod is how often a Keeper looks for jobs that are due.
const pollPeriod = 10 * time.Second

// retryAfter is how long after a failure a job is tried again, if its period is longer.
const retryAfter = time.Minute

// DefaultTimeout bounds a job.
const DefaultTimeout = 30 * time.Second

// Job is a maintenance job.
type Job struct {
	Name    string // of its row; the same in all processes
	Period  time.Duration
	Timeout time.Duration // 0: DefaultTimeout
	// Unconfigured leaves the job to other processes.
	Unconfigured bool
	// Origins leaves the job to other processes where the user of the database has no rights on origins: that of
	// start-listener, which has none on the tables of these jobs either.
	Origins bool
	// Do does the job. It returns what it did, in a few words, or "".
	Do func(ctx context.Context) (string, error)
}

// Store lets one process at a time do a job.
type Store interface {
	MayMaintainOrigins(ctx context.Context) (bool, error)
	DueJobs(ctx context.Context, periods map[string]time.Duration, retry time.Duration) (due []string, failures map[string]error, err error)
	RunJob(ctx context.Context, job string, period, retry, timeout time.Duration, do func(ctx context.Context) (string, error)) (done bool, err error)
}

// Keeper does jobs.
type Keeper struct {
	Name  string // of its loop; "" is "maintenance"
	Store Store
	Jobs  []Job
	Log   *slog.Logger
}

// Run does what is due until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	return (&service.Loop{
		Name: cmp.Or(k.Name, "maintenance"), Log: k.Log,
		RunOnce: func(ctx context.Context) (service.Result, error) { return service.Result{}, k.RunOnce(ctx) },
		Period:  pollPeriod, Jitter: true, Optional: true,
	}).Run(ctx)
}

// RunOnce does what is due, which it asks in one statement. A job that fails doesn't hold up
// the others. Until it goes well, in whichever process, its failure is an error of every round.
func (k *Keeper) RunOnce(ctx context.Context) error {
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
		if slices.Contains(due, job.Name) {
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
