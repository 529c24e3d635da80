package recurrent

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

// Defaults of the waits between rounds (the peer's).
const (
	DefaultQueueFullBackoff = time.Minute
	DefaultNoOriginsBackoff = 20 * time.Minute

	splayMax      = 5 * time.Second // by which a wait is lengthened at random
	minSlotsRatio = 0.05            // the part of a queue that must be free for a refill
	newsPeriod    = time.Second     // how often a visit type that had nothing to visit looks for news
	newsCost      = 50              // a look that takes long is repeated after so many times as long
)

// Store is the database of the scheduler, besides its claims.
type Store interface {
	Now() time.Time
	Candidates
	InTx(ctx context.Context, do func(ctx context.Context, tx *db.Tx) error) error
	TaskTypes(ctx context.Context) ([]model.TaskType, error)
	TaskType(ctx context.Context, name string) (model.TaskType, error)
}

// Slots claims within the free slots of a queue.
type Slots interface {
	Claim(ctx context.Context, q dispatch.Queue, claim dispatch.ClaimFunc) (int, error)
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
	Policies map[string][]model.WeightedPolicy
	Shares   map[string]model.Shares // by task type
	Lanes    map[string][]model.Lane // by task type

	NoOriginsBackoff time.Duration // after a round that found nothing to visit, unless candidates tell of news
	QueueFullBackoff time.Duration // after a round that found the queue full
}

// Scheduler runs one loop a visit type, and a keeper of candidates beside them.
type Scheduler struct {
	Options
	now    func() time.Time
	splay  func() time.Duration
	visits *prometheus.CounterVec
}

// New makes a Scheduler; its counters are registered on o.Reg.
func New(o Options) *Scheduler {
	return &Scheduler{
		Options: o, now: o.Store.Now, splay: func() time.Duration { return rand.N(splayMax) },
		visits: promauto.With(o.Reg).NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_recurrent_scheduled_visits_total", Help: "Visits claimed for scheduling, by visit type and policy.",
		}, []string{"visit_type", "policy"}),
	}
}

// Run schedules visits until ctx ends.
func (s *Scheduler) Run(ctx context.Context) error {
	visitTypes, err := s.visitTypes(ctx)
	if err != nil {
		return nil // ctx ended before the database answered
	}
	s.Log.Info("scheduling recurrent visits", "visit_types", visitTypes)
	var loops errgroup.Group
	keeping := service.Loop{RunOnce: (&keeper{candidates: s.Store, log: s.Log}).runOnce, Period: keepPeriod, Service: service.NewService(s.Log, "what keeping candidates needs")}
	loops.Go(func() error { return keeping.Run(ctx) })
	for _, visitType := range visitTypes {
		loops.Go(func() error { return s.loop(visitType).Run(ctx) })
	}
	return loops.Wait()
}

// visitTypes returns those asked for, else those of the loaders' task types, as soon as
// there is one. The only error is that ctx ended.
func (s *Scheduler) visitTypes(ctx context.Context) ([]string, error) {
	if len(s.VisitTypes) > 0 {
		return s.VisitTypes, nil
	}
	postgres := service.NewService(s.Log, "PostgreSQL")
	var backoff service.Backoff
	told := false
	for {
		types, err := s.Store.TaskTypes(ctx)
		if err == nil {
			postgres.OK()
			var visitTypes []string
			for _, tt := range types {
				if visitType, ok := model.LoadedVisitType(tt.Type); ok {
					visitTypes = append(visitTypes, visitType)
				}
			}
			if len(visitTypes) > 0 {
				return visitTypes, nil
			}
			if !told {
				told = true
				s.Log.Warn("there is no task type load-*, so there is nothing to visit; waiting for one")
			}
		} else if ctx.Err() == nil {
			postgres.Failed(err)
		}
		if err := backoff.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// policiesOf returns the policies of a visit type: its own, or the default ones.
func (s *Scheduler) policiesOf(visitType string) []model.WeightedPolicy {
	if policies, ok := s.Policies[visitType]; ok {
		return policies
	}
	return s.Policies["default"]
}

// loop makes the loop of one visit type.
func (s *Scheduler) loop(visitType string) *service.Loop {
	r := &round{Scheduler: s, visitType: visitType, policies: s.policiesOf(visitType), log: s.Log.With("visit_type", visitType)}
	return &service.Loop{
		RunOnce: r.next,
		Period:  splayMax, // only spreads the first rounds
		Jitter:  true,
		Service: service.NewService(r.log, "what scheduling visits needs"),
	}
}
