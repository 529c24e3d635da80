package simulator

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/journal"
	"swh-scheduler/sql/db"
)

// The Python scheduler's figures.
const (
	DefaultWorkers = 48     // of a visit type
	queueCapacity  = 10_000 // messages
	minBatch       = 1000   // free slots for a refill

	runnerPeriod  = 10 * time.Second
	metricsPeriod = time.Hour
	listerPeriod  = time.Hour
)

type Kind string

const (
	OriginScheduler Kind = "origin_scheduler" // visits of listed origins, by policy
	TaskScheduler   Kind = "task_scheduler"   // recurring tasks
)

var Kinds = []Kind{TaskScheduler, OriginScheduler}

type Options struct {
	Store *db.Store
	Log   *slog.Logger

	Kind       Kind
	Policies   map[string][]model.WeightedPolicy // of OriginScheduler, by visit type; "default" is for any other
	Rules      journal.Rules                     // of OriginScheduler: what visits change
	VisitTypes []string                          // each has a queue; if empty, see Run
	Workers    int                               // of each queue
	Start      time.Time                         // not in the past, as the database dates listings itself
	Runtime    *time.Duration                    // time to simulate; nil is forever
	Listers    []ListerName                      // each lists 100 new origins an hour
	Listed     int                               // origins listed before the run
	Forks      float64                           // part of the listed origins that are forks
	Shares     map[string]model.Shares           // of OriginScheduler, by task type: how groups of listers divide its queue
	Ageing     time.Duration                     // of the priorities of messages and tasks
	Urgent     int                               // of TaskScheduler: number of tasks with priority added each hour, evenly of each priority
	Progress   func(simulated time.Duration)     // called after each simulated hour; may be nil
}

type visit struct {
	model.OriginKey
	id       uuid.UUID // Celery's of the task
	group    string    // "" without shares
	fork     bool      // its lister reports it as a fork; not set for tasks
	inLedger bool      // it has a row in the ledger until it ends

	priority uint8
	claimed  time.Time

	urgency model.TaskPriority // of the task
	ready   time.Time          // when the task became ready; only for tasks with priority
}

// source identifies a queue by its messages.
type source struct {
	visitType string
	urgent    bool // for tasks with priority
}

// agents are the tested parts of a scheduler.
type agents interface {
	// sources returns the queues for visits of a type, with their capacities.
	sources(visitType string) map[source]int
	// claim claims up to n due visits.
	claim(ctx context.Context, of source, n int, now time.Time) ([]visit, error)
	// nextClaim returns the time before which a claim would find nothing unless something is written; zero is never.
	// known is false if that time is unknown. It is called after a claim that found fewer visits than requested.
	nextClaim(ctx context.Context, of source, now time.Time) (at time.Time, known bool, err error)

	// began and ended are called in the order of events.
	began(v visit, now time.Time)
	ended(v visit, l load, eventful bool, now time.Time)
	// settle writes the events until now and reports whether there were any.
	settle(ctx context.Context) (bool, error)
	// unsettled reports whether settling could make something claimable at now.
	unsettled(now time.Time) bool
}

type simulation struct {
	Options
	clock   *Clock
	loaders loaders
	agents  agents
	listers []*lister
	census  *census
	queues  []*visitQueue
	running map[uuid.UUID]running
	urgent  int // number of tasks with priority that were added
	report  *Report
}

// visitQueue is a queue of visits.
type visitQueue struct {
	queue[visit]
	source
	capacity int
	known    bool      // nothing can be claimed before next, unless something is written
	next     time.Time // zero is never
}

// Run simulates until the runtime is over or ctx ends. The default visit types are those of the enabled origins, or
// the lister's if there are no origins.
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
	// An interrupted simulation also has a report.
	ctx = context.WithoutCancel(ctx)
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	s.report.Simulated = s.clock.Elapsed()
	// Like the Python scheduler, this leaves metrics in scheduler_metrics.
	counted, err := s.count(ctx)
	s.report.measure(s.clock.Now(), counted, s.running)
	return s.report, err
}

// count writes the counts of origins to the database.
func (s *simulation) count(ctx context.Context) (counts, error) {
	metrics, err := s.Store.UpdateMetrics(ctx, uuid.NullUUID{}, s.clock.Now())
	return countsOf(metrics), err
}

// newSimulation schedules the first events in the Python scheduler's order.
func newSimulation(ctx context.Context, o Options) (*simulation, error) {
	s := &simulation{
		Options: o, clock: NewClock(o.Start), loaders: loaders{}, running: make(map[uuid.UUID]running),
		report: &Report{worked: make(map[string]time.Duration), waits: make(map[string]wait), urgent: make(map[model.TaskPriority]wait)},
	}
	visitTypes, err := s.visitTypes(ctx)
	if err != nil {
		return nil, err
	}
	if s.listers, err = newListers(ctx, s.Store, s.Listers, &s.Listed, s.Forks); err != nil {
		return nil, err
	}
	counted, err := s.count(ctx)
	if err != nil {
		return nil, err
	}
	s.census = newCensus(s.Store, counted)
	switch s.Kind {
	case OriginScheduler:
		if s.agents, err = newOriginAgents(ctx, s.Options, visitTypes, s.census, s.disabled); err != nil {
			return nil, err
		}
	case TaskScheduler:
		if s.agents, err = newTaskAgents(ctx, s.Options, visitTypes); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("unknown scheduler %q", s.Kind)
	}
	for _, visitType := range visitTypes {
		for _, of := range []source{{visitType, false}, {visitType, true}} {
			if capacity, ok := s.agents.sources(visitType)[of]; ok {
				s.queues = append(s.queues, &visitQueue{
					queue: queue[visit]{clock: s.clock, idle: s.Workers, begin: s.begin, end: s.end}, source: of, capacity: capacity,
				})
			}
		}
	}
	if s.Kind == OriginScheduler {
		if err := s.startFreshness(ctx, visitTypes); err != nil {
			return nil, err
		}
	}
	s.clock.Every(metricsPeriod, s.measure)
	s.clock.Every(runnerPeriod, s.fillQueues)
	s.clock.Every(listerPeriod, s.list)
	if s.Urgent > 0 {
		s.clock.Every(listerPeriod, s.addUrgent)
	}
	return s, nil
}

func (s *simulation) visitTypes(ctx context.Context) ([]string, error) {
	if len(s.VisitTypes) > 0 {
		return s.VisitTypes, nil
	}
	if visitTypes, err := s.Store.EnabledVisitTypes(ctx); err != nil || len(visitTypes) > 0 {
		return visitTypes, err
	}
	return []string{listedVisitType}, nil
}

func (s *simulation) fillQueues(ctx context.Context) error {
	for _, q := range s.queues {
		if q.free() < minBatch && !(q.urgent && q.free() > 0) {
			continue
		}
		if err := s.fillQueue(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulation) fillQueue(ctx context.Context, q *visitQueue) error {
	now, free := s.clock.Now(), q.free()
	if s.agents.unsettled(now) {
		s.forgetNextClaims()
	}
	if q.known && (q.next.IsZero() || now.Before(q.next)) {
		return nil
	}
	if err := s.write(ctx); err != nil {
		return err
	}
	visits, err := s.agents.claim(ctx, q.source, free, now)
	if err != nil {
		return err
	}
	q.known = false
	if len(visits) < free {
		if q.next, q.known, err = s.agents.nextClaim(ctx, q.source, now); err != nil {
			return err
		}
	}
	q.waiting = append(q.waiting, visits...)
	slices.SortStableFunc(q.waiting, func(a, b visit) int { return int(b.priority) - int(a.priority) })
	q.put()
	return nil
}

func (q *visitQueue) free() int { return q.capacity - len(q.waiting) }

// forgetNextClaims marks the times of the next claims as unknown, after a change.
func (s *simulation) forgetNextClaims() {
	for _, q := range s.queues {
		q.known = false
	}
}

// write writes all events since the last write to the database.
func (s *simulation) write(ctx context.Context) error {
	for _, l := range s.listers {
		if err := l.write(ctx); err != nil {
			return err
		}
	}
	return s.settle(ctx)
}

// settle writes the agents' events.
func (s *simulation) settle(ctx context.Context) error {
	written, err := s.agents.settle(ctx)
	if written {
		s.forgetNextClaims()
	}
	return err
}

// disabled passes the URLs that the journal disabled to the listers.
func (s *simulation) disabled(urls []string) {
	for _, l := range s.listers {
		l.disabled(urls)
	}
}

func (s *simulation) list(ctx context.Context) error {
	for _, l := range s.listers {
		if err := s.census.read(ctx, l.more(listedAnHour)); err != nil {
			return err
		}
		l.list(s.clock.Now())
		for _, o := range l.origins {
			s.census.listed(model.OriginKey{URL: o.url, VisitType: listedVisitType}, l.id, o.lastUpdate)
		}
	}
	s.forgetNextClaims()
	return nil
}

// measure records the state of the origins each hour.
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

type running struct {
	load
	visit
	began time.Time
}

// begin begins a visit and returns how long it takes.
func (s *simulation) begin(v visit) time.Duration {
	now := s.clock.Now()
	l := s.loaders.visit(v.OriginKey, now)
	s.running[v.id] = running{l, v, now}
	s.report.began(v, now)
	s.agents.began(v, now)
	return model.Duration(l.runTime)
}

func (s *simulation) end(v visit) {
	r := s.running[v.id]
	delete(s.running, v.id)
	eventful := s.loaders.ended(v.OriginKey, r.load)
	s.agents.ended(v, r.load, eventful, s.clock.Now())
	s.report.visited(r, eventful)
}
