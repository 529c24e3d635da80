package service

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Collector returns a daemon's health as metrics: the time that it has waited for each service, and the time by
// which each loop is overdue.
func (h *Health) Collector(daemon string) prometheus.Collector {
	describe := func(name, help, label string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{label}, prometheus.Labels{"daemon": daemon})
	}
	return healthCollector{
		h,
		describe("swh_scheduler_service_unreachable_seconds", "How long the daemon has waited for a service; 0 while the service is reachable.", "service"),
		describe("swh_scheduler_loop_overdue_seconds", "For how long a successful round of one of the daemon's loops is overdue; 0 if none is.", "loop"),
	}
}

type healthCollector struct {
	*Health
	waiting, overdue *prometheus.Desc
}

func (c healthCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.waiting
	descs <- c.overdue
}

func (c healthCollector) Collect(metrics chan<- prometheus.Metric) {
	waiting, overdue := c.Durations()
	for desc, durations := range map[*prometheus.Desc]map[string]float64{c.waiting: waiting, c.overdue: overdue} {
		for name, seconds := range durations {
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, seconds, name)
		}
	}
}

// LastRounds returns the end of the last successful round of each loop that had one.
func (h *Health) LastRounds() map[string]time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := map[string]time.Time{}
	for p := range h.pulses {
		if p.last.After(last[p.name]) {
			last[p.name] = p.last
		}
	}
	return last
}

// Durations returns, in seconds, the wait for each service, and the time by which each loop is overdue. Of several
// with the same name, the longest counts.
func (h *Health) Durations() (waiting, overdue map[string]float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	waiting, overdue = map[string]float64{}, map[string]float64{}
	for _, services := range [][]*Service{h.services, h.optional} {
		for _, s := range services {
			seconds := 0.0
			if away := s.since(); !away.IsZero() {
				seconds = now.Sub(away).Seconds()
			}
			waiting[s.name] = max(waiting[s.name], seconds)
		}
	}
	for _, e := range h.expected {
		waiting[e.what] = max(waiting[e.what], now.Sub(e.since).Seconds())
	}
	for p := range h.pulses {
		if p.call {
			continue
		}
		seconds := 0.0
		if !p.due.IsZero() {
			seconds = max(0, now.Sub(p.due).Seconds())
		}
		overdue[p.name] = max(overdue[p.name], seconds)
	}
	return waiting, overdue
}
