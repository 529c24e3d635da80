package maintenance

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"swh-scheduler/internal/service"
)

// always is a store in which every job is due.
type always struct{}

func (always) DueJobs(_ context.Context, periods map[string]time.Duration, _ time.Duration) (due []string, _ map[string]error, err error) {
	for name := range periods {
		due = append(due, name)
	}
	return due, nil, nil
}

func (always) MayMaintainOrigins(context.Context) (bool, error) { return true, nil }

func (always) RunJob(ctx context.Context, _ string, _, _, _ time.Duration, do func(ctx context.Context) (string, error)) (bool, error) {
	_, err := do(ctx)
	return true, err
}

// A slow job makes the daemon neither stuck, which would restart it, nor unready.
func TestSlowJobLeavesTheDaemonReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		health := service.NewHealth()
		ctx, stop := context.WithCancel(service.WithHealth(t.Context(), health))
		k := Keeper{Store: always{}, Log: slog.New(slog.DiscardHandler), Jobs: []Job{{Name: "slow", Do: func(context.Context) (string, error) {
			time.Sleep(time.Hour)
			return "", nil
		}}}}
		ended := make(chan error)
		go func() { ended <- k.Run(ctx) }()
		time.Sleep(40 * time.Minute)
		if stuck, waits := health.StuckLoops(), health.NotReady(); len(stuck)+len(waits) > 0 {
			t.Errorf("stuck: %q, waits: %q", stuck, waits)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
