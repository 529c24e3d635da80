package simulator

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// The peer's figures.
const (
	// DefaultWorkers is how many workers a visit type has.
	DefaultWorkers = 48
	// queueCapacity is how many messages a queue takes.
	queueCapacity = 10_000
	// minBatch is how many messages a queue must have room for to be refilled.
	minBatch = 1000

	runnerPeriod  = 10 * time.Second
	metricsPeriod = time.Hour
	listerPeriod  = time.Hour
)

// Kind is a kind of scheduler.
type Kind string

// The schedulers that can be simulated.
const (
	OriginScheduler Kind = "origin_scheduler" // visits of listed origins, by policy
	TaskScheduler   Kind = "task_scheduler"   // recurring tasks
)

// Kinds are all of them.
var Kinds = []Kind{TaskScheduler, OriginScheduler}

// Options say what to simulate.
type Options struct {
	Store *sql.Store
	Log   *slog.Logger

	Kind Kind
	// Policies are those of OriginScheduler by visit type, with their weights; those
	// of "default" are for any other.
	Policies map[string][]scheduler.WeightedPolicy
	// VisitTypes have a queue each; none: see Run.
	VisitTypes []string
	// Workers is how many each queue has.
	Workers int
	// Start is when the simulation begins: not in the past, as the database dates
	// listings itself.
	Start time.Time
	// Runtime is how long to simulate; 0 or less is nothing at all, nil for ever.
	Runtime *time.Duration
	// Listers list 100 more origins an hour each.
	Listers []ListerName
	// Listed is how many origins this process has listed before the run.
	Listed int
	// Shares says, by task type, between which groups of listers OriginScheduler
	// divides the slots of its queue, as the daemons do.
	Shares map[string]scheduler.Shares
	// Progress, if not nil, is called after each simulated hour.
	Progress func(simulated time.Duration)
}

// visit is a message: an origin to visit.
type visit struct {
	scheduler.OriginKey
	id    uuid.UUID // Celery's of the task
	group string    // for which it was claimed, if groups share its queue
}

// agents are the parts of a scheduler that are put to the test.
type agents interface {
	// claim takes up to n visits that are to be made now.
	claim(ctx context.Context, visitType string, n int, now time.Time) ([]visit, error)
	// nextClaim is before when a claim finds nothing after one that found less than
	// it asked for, unless something is written; zero: never again. It may not be
	// known.
	nextClaim(ctx context.Context, visitType string, now time.Time) (at time.Time, known bool, err error)

	// began and ended hear of a visit, in the order in which it is told of all.
	began(v visit, now time.Time)
	ended(v visit, began time.Time, l load, eventful bool, now time.Time)
	// settle writes what was heard until now, and says whether that was anything.
	settle(ctx context.Context) (bool, error)
	// unsettled says that settling may make something claimable by now.
	unsettled(now time.Time) bool
}

// simulation is one run.
type simulation struct {
	Options
	clock   *Clock
	loaders *loaders
	agents  agents
	listers []*lister
	census  *census
	queues  []*visitQueue
	running map[uuid.UUID]running
	report  *Report
}

// visitQueue is the queue of a visit type, and what is known of what could fill it.
type visitQueue struct {
	*Queue[visit]
	visitType string
	// known: nothing can be claimed before next (if that is zero: at all), unless
	// something is written.
	known bool
	next  time.Time
}

// Run simulates until the runtime is over or ctx ends, and reports.
//
// Without visit types it takes those that there are enabled origins of at the
// start; if there are none, the one that its lister lists.
func Run(ctx context.Context, o Options) (*Report, error) {
	s, err := newSimulation(ctx, o)
	if err != nil {
		return nil, err
	}
	return s.run(ctx)
}

func (s *simulation) run(ctx context.Context) (*Report, error) {
	until := time.Duration(math.MaxInt64)
	if s.Runtime != nil {
		until = *s.Runtime
	}
	if err := s.clock.Run(ctx, until); err != nil {
		return nil, err
	}
	// What was simulated is reported also if the rest was cut short.
	ctx = context.WithoutCancel(ctx)
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	s.report.Simulated = s.clock.Elapsed()
	// As the peer does, which leaves them in scheduler_metrics.
	metrics, err := s.Store.UpdateMetrics(ctx, uuid.NullUUID{}, s.clock.Now())
	s.report.measure(s.clock.Now(), countsOf(metrics), s.running)
	return s.report, err
}

// newSimulation puts the first events on the clock, in the peer's order.
func newSimulation(ctx context.Context, o Options) (*simulation, error) {
	s := &simulation{
		Options: o, clock: NewClock(o.Start), loaders: newLoaders(), running: make(map[uuid.UUID]running),
		report: &Report{worked: make(map[string]time.Duration)},
	}
	visitTypes, err := s.visitTypes(ctx)
	if err != nil {
		return nil, err
	}
	if s.listers, err = newListers(ctx, s.Store, s.Listers, &s.Listed); err != nil {
		return nil, err
	}
	if s.census, err = newCensus(ctx, s.Store, s.clock.Now()); err != nil {
		return nil, err
	}
	switch s.Kind {
	case OriginScheduler:
		if s.agents, err = newOriginAgents(ctx, s.Options, visitTypes, s.census, s.disabled); err != nil {
			return nil, err
		}
	case TaskScheduler:
		if s.agents, err = newTaskAgents(ctx, s.Store, visitTypes); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("unknown scheduler %q", s.Kind)
	}
	for _, visitType := range visitTypes {
		q := &visitQueue{Queue: NewQueue[visit](queueCapacity), visitType: visitType}
		s.queues = append(s.queues, q)
		StartWorkers(s.clock, q.Queue, s.Workers, loaderWork{s})
	}
	s.clock.Every(metricsPeriod, s.measure)
	s.clock.Every(runnerPeriod, s.fill)
	s.clock.Every(listerPeriod, s.list)
	return s, nil
}

func (s *simulation) visitTypes(ctx context.Context) ([]string, error) {
	if len(s.VisitTypes) > 0 {
		return s.VisitTypes, nil
	}
	visitTypes, err := s.Store.EnabledVisitTypes(ctx)
	if err == nil && len(visitTypes) == 0 {
		visitTypes = []string{listedVisitType}
	}
	return visitTypes, err
}

// fill fills the queues.
func (s *simulation) fill(ctx context.Context) error {
	for _, q := range s.queues {
		if q.Free() < minBatch {
			continue
		}
		if err := s.fillQueue(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulation) fillQueue(ctx context.Context, q *visitQueue) error {
	now, free := s.clock.Now(), q.Free()
	if s.agents.unsettled(now) {
		s.forget()
	}
	if q.known && (q.next.IsZero() || now.Before(q.next)) {
		return nil
	}
	if err := s.write(ctx); err != nil {
		return err
	}
	visits, err := s.agents.claim(ctx, q.visitType, free, now)
	if err != nil {
		return err
	}
	q.known = false
	if len(visits) < free {
		if q.next, q.known, err = s.agents.nextClaim(ctx, q.visitType, now); err != nil {
			return err
		}
	}
	q.Put(visits...)
	return nil
}

// forget forgets what is known of what can be claimed, as something changed.
func (s *simulation) forget() {
	for _, q := range s.queues {
		q.known = false
	}
}

// write brings to the database what happened since it was last asked.
func (s *simulation) write(ctx context.Context) error {
	for _, l := range s.listers {
		if err := l.write(ctx); err != nil {
			return err
		}
	}
	return s.settle(ctx)
}

// settle does so for what the agents heard.
func (s *simulation) settle(ctx context.Context) error {
	written, err := s.agents.settle(ctx)
	if written {
		s.forget()
	}
	return err
}

// disabled tells the listers of URLs that the journal disabled.
func (s *simulation) disabled(urls []string) {
	for _, l := range s.listers {
		l.disabled(urls)
	}
}

// list has the listers list.
func (s *simulation) list(ctx context.Context) error {
	for _, l := range s.listers {
		if err := s.census.know(ctx, l.more(listedAnHour)); err != nil {
			return err
		}
		l.list(s.clock.Now())
		for _, o := range l.origins {
			s.census.listed(scheduler.OriginKey{URL: o.url, VisitType: listedVisitType}, l.id, o.lastUpdate)
		}
	}
	s.forget()
	return nil
}

// measure notes each hour how the origins stand.
func (s *simulation) measure(ctx context.Context) error {
	if err := s.settle(ctx); err != nil {
		return err
	}
	s.report.measure(s.clock.Now(), s.census.counts, s.running)
	s.Log.Info("simulated", "time", s.clock.Elapsed(), "visits", s.report.Visits)
	if s.Progress != nil {
		s.Progress(s.clock.Elapsed())
	}
	return nil
}

// loaderWork is what the workers of a queue do.
type loaderWork struct{ *simulation }

// running is a visit that a worker makes.
type running struct {
	load
	group string
	began time.Time
}

func (w loaderWork) Begin(v visit) time.Duration {
	now := w.clock.Now()
	l := w.loaders.visit(v.OriginKey, now)
	w.running[v.id] = running{l, v.group, now}
	w.agents.began(v, now)
	return seconds(l.runTime)
}

func (w loaderWork) End(_ context.Context, v visit) error {
	r := w.running[v.id]
	delete(w.running, v.id)
	eventful := w.loaders.ended(v.OriginKey, r.load)
	w.agents.ended(v, r.began, r.load, eventful, w.clock.Now())
	w.report.visited(r, eventful)
	return nil
}

// PolicyNames are the policies that there are.
func PolicyNames() []string {
	var names []string
	for _, p := range []scheduler.VisitPolicy{
		scheduler.OldestScheduledFirst, scheduler.StopAfterSuccess, scheduler.NeverVisitedOldestUpdateFirst,
		scheduler.AlreadyVisitedOrderByLag, scheduler.OriginsWithoutLastUpdate, scheduler.FirstVisitsAfterListing,
		scheduler.OthersByVisitTarget, scheduler.Pools,
	} {
		names = append(names, string(p))
	}
	return slices.Sorted(slices.Values(names))
}
