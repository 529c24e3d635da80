package maintenance

import (
	"context"
	"time"

	"swh-scheduler/sql/db"
)

// Counts returns the jobs that count origins, runs and ready tasks for monitoring. Each works for at most countTime
// of a period, until it has counted all.
func Counts(store *db.Store) []Job {
	job := func(name string, period time.Duration, count func(context.Context) (ended bool, err error)) Job {
		return Job{Name: name, Period: period, Do: func(ctx context.Context) (string, error) {
			ended, err := count(ctx)
			if !ended || err != nil {
				return "", err
			}
			return "all are counted", nil
		}}
	}
	origins := job("count of origins", time.Minute, func(ctx context.Context) (bool, error) { return store.CountOrigins(ctx, countTime) })
	origins.Origins = true
	return []Job{
		origins,
		job("count of runs", time.Minute, func(ctx context.Context) (bool, error) { return store.CountRuns(ctx, store.Now(), countTime) }),
		job("count of ready tasks", 20*time.Second, func(ctx context.Context) (bool, error) { return store.CountReady(ctx, store.Now(), countTime) }),
	}
}

const countTime = 5 * time.Second
