package dispatch

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/origins"
)

// HosterGauges measure the visits of hosters with limits.
type HosterGauges struct {
	store   *db.Store
	hosters model.Hosters
	log     *slog.Logger

	inFlight, lastMinute *prometheus.GaugeVec
	refusing             *prometheus.GaugeVec
}

// NewHosterGauges makes the gauges and registers them on reg.
func NewHosterGauges(store *db.Store, hosters model.Hosters, log *slog.Logger, reg prometheus.Registerer) *HosterGauges {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return newGauge(reg, name, help+", by hoster; those without limits of their own are taken together.", "hoster")
	}
	return &HosterGauges{
		store: store, hosters: hosters, log: log,
		inFlight:   gauge("swh_scheduler_hoster_in_flight", "Visits of hosters with a limit that are claimed and whose end is not recorded"),
		lastMinute: gauge("swh_scheduler_hoster_visits_per_minute", "Visits claimed in the last minute of hosters whose visits a minute are limited"),
		refusing:   newGauge(reg, "swh_scheduler_hosters_refusing", "Hosters with a limit by visits that they refused, by state: limited, closed. All processes export the same figure: aggregate by max.", "state"),
	}
}

// Run measures every minute until ctx ends.
func (g *HosterGauges) Run(ctx context.Context) error {
	return service.Every(ctx, measurePeriod, g.log, "measuring hosters", g.RunOnce)
}

// RunOnce measures once.
func (g *HosterGauges) RunOnce(ctx context.Context) error {
	loads, err := g.store.HosterLoads(ctx, g.hosters, g.hosters.Loaded(), g.store.Now())
	if err != nil {
		return err
	}
	sums := map[string]origins.HosterLoad{otherGroups: {}}
	for hoster, limit := range g.hosters.Limits {
		if limit.Limited() {
			sums[hoster] = origins.HosterLoad{}
		}
	}
	for hoster, load := range loads {
		if !g.hosters.Limit(hoster).Limited() {
			continue // it counts in case it refuses
		}
		if _, named := g.hosters.Limits[hoster]; !named {
			hoster = otherGroups
		}
		sum := sums[hoster]
		sums[hoster] = origins.HosterLoad{InFlight: sum.InFlight + load.InFlight, LastMinute: sum.LastMinute + load.LastMinute}
	}
	for hoster, sum := range sums {
		g.inFlight.WithLabelValues(hoster).Set(float64(sum.InFlight))
		g.lastMinute.WithLabelValues(hoster).Set(float64(sum.LastMinute))
	}
	if g.hosters.Backoff == nil {
		return nil
	}
	now := g.store.Now()
	states, err := g.store.RefusingHosters(ctx, now)
	if err != nil {
		return err
	}
	closed := 0
	for _, s := range states {
		if most, _ := s.Max(now); most == 0 {
			closed++
		}
	}
	g.refusing.WithLabelValues("closed").Set(float64(closed))
	g.refusing.WithLabelValues("limited").Set(float64(len(states) - closed))
	return nil
}
