package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// DueJobs returns those of the jobs, given with their periods, that [JobStore.Keep] would do now,
// and the errors of the jobs whose last run, in any process, failed. A job that failed is due again after retry,
// if its period is longer. It is one statement.
func (s JobStore) DueJobs(ctx context.Context, periods map[string]time.Duration, retry time.Duration) (due []string, failures map[string]error, err error) {
	p := queries.DueKeeperJobsParams{AfterFailure: retry.Seconds()}
	for job, period := range periods {
		p.Jobs, p.Periods = append(p.Jobs, job), append(p.Periods, period.Seconds())
	}
	rows, err := s.q.DueKeeperJobs(ctx, p)
	failures = map[string]error{}
	for _, row := range rows {
		if row.Due {
			due = append(due, row.Job)
		}
		if row.Failure != "" {
			failures[row.Job] = errors.New(row.Failure)
		}
	}
	return due, failures, stmt.Failed(err, "look for maintenance jobs that are due")
}

// MayMaintainOrigins reports whether the user has the rights for jobs about origins. That of start-listener has not.
func (s JobStore) MayMaintainOrigins(ctx context.Context) (bool, error) {
	may, err := s.q.MayMaintainOrigins(ctx)
	return may, stmt.Failed(err, "look whether the user has rights on origins")
}

// RunJob does a job if its last run began a period ago, or failed and began retry ago, by the database's clock, and no
// other process is doing it. do is cancelled after timeout; after twice that time others
// may take over from a process that died. It reports whether the job was done.
//
// do returns what it did, in words for operators. They, or its error, are kept in the job's row.
func (s JobStore) RunJob(ctx context.Context, job string, period, retry, timeout time.Duration, do func(ctx context.Context) (string, error)) (done bool, err error) {
	began, err := s.q.TakeKeeperJob(ctx, queries.TakeKeeperJobParams{
		Job: job, Lease: 2 * timeout.Seconds(), Period: period.Seconds(), AfterFailure: retry.Seconds(),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("take job: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	result, jobErr := do(bounded)
	cancel()
	if jobErr != nil {
		result = jobErr.Error()
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout) // also if the process stops
	defer cancel()
	err = s.q.EndKeeperJob(ending, queries.EndKeeperJobParams{Job: job, Began: began, Result: result, Failed: jobErr != nil})
	if err != nil {
		return true, errors.Join(jobErr, fmt.Errorf("record the result of the job: %w", err))
	}
	return true, jobErr
}

// MaintenanceJobs lists the jobs by name, and how the last run of each went.
func (a JobStore) MaintenanceJobs(ctx context.Context) ([]queries.KeeperJobsRow, error) {
	jobs, err := a.q.KeeperJobs(ctx)
	return jobs, stmt.Failed(err, "list maintenance jobs")
}
