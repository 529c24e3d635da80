package rpc

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are by endpoint, of which there is a fixed number.
type metrics struct {
	seconds map[string]prometheus.Observer // by path; its count is that of the calls
	errors  *prometheus.CounterVec
	refused prometheus.Counter
	logins  *prometheus.CounterVec // by client and credential, of which the configuration has a number
	denied  *prometheus.CounterVec
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
			Help: "Calls answered with an error, by whose it is, whatever the HTTP status: the client's (4xx) or the server's (5xx).",
		}, []string{"endpoint", "status"}),
		refused: f.NewCounter(prometheus.CounterOpts{
			Name: "swh_scheduler_rpc_refused_logins_total", Help: "Requests refused as they had no credentials, or wrong ones.",
		}),
		logins: f.NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_rpc_client_requests_total", Help: "Requests of the clients that the configuration names, by the credential that they had.",
		}, []string{"client", "credential"}),
		denied: f.NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_rpc_denied_total", Help: "Calls of the clients that the configuration names which their roles don't allow.",
		}, []string{"client", "endpoint"}),
	}
	for _, ep := range endpoints {
		m.seconds[ep.path] = seconds.WithLabelValues(ep.path)
		for _, status := range []string{"4xx", "5xx"} {
			m.errors.WithLabelValues(ep.path, status)
		}
	}
	return m
}

// observe counts a call. fault is exception.fault of its error, "" for none.
func (m *metrics) observe(ep *endpoint, fault string, took time.Duration) {
	m.seconds[ep.path].Observe(took.Seconds())
	if fault != "" {
		m.errors.WithLabelValues(ep.path, fault).Inc()
	}
}

// came counts a request of a client.
func (m *metrics) came(id *identity) {
	if id.credential != "" {
		m.logins.WithLabelValues(id.name, id.credential).Inc()
	}
}

// forget deletes the series of clients that were removed.
func (m *metrics) forget(clients []*client) {
	for _, one := range clients {
		m.logins.DeletePartialMatch(prometheus.Labels{"client": one.name})
		m.denied.DeletePartialMatch(prometheus.Labels{"client": one.name})
	}
}
