package journal

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcomes of a record.
const (
	outcomeApplied  = "applied"  // changed the stats of its origin
	outcomeIgnored  = "ignored"  // dated not after the last visit
	outcomeSkipped  = "skipped"  // says nothing of how a visit ended
	outcomeRejected = "rejected" // set aside
)

type metrics struct {
	records      *prometheus.CounterVec
	rejected     *prometheus.CounterVec
	lag          *prometheus.GaugeVec
	batchSeconds prometheus.Histogram
	batchRecords prometheus.Histogram
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_journal_records_total",
			Help: "Journal records that are done with, by what became of them.",
		}, []string{"outcome"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_journal_rejected_records_total",
			Help: "Journal records that were set aside, by the reason.",
		}, []string{"kind"}),
		lag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "swh_scheduler_journal_lag_records",
			Help: "Records of a partition of this member that are not done with.",
		}, []string{"partition"}),
		batchSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "swh_scheduler_journal_batch_seconds",
			Help:    "Time from a batch's decoding to the commit of its offsets.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}),
		batchRecords: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "swh_scheduler_journal_batch_records",
			Help:    "Records in a batch.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 9),
		}),
	}
	for _, outcome := range []string{outcomeApplied, outcomeIgnored, outcomeSkipped, outcomeRejected} {
		m.records.WithLabelValues(outcome)
	}
	for _, kind := range kinds {
		m.rejected.WithLabelValues(kind)
	}
	if registry != nil {
		registry.MustRegister(m.records, m.rejected, m.lag, m.batchSeconds, m.batchRecords)
	}
	return m
}

func (m *metrics) setLag(partition int32, records int64) {
	m.lag.WithLabelValues(partitionLabel(partition)).Set(float64(records))
}

func (m *metrics) forgetLag(partition int32) {
	m.lag.DeleteLabelValues(partitionLabel(partition))
}

func partitionLabel(partition int32) string { return strconv.Itoa(int(partition)) }
