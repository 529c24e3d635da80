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

// DueJobs returns the jobs that [JobStore.RunJob] would run now; periods are by job. It also returns the
// error of each job whose last run, in any process, failed. A failed job is due again after retry, if its
// period is longer. DueJobs is one statement.
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
	return due, failures, stmt.Failed(err, "find maintenance jobs that are due")
}

// MayMaintainOrigins reports whether the user has the rights for jobs about origins. The role of
// start-listener lacks them.
func (s JobStore) MayMaintainOrigins(ctx context.Context) (bool, error) {
	may, err := s.q.MayMaintainOrigins(ctx)
	return may, stmt.Failed(err, "check whether the user has rights on origins")
}

// RunJob runs do if the job's last run began a period ago, or failed and began retry ago, by the database's
// clock. It does nothing while another process runs the job. RunJob cancels do after timeout; after twice
// that time another process may take the job over. It reports whether it ran do.
//
// do returns its result in words for operators. RunJob stores the result or the error in the job's row.
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
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout) // the record is written even while the process stops
	defer cancel()
	err = s.q.EndKeeperJob(ending, queries.EndKeeperJobParams{Job: job, Began: began, Result: result, Failed: jobErr != nil})
	if err != nil {
		return true, errors.Join(jobErr, fmt.Errorf("record the result of the job: %w", err))
	}
	return true, jobErr
}

// MaintenanceJobs lists the jobs by name, with the result of each last run.
func (a JobStore) MaintenanceJobs(ctx context.Context) ([]queries.KeeperJobsRow, error) {
	jobs, err := a.q.KeeperJobs(ctx)
	return jobs, stmt.Failed(err, "list maintenance jobs")
}
