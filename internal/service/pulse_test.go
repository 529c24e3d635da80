package service

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A loop that goes on is alive however long its round lasts, and overdue until a round ends
// well; one that doesn't go on is stuck. So is a call that doesn't end.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		health := NewHealth()
		overdue := func(want time.Duration, stuck string) {
			t.Helper()
			if _, got := health.Durations(); got["applying events"] != want.Seconds() || len(got) > 1 {
				t.Errorf("overdue for %v, want %v", got, want.Seconds())
			}
			if got := strings.Join(health.StuckLoops(), "; "); (got == "") != (stuck == "") || !strings.Contains(got, stuck) {
				t.Errorf("stuck: %q, want %q", got, stuck)
			}
		}
		p := health.Pulse(slog.New(slog.DiscardHandler), "applying events")
		time.Sleep(time.Hour)
		overdue(0, "") // nothing to do
		p.Begin()
		time.Sleep(10 * time.Minute)
		p.Failed(errors.New("away"))
		time.Sleep(10 * time.Minute)
		p.Begin()
		time.Sleep(10 * time.Minute)
		overdue(30*time.Minute, "")
		time.Sleep(10 * time.Minute)
		overdue(40*time.Minute, "a round of applying events lasts since")
		p.Done(0)
		overdue(0, "")
		p.Begin()
		p.Done(time.Minute)
		time.Sleep(5 * time.Minute)
		overdue(4*time.Minute, "")
		p.Remove()
		done := health.Call("task_type/get_all")
		time.Sleep(20 * time.Minute)
		if _, loops := health.Durations(); len(loops) != 0 {
			t.Errorf("loops %v", loops)
		}
		if stuck := health.StuckLoops(); len(stuck) != 1 || !strings.Contains(stuck[0], "a call of task_type/get_all lasts since") {
			t.Errorf("stuck: %q", stuck)
		}
		done()
		if stuck := health.StuckLoops(); len(stuck) != 0 {
			t.Errorf("stuck: %q", stuck)
		}
	})
}

// A loop beside the daemon's work makes it neither stuck nor unready, however slow it is and
// whatever fails; the metrics tell of it. They tell of a service that the daemon can do without.
func TestLoopBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		health := NewHealth()
		ctx, stop := context.WithCancel(WithHealth(t.Context(), health))
		log := slog.New(slog.DiscardHandler)
		optional := NewService(log, "the management API")
		health.Show(optional)
		optional.Failed(errors.New("away"))
		rounds := make(chan error)
		loop := Loop{
			Name: "maintenance", Log: log,
			RunOnce: func(context.Context) (Result, error) { return Result{}, <-rounds },
			Period:  time.Minute, Optional: true,
		}
		ended := make(chan error)
		go func() { ended <- loop.Run(ctx) }()
		synctest.Wait()
		rounds <- errors.New("away")
		time.Sleep(time.Hour)
		if stuck, waits := health.StuckLoops(), health.NotReady(); len(stuck)+len(waits) > 0 {
			t.Errorf("stuck %q, waits %q", stuck, waits)
		}
		want := `# HELP swh_scheduler_loop_overdue_seconds For how long a successful round of one of the daemon's loops is overdue; 0 if none is.
# TYPE swh_scheduler_loop_overdue_seconds gauge
swh_scheduler_loop_overdue_seconds{daemon="start-runner",loop="maintenance"} 3600
# HELP swh_scheduler_service_unreachable_seconds How long the daemon has waited for a service; 0 while the service is reachable.
# TYPE swh_scheduler_service_unreachable_seconds gauge
swh_scheduler_service_unreachable_seconds{daemon="start-runner",service="the management API"} 3600
`
		reg := prometheus.NewRegistry()
		reg.MustRegister(health.Collector("start-runner"))
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
		rounds <- nil
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
