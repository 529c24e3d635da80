package maintenance

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"swh-scheduler/internal/service"
)

// dueJobs is a store in which all jobs are due.
type dueJobs struct{}

func (dueJobs) MayMaintainOrigins(context.Context) (bool, error) { return true, nil }

func (dueJobs) DueJobs(_ context.Context, periods map[string]time.Duration, _ time.Duration) (due []string, _ map[string]error, _ error) {
	for job := range periods {
		due = append(due, job)
	}
	return due, nil, nil
}

func (dueJobs) RunJob(ctx context.Context, _ string, _, _, _ time.Duration, do func(ctx context.Context) (string, error)) (bool, error) {
	_, err := do(ctx)
	return true, err
}

// A keeper that stops finishes the job that runs, and begins no other.
func TestStoppingBeginsNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var component context.Context
		began, finished := make(chan struct{}, 5), 0
		k := &Keeper{Store: dueJobs{}, Log: slog.New(slog.DiscardHandler)}
		for i := range cap(began) {
			k.Jobs = append(k.Jobs, Job{Name: strconv.Itoa(i), Period: time.Hour, Do: func(ctx context.Context) (string, error) {
				began <- struct{}{}
				<-component.Done() // the keeper has been told to stop
				if ctx.Err() == nil {
					finished++
				}
				return "", nil
			}})
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		go func() {
			ended <- service.Group{Log: k.Log}.Run(ctx, service.Component{Name: "keeper", Run: func(ctx context.Context) error {
				component = ctx
				return k.Run(ctx)
			}})
		}()
		<-began
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if finished != 1 || len(began) > 0 {
			t.Errorf("%d jobs finished, and %d began after the stop", finished, len(began))
		}
	})
}
