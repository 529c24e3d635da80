// Package monitor reads figures from the database in the background and keeps them as metrics, so that a scrape needs
// no query.
//
// Figures that need a few index lookups are read every half minute. Maintenance jobs count those that need scans of
// whole tables, in one process, and the monitor reads the counts. While the database is unreachable the metrics keep
// their values for five minutes. Then they disappear, and swh_scheduler_monitor_age_seconds grows.
package monitor

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/internal/freshness"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

const (
	period     = 30 * time.Second
	staleAfter = 5 * time.Minute // older figures are not shown
)

// Store has a Monitor's queries.
type Store interface {
	Figures(ctx context.Context, now time.Time) (db.Figures, error)
}

// Monitor has metrics of the database.
type Monitor struct {
	store Store
	log   *slog.Logger
	now   func() time.Time

	last atomic.Int64 // when figures were last read, or the start; scrapes read it, too

	all                                    []*prometheus.GaugeVec
	outgoing, outgoingAge, outgoingRefused *prometheus.GaugeVec
	readyAge, ready                        *prometheus.GaugeVec
	known, enabled, never, pending         *prometheus.GaugeVec
	countsAge                              *prometheus.GaugeVec
	position, drift                        *prometheus.GaugeVec
	pools, active, setAside                *prometheus.GaugeVec
	rejected                               *prometheus.GaugeVec
	staleness, threshold                   *prometheus.GaugeVec
	unanswered, changes, built, left       *prometheus.GaugeVec // without labels
	hints, hintVisits                      *prometheus.GaugeVec
	eventsAge                              *prometheus.GaugeVec // without labels

	backlog, gone, change, fresh, visits, took, late *prometheus.GaugeVec

	held, doubtful, missing, again *prometheus.GaugeVec
}

// New returns a Monitor whose metrics are registered on reg.
func New(store Store, log *slog.Logger, reg prometheus.Registerer) *Monitor {
	m := &Monitor{store: store, log: log, now: time.Now}
	m.last.Store(m.now().UnixNano())
	f := promauto.With(reg)
	vec := func(name, help string, labels ...string) *prometheus.GaugeVec {
		m.all = append(m.all, f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
		return m.all[len(m.all)-1]
	}
	m.outgoing = vec("swh_scheduler_outgoing_messages", "Messages claimed and not yet confirmed by the broker, by queue.", "queue")
	m.outgoingAge = vec("swh_scheduler_outgoing_oldest_age_seconds", "Age of the oldest outgoing message, by queue.", "queue")
	m.outgoingRefused = vec("swh_scheduler_outgoing_refused_messages", "Outgoing messages that the broker refused, to be tried again, by queue.", "queue")
	m.ready = vec("swh_scheduler_ready_tasks", "Ready tasks, by type and priority (empty for none); of each type at most the 10,000 that have waited longest.", "task_type", "priority")
	m.readyAge = vec("swh_scheduler_ready_oldest_age_seconds", "Age of the oldest ready task, by type and priority.", "task_type", "priority")
	m.known = vec("swh_scheduler_origins_known", "Origins ever listed, by lister and visit type, as of the last update-metrics.", "lister", "visit_type")
	m.enabled = vec("swh_scheduler_origins_enabled", "Enabled origins: those in the last listing, by lister and visit type.", "lister", "visit_type")
	m.never = vec("swh_scheduler_origins_never_visited", "Enabled origins that were never visited, by lister and visit type.", "lister", "visit_type")
	m.pending = vec("swh_scheduler_origins_with_pending_changes", "Enabled origins that changed since their last visit, by lister and visit type.", "lister", "visit_type")
	m.countsAge = vec("swh_scheduler_origins_counts_age_seconds", "Age of the counts of origins, by lister: that of its instance with the oldest counts.", "lister")
	m.position = vec("swh_scheduler_visit_queue_position_seconds", "Position of the queue of visits, by visit type: the visit target reached, in seconds.", "visit_type")
	m.drift = vec("swh_scheduler_visit_queue_drift_seconds", "Seconds by which the clock (seconds since 1970) is ahead of the position of the queue of visits, by visit type; it grows while visits fall behind.", "visit_type")
	m.pools = vec("swh_scheduler_candidates", "Enabled origins by visit type and pool: without_update (group A), and of group B never_loaded, lagging and others; counted every hour.", "visit_type", "pool")
	m.active = vec("swh_scheduler_origins_active", "Enabled origins that changed between the last two listings of their lister, by lister; counted once a listing.", "lister")
	m.staleness = vec("swh_scheduler_freshness_staleness_seconds", "Age of the oldest change that the archive lacks, as a mean over visited origins, by visit type with the policy freshness; estimated for all origins (all), and by the dates of listers that report updates (measured). Counted every 6 hours.", "visit_type", "origins")
	m.threshold = vec("swh_scheduler_freshness_threshold", "Least value of a visit, by visit type with the policy freshness: saved staleness in days times days per day of a worker; it grows as capacity shrinks.", "visit_type")
	m.backlog = vec("swh_scheduler_backlog_origins", "Enabled origins that were never visited, or changed since their last visit, by visit type, as of the last update-metrics.", "visit_type")
	m.gone = vec("swh_scheduler_backlog_clearance_seconds", "Seconds until the backlog of origins is visited at the rate of the last week, by visit type (swh-scheduler forecast); infinite: never; missing: unknown.", "visit_type")
	m.change = vec("swh_scheduler_backlog_change_per_day", "Growth of the backlog of origins a day, by visit type, between two counts of the last week.", "visit_type")
	m.fresh = vec("swh_scheduler_origins_new_per_day", "Origins listed for the first time a day, by visit type, between the same counts.", "visit_type")
	m.visits = vec("swh_scheduler_visits_per_day", "Visits that ended a day, by visit type, over the last week.", "visit_type")
	m.took = vec("swh_scheduler_visit_runtime_mean_seconds", "Mean runtime of the visits of the last week with a known runtime, by visit type.", "visit_type")
	m.late = vec("swh_scheduler_listers_late", "Listers whose next listing is late (behind), or without an ended listing for long (stopped), by state.", "state")
	m.held = vec("swh_scheduler_listings_held", "Instances, by lister, whose last full listing lacks more origins than may go at once; an operator decides.", "lister")
	m.doubtful = vec("swh_scheduler_listings_doubtful", "Instances, by lister, whose last run of a task type in gone_origins is no full listing.", "lister")
	m.missing = vec("swh_scheduler_origins_gone", "Origins, by lister, that were ever disabled because a full listing lacks them.", "lister")
	m.again = vec("swh_scheduler_origins_listed_again", "Origins, by lister, that were listed again after a full listing lacked them.", "lister")
	m.setAside = vec("swh_scheduler_set_aside", "Tasks and origins that can't be sent and are set aside, by kind (task, origin), each counted up to 100,000.", "kind")
	m.unanswered = vec("swh_scheduler_runs_without_end", "Runs of tasks sent or started more than a day ago without a known end; counted every hour.")
	m.eventsAge = vec("swh_scheduler_events_known_age_seconds", "Age of the moment up to which all events of workers are known; work is given up only by events before it. At most 7 days.")
	m.left = vec("swh_scheduler_foreign_silent_runs", "Runs without events that lost_after ignores, because another scheduler sent them. Counted by the last sweep; 0 if that is older than an hour.")
	m.changes = vec("swh_scheduler_candidate_changes", "Changes of origins not yet applied to the candidates; above 5,000,000 the candidates are dropped and built again.")
	m.built = vec("swh_scheduler_candidates_built", "Built fraction of the candidates, from 0 to 1; below 1, grabs read the tables.")
	m.hints = vec("swh_scheduler_hints", "Hints that origins have changed, by source and result, since the first of the source; it grows.", "source", "result")
	m.hintVisits = vec("swh_scheduler_hint_visits", "First visits after hints that succeeded, by source and whether they found another snapshot (found) or not (same); it grows.", "source", "outcome")
	m.rejected = vec("swh_scheduler_rejected", "Events and journal records that were set aside and are kept, by kind (event, record).", "kind")
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "swh_scheduler_monitor_age_seconds", Help: "Age of the figures of the database; before the first ones, the time since the start.",
	}, func() float64 { return m.age().Seconds() })
	return m
}

// Run reads figures until ctx ends.
func (m *Monitor) Run(ctx context.Context) error {
	return service.Every(ctx, period, m.log, "reading figures", m.RunOnce)
}

// RunOnce reads the figures.
func (m *Monitor) RunOnce(ctx context.Context) error {
	now := m.now()
	figures, err := m.store.Figures(ctx, now)
	if err != nil {
		if m.age() > staleAfter {
			m.clear()
		}
		return err
	}
	m.set(figures, now)
	m.last.Store(now.UnixNano())
	return nil
}

func (m *Monitor) age() time.Duration { return m.now().Sub(time.Unix(0, m.last.Load())) }

// clear removes all figures, as another daemon may have newer ones.
func (m *Monitor) clear() {
	for _, g := range m.all {
		g.Reset()
	}
}

// set replaces all values, and removes the series of queues without messages.
func (m *Monitor) set(f db.Figures, now time.Time) {
	m.clear()
	for _, o := range f.Outgoing {
		m.outgoing.WithLabelValues(o.Queue).Set(float64(o.Messages))
		m.outgoingAge.WithLabelValues(o.Queue).Set(max(0, now.Sub(o.Oldest).Seconds()))
		m.outgoingRefused.WithLabelValues(o.Queue).Set(float64(o.Refused))
	}
	for _, r := range f.Ready {
		m.ready.WithLabelValues(r.Type, r.Priority).Set(float64(r.Tasks))
		m.readyAge.WithLabelValues(r.Type, r.Priority).Set(max(0, now.Sub(r.Oldest).Seconds()))
	}
	for _, o := range f.Origins {
		m.known.WithLabelValues(o.Lister, o.VisitType).Set(float64(o.Known))
		m.enabled.WithLabelValues(o.Lister, o.VisitType).Set(float64(o.Enabled))
		m.never.WithLabelValues(o.Lister, o.VisitType).Set(float64(o.NeverVisited))
		m.pending.WithLabelValues(o.Lister, o.VisitType).Set(float64(o.WithPendingChanges))
	}
	for _, p := range f.Positions {
		m.position.WithLabelValues(p.VisitType).Set(float64(p.Position))
		m.drift.WithLabelValues(p.VisitType).Set(float64(now.Unix() - p.Position))
	}
	m.eventsAge.WithLabelValues().Set(f.EventsAge)
	m.changes.WithLabelValues().Set(float64(f.CandidateChanges))
	m.built.WithLabelValues().Set(f.Build.Part())
	m.setAside.WithLabelValues("task").Set(float64(f.SetAside.Tasks))
	m.setAside.WithLabelValues("origin").Set(float64(f.SetAside.Origins))
	m.rejected.WithLabelValues("event").Set(float64(f.Rejected.Events))
	m.rejected.WithLabelValues("record").Set(float64(f.Rejected.Records))
	for _, a := range f.Active {
		m.active.WithLabelValues(a.Lister).Set(float64(a.Origins))
	}
	for _, c := range f.Counted {
		m.countsAge.WithLabelValues(c.Lister).Set(max(0, now.Sub(c.Counted).Seconds()))
	}
	for visitType, p := range f.Pools {
		for pool, n := range map[string]int64{"without_update": p.WithoutUpdate, "never_loaded": p.NeverLoaded, "lagging": p.Lagging, "others": p.Others} {
			m.pools.WithLabelValues(visitType, pool).Set(float64(n))
		}
	}
	for visitType, n := range f.Freshness {
		m.threshold.WithLabelValues(visitType).Set(n.Threshold)
		m.staleness.WithLabelValues(visitType, "all").Set(n.Staleness / float64(max(1, n.Origins)))
		m.staleness.WithLabelValues(visitType, "measured").Set(n.MeasuredStaleness / float64(max(1, n.Measured)))
	}
	for _, flow := range f.Flows {
		m.setForecast(flow, now)
	}
	for state, n := range f.LateListers {
		m.late.WithLabelValues(string(state)).Set(float64(n))
	}
	m.setHints(f.HintSources)
	for _, g := range f.Gone {
		m.held.WithLabelValues(g.Lister).Set(float64(g.Held))
		m.doubtful.WithLabelValues(g.Lister).Set(float64(g.Doubtful))
		m.missing.WithLabelValues(g.Lister).Set(float64(g.Gone))
		m.again.WithLabelValues(g.Lister).Set(float64(g.Back))
	}
	m.unanswered.WithLabelValues().Set(float64(f.Runs.Unanswered))
	m.left.WithLabelValues().Set(float64(f.Silent.Left))
}

// setForecast sets the end of the backlog of a visit type, and its inputs.
func (m *Monitor) setForecast(flow freshness.Flow, now time.Time) {
	f := flow.Forecast(freshness.Plan{}, now)
	set := func(gauge *prometheus.GaugeVec, value *float64) {
		if value != nil {
			gauge.WithLabelValues(flow.VisitType).Set(*value)
		}
	}
	if !flow.Counted.IsZero() {
		m.backlog.WithLabelValues(flow.VisitType).Set(float64(f.Backlog))
	}
	switch f.Verdict {
	case freshness.VerdictGone:
		set(m.gone, f.GoneIn)
	case freshness.VerdictDone:
		m.gone.WithLabelValues(flow.VisitType).Set(0)
	case freshness.VerdictNever:
		m.gone.WithLabelValues(flow.VisitType).Set(math.Inf(1))
	}
	set(m.change, f.Slope)
	set(m.fresh, f.New)
	set(m.visits, f.VisitsADay)
	set(m.took, f.Took)
}
