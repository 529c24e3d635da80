package daemons

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/process"
	"swh-scheduler/internal/send"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/status"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/postgres"
)

const (
	wantedPeriod = 30 * time.Second
	// tookPeriod is how often runtimes of work are read; those of the last tookDays count.
	tookPeriod = 5 * time.Minute
	tookDays   = 7
)

// wantedWorkers measures the wanted number of workers of queues.
type wantedWorkers struct {
	p       *process.Process
	broker  status.QueueSource
	workers *prometheus.GaugeVec

	took     map[string]lanes.Sketch // by task type
	tookRead time.Time
	shown    map[string]status.Demand // by queue
}

func newWantedWorkers(p *process.Process, d *send.Delivery) *wantedWorkers {
	return &wantedWorkers{p: p, broker: d.Inspector, workers: promauto.With(p.Metrics).NewGaugeVec(prometheus.GaugeOpts{
		Name: "swh_scheduler_queue_wanted_workers",
		Help: "How many workers a queue should have, each of which does one piece of work at a time: as many as begin what waits within the target, not fewer than have work in hand, and none if there is none. Plain visits count as work in hand only where workers acknowledge late.",
	}, []string{"queue"})}
}

// run counts until ctx ends.
func (w *wantedWorkers) run(ctx context.Context) error {
	return service.Every(ctx, wantedPeriod, w.p.Log, "counting wanted workers", w.runOnce)
}

// runOnce counts once. If that fails, it removes the gauge: an autoscaler must not use old figures.
func (w *wantedWorkers) runOnce(ctx context.Context) error {
	demands, err := w.read(ctx)
	for queue, d := range demands {
		w.workers.WithLabelValues(queue).Set(float64(d.Workers()))
	}
	for queue := range w.shown { // after the others are set, so that no series is missing for a moment
		if _, known := demands[queue]; !known {
			w.workers.DeleteLabelValues(queue)
		}
	}
	w.shown = demands
	return err
}

func (w *wantedWorkers) read(ctx context.Context) (map[string]status.Demand, error) {
	if now := w.p.Store.Now(); w.took == nil || now.Sub(w.tookRead).Abs() > tookPeriod {
		took, err := w.p.Store.Took(ctx, ledger.EndedByWorker, now.Add(-tookDays*postgres.Day),
			string(model.RunEventful), string(model.RunUneventful), string(model.RunFailed), string(model.RunPermFailed))
		if err != nil {
			return nil, err
		}
		w.took, w.tookRead = took, now
	}
	return status.Demands(ctx, w.p.Store, w.broker, w.p.Config, w.took)
}
