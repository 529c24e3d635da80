package rpc

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are by endpoint, of which there is a fixed number.
type metrics struct {
	seconds map[string]prometheus.Observer // by path; its count is that of the calls
	errors  *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	f := promauto.With(registry)
	seconds := f.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "swh_scheduler_rpc_call_seconds",
		Help:    "Time to answer a call, from its headers to the last byte.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18),
	}, []string{"endpoint"})
	m := &metrics{
		seconds: map[string]prometheus.Observer{},
		errors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_rpc_errors_total",
			Help: "Calls answered with an error: of the client (4xx) or of the server (5xx).",
		}, []string{"endpoint", "status"}),
	}
	for _, ep := range endpoints {
		m.seconds[ep.path] = seconds.WithLabelValues(ep.path)
		for _, status := range []string{"4xx", "5xx"} {
			m.errors.WithLabelValues(ep.path, status)
		}
	}
	return m
}

func (m *metrics) observe(ep *endpoint, status int, took time.Duration) {
	m.seconds[ep.path].Observe(took.Seconds())
	switch {
	case status >= http.StatusInternalServerError:
		m.errors.WithLabelValues(ep.path, "5xx").Inc()
	case status >= http.StatusBadRequest:
		m.errors.WithLabelValues(ep.path, "4xx").Inc()
	}
}
