package dashboard

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	seconds *prometheus.HistogramVec
	errors  *prometheus.CounterVec
	refused prometheus.Counter
	streams prometheus.Gauge
	actions prometheus.Gauge
	done    prometheus.Counter // steps of actions
	notDone prometheus.Counter
}

// newMetrics returns metrics and registers them; registry may be nil.
func newMetrics(registry prometheus.Registerer) *metrics {
	f := promauto.With(registry)
	steps := f.NewCounterVec(prometheus.CounterOpts{
		Name: "swh_scheduler_dashboard_steps_total", Help: "Steps of actions that this process took, by result: done or failed.",
	}, []string{"result"})
	m := &metrics{
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "swh_scheduler_dashboard_page_seconds", Help: "Time to answer a request for a page, without live updates.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}, []string{"page"}),
		errors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_dashboard_errors_total", Help: "Requests answered with an error, by whose it is: the client's (4xx) or the server's (5xx).",
		}, []string{"status"}),
		refused: f.NewCounter(prometheus.CounterOpts{
			Name: "swh_scheduler_dashboard_refused_logins_total", Help: "Wrong logins, and those refused as there were too many.",
		}),
		streams: f.NewGauge(prometheus.GaugeOpts{Name: "swh_scheduler_dashboard_streams", Help: "Pages that are open with live updates."}),
		actions: f.NewGauge(prometheus.GaugeOpts{Name: "swh_scheduler_dashboard_actions", Help: "Actions of all processes that are counted or done now."}),
		done:    steps.WithLabelValues("done"), notDone: steps.WithLabelValues("failed"),
	}
	for _, status := range []string{"4xx", "5xx"} {
		m.errors.WithLabelValues(status)
	}
	return m
}

// timed measures the duration of all responses except event streams.
func (m *metrics) timed(page string, show http.HandlerFunc) http.HandlerFunc {
	seconds := m.seconds.WithLabelValues(page)
	return func(w http.ResponseWriter, r *http.Request) {
		if !accepts(r, "text/event-stream") {
			defer func(began time.Time) { seconds.Observe(time.Since(began).Seconds()) }(time.Now())
		}
		show(w, r)
	}
}

func (m *metrics) failed(status int) { m.errors.WithLabelValues(fmt.Sprintf("%dxx", status/100)).Inc() }
