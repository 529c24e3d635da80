package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

const (
	// measurePeriod is how often shares and lanes are measured.
	measurePeriod = time.Minute

	// otherGroups is the label of the groups without a weight or a ceiling of their own, which
	// bounds the number of labels.
	otherGroups = "(others)"
)

// ShareGauges measure the shares of queues.
type ShareGauges struct {
	store  *db.Store
	queues func(ctx context.Context) ([]SharedQueue, error)
	log    *slog.Logger
	shown  map[[2]string]bool // queues and groups

	inFlight, most, used, weight *prometheus.GaugeVec
}

// NewShareGauges makes the gauges of the queues that are shared now and registers them on reg.
func NewShareGauges(store *db.Store, queues func(ctx context.Context) ([]SharedQueue, error), log *slog.Logger, reg prometheus.Registerer) *ShareGauges {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return newGauge(reg, name, help+", by queue and group; groups without a weight or a ceiling of their own are taken together.", "queue", "group")
	}
	return &ShareGauges{
		store: store, queues: queues, log: log,
		weight:   gauge("swh_scheduler_share_weight", "Weights of the groups that have work waiting and are below their ceilings"),
		most:     newGauge(reg, "swh_scheduler_share_max_in_flight", "Ceiling of swh_scheduler_share_in_flight, by queue and group; only groups that have one.", "queue", "group"),
		inFlight: gauge("swh_scheduler_share_in_flight", "Visits and tasks that are sent and whose end is not recorded"),
		used:     gauge("swh_scheduler_share_used_seconds", "Work that ended in the last hour, in seconds"),
	}
}

// Run measures every minute until ctx ends.
func (g *ShareGauges) Run(ctx context.Context) error {
	return service.Every(ctx, measurePeriod, g.log, "measuring shares", g.RunOnce)
}

// RunOnce measures once.
func (g *ShareGauges) RunOnce(ctx context.Context) error {
	queues, err := g.queues(ctx)
	if err != nil {
		return err
	}
	now, shown := g.store.Now(), make(map[[2]string]bool)
	for _, q := range queues {
		if err := g.measure(ctx, q, now, shown); err != nil {
			return fmt.Errorf("measure the shares of queue %q: %w", q.Name, err)
		}
	}
	forget([]*prometheus.GaugeVec{g.inFlight, g.used, g.weight, g.most}, [2]string{"queue", "group"}, g.shown, shown)
	g.shown = shown
	return nil
}

// forget deletes the series of gauges with two labels whose values are in before and not in now.
func forget(gauges []*prometheus.GaugeVec, labels [2]string, before, now map[[2]string]bool) {
	for values := range before {
		for _, gauge := range gauges {
			if !now[values] {
				gauge.DeletePartialMatch(prometheus.Labels{labels[0]: values[0], labels[1]: values[1]})
			}
		}
	}
}

func (g *ShareGauges) measure(ctx context.Context, q SharedQueue, now time.Time, shown map[[2]string]bool) error {
	states, err := g.store.ShareStates(ctx, q.Name, now, q.Shares.HalfLife)
	if err != nil {
		return err
	}
	used, err := g.store.ShareHistory(ctx, q.Name, now.Add(-time.Hour))
	if err != nil {
		return err
	}
	// While the queue is full, no claim counts waiting work.
	var waiting map[string]int
	if q.Type != nil {
		if waiting, err = g.store.WaitingByGroup(ctx, *q.Type, q.Shares.By, q.Policies, now, 1); err != nil {
			return err
		}
		for group := range waiting {
			if states[group] == nil {
				states[group] = &ledger.ShareState{Group: group}
			}
		}
	}
	label := func(group string) string {
		_, weighted := q.Shares.Weights[group]
		if _, capped := q.Shares.MaxInFlight[group]; weighted || capped {
			return group
		}
		return otherGroups
	}
	weight, inFlight, seconds := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for group := range q.Shares.Weights {
		weight[group], inFlight[group], seconds[group] = 0, 0, 0
	}
	for group, most := range q.Shares.MaxInFlight {
		weight[group], inFlight[group], seconds[group] = 0, 0, 0
		g.most.WithLabelValues(q.Name, group).Set(float64(most))
	}
	for group, s := range states {
		ceiling := q.Shares.MaxInFlight[group]
		if s.Busy() || waiting[group] > 0 && (ceiling == 0 || s.InFlight < ceiling) {
			weight[label(group)] += q.Shares.Weight(group)
		}
		inFlight[label(group)] += float64(s.InFlight)
		seconds[label(group)] += used[group].Seconds
	}
	for gauge, values := range map[*prometheus.GaugeVec]map[string]float64{g.weight: weight, g.inFlight: inFlight, g.used: seconds} {
		for group, v := range values {
			gauge.WithLabelValues(q.Name, group).Set(v)
			shown[[2]string{q.Name, group}] = true
		}
	}
	return nil
}
