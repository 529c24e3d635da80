package journal

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/internal/service"
)

// These are the outcomes of a record.
const (
	outcomeApplied  = "applied"  // changed the stats of its origin
	outcomeIgnored  = "ignored"  // its date is not after the last visit
	outcomeSkipped  = "skipped"  // without the end of a visit
	outcomeRejected = "rejected" // set aside
)

type metrics struct {
	records      *prometheus.CounterVec
	outcomes     *prometheus.CounterVec
	expected     *prometheus.CounterVec
	visitTypes   service.LabelValues
	rejected     *prometheus.CounterVec
	lag          *prometheus.GaugeVec
	batchSeconds prometheus.Histogram
	batchRecords prometheus.Histogram

	// These are the Python scheduler's, with its names.
	handled  prometheus.Counter
	restarts prometheus.Counter // of partitions
	stops    prometheus.Counter
	status   *prometheus.GaugeVec
}

// These are the states of the client, with the Python scheduler's names.
const (
	idle       = "idle"
	waiting    = "waiting"
	processing = "processing"
)

func newMetrics(registry prometheus.Registerer, group string) *metrics {
	f := promauto.With(registry)
	const prefix = "swh_scheduler_journal_"
	counters := func(name, help, label string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, []string{label})
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return f.NewHistogram(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets})
	}
	const peer = "swh_journal_client_"
	ofGroup := prometheus.Labels{"group": group}
	peerCounter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: peer + name, Help: help, ConstLabels: ofGroup})
	}
	m := &metrics{
		visitTypes: service.LabelValues{Max: maxVisitTypes},
		outcomes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_visits_total", Help: "Visits that ended, by visit type and outcome: eventful, uneventful (made in vain), failed, not_found.",
		}, []string{"visit_type", "outcome"}),
		expected: f.NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_freshness_expected_total",
			Help: "Visits that succeeded and for which the policy freshness expected a change, by visit type, the chance of it (rounded down to tenths) and outcome: calibrated, of those with the chance 0.3 about 35 % are eventful.",
		}, []string{"visit_type", "chance", "outcome"}),
		records:  counters("records_total", "Journal records that are done with, by what became of them.", "outcome"),
		rejected: counters("rejected_records_total", "Journal records that were set aside, by the reason.", "kind"),
		lag: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "lag_records", Help: "Records of a partition of this member that are not done with.",
		}, []string{"partition"}),
		batchSeconds: histogram("batch_seconds", "Time to apply a batch and to commit its offsets.", prometheus.ExponentialBuckets(0.001, 2, 16)),
		batchRecords: histogram("batch_records", "Records in a batch.", prometheus.ExponentialBuckets(1, 4, 9)),
		handled:      peerCounter("handle_message_total", "Journal records that are done with."),
		restarts:     peerCounter("partition_restart_total", "Partitions that were read from their start again (on_eof: restart)."),
		stops:        peerCounter("stop_total", "Ends of the client as all was read (on_eof: stop)."),
		status: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: peer + "status", Help: "1 for what the client does: idle, waiting (for records) or processing (records).", ConstLabels: ofGroup,
		}, []string{"status"}),
	}
	m.setStatus("")
	for _, outcome := range []string{outcomeApplied, outcomeIgnored, outcomeSkipped, outcomeRejected} {
		m.records.WithLabelValues(outcome)
	}
	for _, kind := range kinds {
		m.rejected.WithLabelValues(kind)
	}
	return m
}

// visits counts visits by visit type. A topic may have any number of types.
func (m *metrics) visits(applied Applied) {
	for what, n := range applied {
		m.outcomes.WithLabelValues(m.visitTypes.Value(what.visitType), what.outcome).Add(float64(n))
		if what.chance != "" {
			m.expected.WithLabelValues(m.visitTypes.Value(what.visitType), what.chance, what.outcome).Add(float64(n))
		}
	}
}

// setStatus sets the client's state; "" is none.
func (m *metrics) setStatus(now string) {
	for _, status := range []string{idle, waiting, processing} {
		value := 0.0
		if status == now {
			value = 1
		}
		m.status.WithLabelValues(status).Set(value)
	}
}

func (m *metrics) setLag(partition int32, records int64) {
	m.lag.WithLabelValues(fmt.Sprint(partition)).Set(float64(records))
}
