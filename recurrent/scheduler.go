package recurrent

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/daemon"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// Defaults of the waits between rounds (the peer's).
const (
	DefaultQueueFullBackoff = time.Minute
	DefaultNoOriginsBackoff = 20 * time.Minute

	// splayMax is by how much a wait is lengthened at most, at random.
	splayMax = 5 * time.Second
	// minSlotsRatio is the part of a queue that must be free for a refill.
	minSlotsRatio = 0.05
)

// Store is what the scheduler asks of the database besides its claims.
type Store interface {
	Candidates
	TaskTypes(ctx context.Context) ([]scheduler.TaskType, error)
	TaskType(ctx context.Context, name string) (scheduler.TaskType, error)
}

// Slots claims within the free slots of a queue.
type Slots interface {
	Claim(ctx context.Context, q dispatch.Queue, claim func(ctx context.Context, tx *sql.Tx, free int) (int, error)) (int, error)
}

// Options configure a Scheduler.
type Options struct {
	Store Store
	Slots Slots
	Log   *slog.Logger
	Reg   prometheus.Registerer

	// VisitTypes to schedule; none means those of all task types load-*.
	VisitTypes []string
	// Policies by visit type, with those of "default" for any other. Each visit
	// type has a policy once, and some weight.
	Policies map[string][]scheduler.WeightedPolicy
	// Shares says, by task type, between which groups of listers the free slots of
	// its queue are divided.
	Shares map[string]scheduler.Shares
	// Lanes are those of task types.
	Lanes map[string][]scheduler.Lane
	// NoOriginsBackoff is the wait after a round that found nothing to visit, and
	// QueueFullBackoff the one after a round that found the queue full.
	NoOriginsBackoff time.Duration
	QueueFullBackoff time.Duration
}

// Scheduler runs one loop a visit type, and a keeper of candidates beside them.
type Scheduler struct {
	Options
	now     func() time.Time
	splay   func() time.Duration
	visits  *prometheus.CounterVec
	backlog prometheus.Gauge
}

// New makes a Scheduler; its counters are registered on o.Reg.
func New(o Options) *Scheduler {
	s := &Scheduler{
		Options: o,
		now:     time.Now,
		splay:   func() time.Duration { return rand.N(splayMax) },
		visits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_recurrent_scheduled_visits_total",
			Help: "Visits claimed for scheduling, by visit type and policy.",
		}, []string{"visit_type", "policy"}),
		backlog: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "swh_scheduler_recurrent_candidates_backlog",
			Help: "Changes of origins that candidates do not show yet; above 10,000 of a visit type, its grabs read the tables themselves.",
		}),
	}
	o.Reg.MustRegister(s.visits, s.backlog)
	return s
}

// Run schedules visits until ctx ends.
func (s *Scheduler) Run(ctx context.Context) error {
	visitTypes, err := s.visitTypes(ctx)
	if err != nil {
		return nil // ctx ended before the database answered
	}
	s.Log.Info("scheduling recurrent visits", "visit_types", visitTypes)
	var loops errgroup.Group
	loops.Go(func() error { return s.keeperLoop().Run(ctx) })
	for _, visitType := range visitTypes {
		loops.Go(func() error { return s.loop(visitType).Run(ctx) })
	}
	return loops.Wait()
}

// visitTypes are those asked for, else those of the task types that load
// something, as soon as there is one. The only error is that ctx ended.
func (s *Scheduler) visitTypes(ctx context.Context) ([]string, error) {
	if len(s.VisitTypes) > 0 {
		return s.VisitTypes, nil
	}
	service := daemon.NewService(s.Log, "PostgreSQL")
	var backoff daemon.Backoff
	told := false
	for {
		types, err := s.Store.TaskTypes(ctx)
		if err == nil {
			service.OK()
			if visitTypes := loaders(types); len(visitTypes) > 0 {
				return visitTypes, nil
			}
			if !told {
				told = true
				s.Log.Warn("there is no task type load-*, so there is nothing to visit; waiting for one")
			}
		} else if ctx.Err() == nil {
			service.Failed(err)
		}
		if err := backoff.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// loaders are the visit types of the task types that load something.
func loaders(types []scheduler.TaskType) []string {
	var visitTypes []string
	for _, tt := range types {
		if visitType, ok := scheduler.LoadedVisitType(tt.Type); ok {
			visitTypes = append(visitTypes, visitType)
		}
	}
	return visitTypes
}

// keeperLoop makes the loop that keeps candidates.
func (s *Scheduler) keeperLoop() *daemon.Loop {
	return &daemon.Loop{
		RunOnce: newKeeper(s).runOnce,
		Period:  keepPeriod,
		Service: daemon.NewService(s.Log, "what keeping candidates needs"),
	}
}

// policiesOf returns the policies of a visit type: its own, or the default ones.
func (s *Scheduler) policiesOf(visitType string) []scheduler.WeightedPolicy {
	if policies, ok := s.Policies[visitType]; ok {
		return policies
	}
	return s.Policies["default"]
}

// loop makes the loop of one visit type.
func (s *Scheduler) loop(visitType string) *daemon.Loop {
	r := &round{Scheduler: s, visitType: visitType, policies: s.policiesOf(visitType), log: s.Log.With("visit_type", visitType)}
	return &daemon.Loop{
		RunOnce: func(ctx context.Context) (daemon.Result, error) {
			wait, err := r.runOnce(ctx)
			// Never 0, which would ask for the loop's period.
			return daemon.Result{Next: max(wait+s.splay(), time.Millisecond)}, err
		},
		Period:  splayMax, // only spreads the first rounds
		Jitter:  true,
		Service: daemon.NewService(r.log, "what scheduling visits needs"),
	}
}
