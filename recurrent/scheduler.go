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

const (
	splayMax      = 5 * time.Second // by which a wait is lengthened at random
	minSlotsRatio = 0.05            // the part of a queue that must be free for a refill
	newsPeriod    = time.Second     // how often a visit type that had nothing to visit looks for news
	newsCost      = 50              // a look that takes long is repeated after so many times as long
)

// Store is the database of the scheduler, besides its claims.
type Store interface {
	Now() time.Time
	Candidates
	sampleStore
	InTx(ctx context.Context, do func(ctx context.Context, tx *db.Tx) error) error
	TaskTypes(ctx context.Context) ([]model.TaskType, error)
	TaskType(ctx context.Context, name string) (model.TaskType, error)
}

// Slots opens claims for the free slots of queues.
type Slots interface {
	Open(ctx context.Context, q dispatch.Queue) (*dispatch.Claim, error)
	// Waiting reports whether messages waited for a worker when a claim last counted them.
	Waiting(q dispatch.Queue) bool
}

// Options configure a Scheduler.
type Options struct {
	Store Store
	Slots Slots
	Log   *slog.Logger
	Reg   prometheus.Registerer

	// VisitTypes to schedule; none means those of all task types load-*, which may come and go.
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
	now   func() time.Time
	splay func() time.Duration

	typesPeriod time.Duration // how often the task types are read

	visits  *prometheus.CounterVec
	samples *samples
}

// New makes a Scheduler; its counters are registered on o.Reg.
func New(o Options) *Scheduler {
	s := newScheduler(o, o.Store.Now)
	s.samples = newSamples(o.Store, o.Log, s.now, o.Reg)
	return s
}

// newScheduler makes a Scheduler without samples.
func newScheduler(o Options, now func() time.Time) *Scheduler {
	return &Scheduler{
		Options: o, now: now, splay: func() time.Duration { return rand.N(splayMax) }, typesPeriod: visitTypesPeriod,
		visits: promauto.With(o.Reg).NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_recurrent_scheduled_visits_total", Help: "Visits claimed for scheduling, by visit type, policy and, where that divides them, originals or forks.",
		}, []string{"visit_type", "policy", "origins"}),
	}
}

// Run schedules visits until ctx ends.
func (s *Scheduler) Run(ctx context.Context) error {
	var loops errgroup.Group
	keeping := service.Loop{
		Name: "keeping candidates", Log: s.Log, Period: keepPeriod,
		RunOnce:  (&keeper{candidates: s.Store, log: s.Log}).runOnce,
		Optional: true, // grabs do without candidates
	}
	loops.Go(func() error { return keeping.Run(ctx) })
	loops.Go(func() error { return s.samples.run(ctx) })
	loops.Go(func() error { return s.followVisitTypes(ctx, &loops) })
	return loops.Wait()
}

// policiesOf returns the policies of a visit type: its own, or the default ones.
func (s *Scheduler) policiesOf(visitType string) []model.WeightedPolicy {
	return model.PoliciesOf(s.Policies, visitType)
}

// loop makes the loop of one visit type.
func (s *Scheduler) loop(visitType string) *service.Loop {
	r := &round{Scheduler: s, visitType: visitType, log: s.Log.With("visit_type", visitType)}
	return &service.Loop{
		Name: "claiming visits", Log: r.log,
		RunOnce: r.next,
		Period:  splayMax, // only spreads the first rounds
		Jitter:  true,
	}
}
