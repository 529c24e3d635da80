package listener

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// metrics have no label that grows: unknown event types are counted as "other".
type metrics struct {
	events    *prometheus.CounterVec
	outcomes  *prometheus.CounterVec
	malformed *prometheus.CounterVec
	rejected  prometheus.Counter
	// databaseErrors counts tries, which the log doesn't.
	databaseErrors prometheus.Counter
	batchSize      prometheus.Histogram
	batchTime      prometheus.Histogram
	lag            prometheus.Gauge
}

func newMetrics(r prometheus.Registerer, w *workers) *metrics {
	f := promauto.With(r)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "swh_scheduler_listener_workers_online",
		Help: "Celery workers that were heard of in the last minute and have not gone offline.",
	}, func() float64 { return float64(w.online(time.Now())) })
	m := &metrics{
		events: f.NewCounterVec(prometheus.CounterOpts{
			// The peer's name and label, so that dashboards go on.
			Name: "swh_scheduler_listener_handled_event_total",
			Help: "Events read from the queue, by type.",
		}, []string{"event_type"}),
		outcomes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_listener_outcomes_total",
			Help: "Outcomes found in events, of any run: started, or the status by which it ended.",
		}, []string{"status"}),
		malformed: f.NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_listener_malformed_events_total",
			Help: "Events or messages that made no sense, by what was wrong.",
		}, []string{"problem"}),
		rejected: f.NewCounter(prometheus.CounterOpts{
			Name: "swh_scheduler_listener_rejected_events_total",
			Help: "Events set aside in scheduler_go.rejected_events.",
		}),
		databaseErrors: f.NewCounter(prometheus.CounterOpts{
			Name: "swh_scheduler_listener_database_errors_total",
			Help: "Times a batch could not be written because of the state of the database.",
		}),
		batchSize: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "swh_scheduler_listener_batch_events",
			Help:    "Events in a batch.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 7),
		}),
		batchTime: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "swh_scheduler_listener_batch_seconds",
			Help:    "Time to apply a batch to the database.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}),
		lag: f.NewGauge(prometheus.GaugeOpts{
			Name: "swh_scheduler_listener_event_lag_seconds",
			Help: "How long ago, on the worker's clock, the last event read was sent.",
		}),
	}
	for _, p := range problems {
		m.malformed.WithLabelValues(string(p)) // present from the start, so that rates work
	}
	return m
}

// eventTypes are the types of Celery's own events and of the peer's task-result.
var eventTypes = []string{
	"task-sent", "task-received", "task-started", "task-succeeded", "task-failed", "task-rejected", "task-revoked",
	"task-retried", "task-cancelled", "task-result", "worker-online", "worker-heartbeat", "worker-offline",
}

func (m *metrics) event(eventType string) {
	if !slices.Contains(eventTypes, eventType) {
		eventType = "other"
	}
	m.events.WithLabelValues(eventType).Inc()
}

func (m *metrics) outcome(o sql.Outcome) {
	switch {
	case o.Start != nil:
		m.outcomes.WithLabelValues(string(scheduler.RunStarted)).Inc()
	case o.End != nil:
		m.outcomes.WithLabelValues(string(o.End.Status)).Inc()
	}
}
