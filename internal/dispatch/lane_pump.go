package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

// pumpPeriod is how often a LanePump runs if nothing wakes it: the period of the broker's statistics.
const pumpPeriod = 5 * time.Second

// LanePump sends backlogs of lanes as slots become free, independently of claims. It also
// measures the lanes.
type LanePump struct {
	LanePumpOptions
	measured time.Time
	recorded time.Time          // when the lane sets were last recorded
	shown    map[[2]string]bool // lane sets and lanes

	waiting, oldest, sent, running, slots *prometheus.GaugeVec
}

// LanePumpOptions configure a LanePump.
type LanePumpOptions struct {
	Store *db.Store
	Slots *Slots
	Log   *slog.Logger
	Reg   prometheus.Registerer

	// Queues returns the present queues with lanes.
	Queues func(ctx context.Context) ([]Queue, error)
	// Listen, if not nil, calls wake when a backlog grew, until ctx ends or it fails.
	Listen func(ctx context.Context, wake func()) error
}

// NewLanePump makes a LanePump and registers its gauges on o.Reg.
func NewLanePump(o LanePumpOptions) *LanePump {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return newGauge(o.Reg, name, help, append([]string{"lane_set", "lane"}, labels...)...)
	}
	return &LanePump{LanePumpOptions: o,
		waiting: gauge("swh_scheduler_lane_waiting", "Backlog of a lane, by kind: first tries, or work that timed out at an earlier try.", "kind"),
		oldest:  gauge("swh_scheduler_lane_oldest_seconds", "How long the oldest work of a lane's backlog has waited; 0 if the backlog is empty."),
		sent:    gauge("swh_scheduler_lane_sent", "Work in a lane's queue, outgoing, or running."),
		running: gauge("swh_scheduler_lane_running", "Work of a lane whose start is recorded."),
		slots:   gauge("swh_scheduler_lane_slots", "How many messages a lane's queue may hold, as configured."),
	}
}

// Run sends until ctx ends.
func (p *LanePump) Run(ctx context.Context) error {
	return (&service.Loop{
		Name: "filling lanes", Log: p.Log,
		RunOnce: func(ctx context.Context) (service.Result, error) {
			return service.Result{}, p.RunOnce(ctx, p.Store.Now())
		},
		Period: pumpPeriod, Listen: p.Listen,
	}).Run(ctx)
}

// RunOnce sends backlogs as far as there are slots. Once a minute it measures the lanes, and records that this
// process has them.
func (p *LanePump) RunOnce(ctx context.Context, now time.Time) error {
	queues, err := p.Queues(ctx)
	if err != nil {
		return err
	}
	var failed []error
	// This comes first: after an outage, other processes may take the lanes for removed.
	if now.Sub(p.recorded) >= measurePeriod {
		var sets []string
		for _, q := range queues {
			sets = append(sets, q.Lanes.Name)
		}
		if err := p.Store.RecordLaneSets(ctx, sets, now); err != nil {
			return err
		}
		p.recorded = now
	}
	for _, q := range queues {
		// A queue that can't be observed is no outage: the other lane sets continue.
		if err := p.Slots.SendBacklogs(ctx, q); err != nil && !celery.IsOfQueue(err) {
			failed = append(failed, fmt.Errorf("lanes of %q: %w", q.Lanes.Name, err))
		}
	}
	if now.Sub(p.measured) < measurePeriod {
		return errors.Join(failed...)
	}
	shown := make(map[[2]string]bool)
	for _, q := range queues {
		for _, lane := range q.Lanes.Lanes {
			shown[[2]string{q.Lanes.Name, lane.Name}] = true
		}
		failed = append(failed, p.measure(ctx, q.Lanes, now))
	}
	forget([]*prometheus.GaugeVec{p.waiting, p.oldest, p.sent, p.running, p.slots, p.Slots.metrics.unread}, [2]string{"lane_set", "lane"}, p.shown, shown)
	p.shown = shown
	err = errors.Join(failed...)
	if err == nil {
		p.measured = now
	}
	return err
}

func (p *LanePump) measure(ctx context.Context, l *LaneSet, now time.Time) error {
	states, err := p.Store.LaneStates(ctx, l.Name, len(l.Lanes))
	if err != nil {
		return err
	}
	for i, lane := range l.Lanes {
		set := func(gauge *prometheus.GaugeVec, value float64, label ...string) {
			gauge.WithLabelValues(append([]string{l.Name, lane.Name}, label...)...).Set(value)
		}
		s := states[i]
		set(p.waiting, float64(s.Waiting), "first")
		set(p.waiting, float64(s.TimedOut), "timed_out")
		set(p.oldest, s.Waited(now).Seconds())
		set(p.sent, float64(s.Sent))
		set(p.running, float64(s.Running))
		set(p.slots, float64(lane.Slots))
	}
	return nil
}
