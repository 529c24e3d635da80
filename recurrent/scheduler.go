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
	splayMax  = 5 * time.Second // the greatest random addition to a wait
	duePeriod = time.Second     // the wait between two queries for a due origin, after a round without visits
	dueCost   = 50              // the least such wait, as a multiple of the query's duration
)

// Store is the scheduler's database, except for claims.
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
	// Waiting reports whether the last count of the queue's messages found some that waited for a worker.
	Waiting(q dispatch.Queue) bool
}

// Options are the settings of a Scheduler.
type Options struct {
	Store Store
	Slots Slots
	Log   *slog.Logger
	Reg   prometheus.Registerer

	// VisitTypes to schedule. If empty, those of all task types load-* are scheduled, as task types come
	// and go.
	VisitTypes []string
	// Policies by visit type. The key "default" is for all others. A visit type's policies are distinct,
	// and at least one has a weight above 0.
	Policies map[string][]model.WeightedPolicy
	Shares   map[string]model.Shares // by task type
	Lanes    map[string][]model.Lane // by task type

	NoOriginsBackoff time.Duration // after a round without visits, unless an origin becomes due earlier
	QueueFullBackoff time.Duration // after a round without enough free slots
}

// Scheduler runs one loop per visit type and a keeper of candidates.
type Scheduler struct {
	Options
	now   func() time.Time
	splay func() time.Duration

	typesPeriod time.Duration // how often the task types are read

	visits  *prometheus.CounterVec
	samples *samples
}

// New returns a Scheduler and registers its counters on o.Reg.
func New(o Options) *Scheduler {
	s := newScheduler(o, o.Store.Now)
	s.samples = newSamples(o.Store, o.Log, s.now, o.Reg)
	return s
}

// newScheduler returns a Scheduler without samples.
func newScheduler(o Options, now func() time.Time) *Scheduler {
	return &Scheduler{
		Options: o, now: now, splay: func() time.Duration { return rand.N(splayMax) }, typesPeriod: visitTypesPeriod,
		visits: promauto.With(o.Reg).NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_recurrent_scheduled_visits_total", Help: "Visits claimed for scheduling, by visit type, policy and origins (originals or forks, for a policy that divides them).",
		}, []string{"visit_type", "policy", "origins"}),
	}
}

// Run schedules visits until ctx ends.
func (s *Scheduler) Run(ctx context.Context) error {
	var loops errgroup.Group
	keeping := service.Loop{
		Name: "keeping candidates", Log: s.Log, Period: drainPeriod,
		RunOnce:  (&keeper{candidates: s.Store, log: s.Log}).runOnce,
		Optional: true, // grabs work without candidates, only slower
	}
	loops.Go(func() error { return keeping.Run(ctx) })
	loops.Go(func() error { return s.samples.run(ctx) })
	loops.Go(func() error { return s.followVisitTypes(ctx, &loops) })
	return loops.Wait()
}

// policiesOf returns the visit type's own policies, or the default ones.
func (s *Scheduler) policiesOf(visitType string) []model.WeightedPolicy {
	return model.PoliciesOf(s.Policies, visitType)
}

// loop returns the loop of one visit type.
func (s *Scheduler) loop(visitType string) *service.Loop {
	r := &round{Scheduler: s, visitType: visitType, log: s.Log.With("visit_type", visitType)}
	return &service.Loop{
		Name: "claiming visits", Log: r.log,
		RunOnce: r.next,
		Period:  splayMax, // only spreads the first rounds; next gives the other waits
		Jitter:  true,
	}
}
