package listener

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
)

// metrics count unknown event types as "other", so that no label grows.
type metrics struct {
	events    *prometheus.CounterVec
	outcomes  *prometheus.CounterVec
	malformed *prometheus.CounterVec
	rejected  prometheus.Counter
	// databaseErrors counts tries; the log has one line for an outage.
	databaseErrors prometheus.Counter
	batchSize      prometheus.Histogram
	batchTime      prometheus.Histogram
	lag            *lag
}

func newMetrics(r prometheus.Registerer, w *workers, now func() time.Time) *metrics {
	f := promauto.With(r)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "swh_scheduler_listener_workers_online",
		Help: "Celery workers with an event in the last minute that have not gone offline.",
	}, func() float64 { return float64(w.online(now())) })
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "swh_scheduler_listener_" + name, Help: help}
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return f.NewHistogram(prometheus.HistogramOpts{Name: "swh_scheduler_listener_" + name, Help: help, Buckets: buckets})
	}
	m := &metrics{
		// The Python scheduler's name and label, so that dashboards keep working.
		events: f.NewCounterVec(counter("handled_event_total", "Events of tasks read from the queue, by type."), []string{"event_type"}),
		outcomes: f.NewCounterVec(counter("outcomes_total",
			"Outcomes found in events, of any run: started, or the status by which it ended."), []string{"status"}),
		malformed:      f.NewCounterVec(counter("malformed_events_total", "Malformed events or messages, by problem."), []string{"problem"}),
		rejected:       f.NewCounter(counter("rejected_events_total", "Events set aside in scheduler_go.rejected_events.")),
		databaseErrors: f.NewCounter(counter("database_errors_total", "Failed attempts to write a batch because of the state of the database.")),
		batchSize:      histogram("batch_events", "Events in a batch.", prometheus.ExponentialBuckets(1, 4, 7)),
		batchTime:      histogram("batch_seconds", "Time to apply a batch to the database.", prometheus.ExponentialBuckets(0.001, 4, 8)),
		lag:            &lag{since: time.Now()},
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "swh_scheduler_listener_event_lag_seconds",
		Help: "Age, by the worker's clock, of the first event that is read and not acknowledged; if there is none, the time from the sending of the last such event to its acknowledgement.",
	}, func() float64 { return m.lag.seconds(now()) })
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "swh_scheduler_listener_acknowledged_age_seconds",
		Help: "Time since events were last acknowledged, or since the start.",
	}, func() float64 { return m.lag.sinceLastEvent(time.Now()) })
	for _, p := range problems {
		m.malformed.WithLabelValues(string(p)) // present from the start, so that rate() has a first value
	}
	return m
}

// eventTypes are the types of Celery's own events of tasks, and the Python scheduler's task-result.
var eventTypes = []string{
	"task-sent", "task-received", "task-started", "task-succeeded", "task-failed", "task-rejected", "task-revoked",
	"task-retried", "task-cancelled", "task-result",
}

func (m *metrics) event(eventType string) {
	if !slices.Contains(eventTypes, eventType) {
		eventType = "other"
	}
	m.events.WithLabelValues(eventType).Inc()
}

func (m *metrics) outcome(o settle.Outcome) {
	switch {
	case o.Start != nil:
		m.outcomes.WithLabelValues(string(model.RunStarted)).Inc()
	case o.End != nil:
		m.outcomes.WithLabelValues(string(o.End.Status)).Inc()
	}
}
