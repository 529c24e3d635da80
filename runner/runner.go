package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/graphs"
	"swh-scheduler/sql/ledger"
)

// Store is the database of a runner, besides its claims.
type Store interface {
	Now() time.Time
	TaskTypes(ctx context.Context) ([]model.TaskType, error)
	ReadyTaskTypes(ctx context.Context, now time.Time, withPriority bool) ([]string, error)
	OutgoingDue(ctx context.Context, urgent bool) (int, error)
	AdvanceGraphs(ctx context.Context, now time.Time) (graphs.Round, error)
}

// Slots opens claims for the free slots of queues.
type Slots interface {
	Open(ctx context.Context, q dispatch.Queue) (*dispatch.Claim, error)
}

// Options configure a Runner.
type Options struct {
	Store Store
	Slots Slots
	Log   *slog.Logger
	Reg   prometheus.Registerer

	Period           time.Duration // between the last pass, which found nothing, and the next
	TaskTypes        []string      // only these, if any
	TaskTypePatterns []string      // only types whose name starts with one of these, if any
	WithPriority     bool          // tasks of any priority instead of those with none
	Ageing           time.Duration // of tasks with priority (ledger.TaskClaim)

	Shares map[string]model.Shares // by task type; not for tasks with priority
	Lanes  map[string][]model.Lane // by key of the lane set: a task type or model.PriorityLanes

	// Listen, if not nil, calls wake when there may be something to claim, until ctx ends or it fails. A pass
	// follows at once.
	Listen func(ctx context.Context, wake func()) error
}

// Runner claims ready tasks.
type Runner struct {
	Options
	now                func() time.Time
	cameIn             atomic.Int64 // nanoseconds since 1970 of the last call of PriorityCameIn
	claimed            *prometheus.CounterVec
	released, neverRun prometheus.Counter
}

// New makes a Runner; its counters are registered on o.Reg.
func New(o Options) *Runner {
	reg := promauto.With(o.Reg)
	return &Runner{
		Options: o, now: o.Store.Now,
		claimed: reg.NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_runner_scheduled_task_total", Help: "Tasks claimed for scheduling, by task type (the Python scheduler's counter).",
		}, []string{"task_type"}),
		released: reg.NewCounter(prometheus.CounterOpts{
			Name: "swh_scheduler_runner_graph_tasks_released_total", Help: "Tasks of graphs that were released, as their dependencies have ended.",
		}),
		neverRun: reg.NewCounter(prometheus.CounterOpts{
			Name: "swh_scheduler_runner_graph_tasks_never_run_total",
			Help: "Tasks of graphs that will not run: a dependency failed, their deadline is over, or their graph was cancelled.",
		}),
	}
}

// Run claims ready tasks every Period, and when it is woken, until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	return (&service.Loop{
		Name: "claiming tasks", Log: r.Log, Period: r.Period, Listen: r.Listen,
		RunOnce: func(ctx context.Context) (service.Result, error) {
			result, graphErr := r.graphs(ctx)
			if full, err := r.tooManyOutgoing(ctx); full || err != nil {
				return service.Result{Next: deliveryWait}, errors.Join(graphErr, err)
			}
			n, err := r.RunOnce(ctx)
			if celery.IsOfQueue(err) {
				err = nil // not an outage: the other queues continue
			}
			result.Again = result.Again || n > 0
			return result, errors.Join(graphErr, err)
		},
	}).Run(ctx)
}

// Drain releases tasks of graphs and claims until no ready task has a free slot. It returns the number of tasks. The
// caller must deliver the messages meanwhile. Drain fills all other queues before it returns the error of one that
// can't be observed.
func (r *Runner) Drain(ctx context.Context) (int, error) {
	total := 0
	for {
		full, err := r.tooManyOutgoing(ctx)
		for err == nil && full {
			if err = service.Sleep(ctx, deliveryWait); err == nil {
				full, err = r.tooManyOutgoing(ctx)
			}
		}
		if err != nil {
			return total, err
		}
		result, err := r.graphs(ctx)
		if err != nil {
			return total, err
		}
		n, err := r.RunOnce(ctx)
		total += n
		if err != nil && !celery.IsOfQueue(err) || n == 0 && !result.Again {
			return total, err
		}
	}
}

const (
	// deliveryWait is the delay while too many messages are outgoing.
	deliveryWait = 100 * time.Millisecond
	// claimAtMost is the most tasks of a claim, whose messages are in memory until its commit. The next pass
	// follows at once.
	claimAtMost = 2000
	// claimAtMostBeside is the same while tasks with priority come in. A task's commit waits until what larger
	// claims wrote is on disk, and its message waits for the processor beside theirs.
	claimAtMostBeside = 100
	// besidePriority is how long a notification of a task with priority keeps claims small.
	besidePriority = 10 * time.Second
)

// PriorityCameIn makes a runner of tasks without priority claim less at once for a while: one with priority became ready.
func (r *Runner) PriorityCameIn() { r.cameIn.Store(r.now().UnixNano()) }

// mostAtOnce returns the most tasks of a claim.
func (r *Runner) mostAtOnce() int {
	if !r.WithPriority && r.now().UnixNano()-r.cameIn.Load() < int64(besidePriority) {
		return claimAtMostBeside
	}
	return claimAtMost
}

// tooManyOutgoing reports whether so many messages are outgoing that further claims would mark tasks as scheduled
// long before they are sent.
func (r *Runner) tooManyOutgoing(ctx context.Context) (bool, error) {
	n, err := r.Store.OutgoingDue(ctx, r.WithPriority)
	return n >= dispatch.MaxClaim, err
}

// parallelClaims is how many queues a pass claims for at once. They wait together for the disk, the broker and the
// database.
const parallelClaims = 4

// RunOnce makes one pass over the task types with ready tasks. Types of the same queue follow each other. It returns
// the number of claimed tasks, and the errors of all types.
func (r *Runner) RunOnce(ctx context.Context) (int, error) {
	jobs, err := r.readyJobs(ctx)
	if err != nil {
		return 0, err
	}
	claimed, failed := make([]int, len(jobs)), make([]error, len(jobs))
	var claims errgroup.Group
	claims.SetLimit(parallelClaims)
	for _, of := range byQueue(jobs) {
		claims.Go(func() error {
			for _, i := range of {
				var err error
				if claimed[i], err = r.claim(ctx, jobs[i]); err != nil {
					failed[i] = fmt.Errorf("task type %q: %w", jobs[i].name(), err)
				}
			}
			return nil
		})
	}
	_ = claims.Wait() // the errors are in failed
	total := 0
	for _, n := range claimed {
		total += n
	}
	return total, errors.Join(failed...)
}

// byQueue returns the indexes of the jobs of each queue, queues and jobs in their order.
func byQueue(jobs []job) (all [][]int) {
	at := make(map[string]int) // indexes in all
	for i, j := range jobs {
		of, seen := at[j.queue.Name]
		if !seen {
			of = len(all)
			at[j.queue.Name], all = of, append(all, nil)
		}
		all[of] = append(all[of], i)
	}
	return all
}

// readyJobs returns the jobs of this pass, in the database's order of types. It reads the types' limits anew.
func (r *Runner) readyJobs(ctx context.Context) ([]job, error) {
	names, err := r.Store.ReadyTaskTypes(ctx, r.now(), r.WithPriority)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	all, err := r.Store.TaskTypes(ctx)
	if err != nil {
		return nil, err
	}
	ready := slices.DeleteFunc(slices.Clone(all), func(tt model.TaskType) bool {
		return !slices.Contains(names, tt.Type) || !r.wanted(tt.Type)
	})
	return r.jobs(ready, all), nil
}

// wanted applies --task-type and --task-type-pattern.
func (r *Runner) wanted(name string) bool {
	return model.Restriction{TaskTypes: r.TaskTypes, Patterns: r.TaskTypePatterns}.Admits(name)
}

// claim fills the free slots of a job's queue with its tasks.
func (r *Runner) claim(ctx context.Context, j job) (int, error) {
	c, err := r.Slots.Open(ctx, j.queue)
	if err != nil {
		return 0, err
	}
	c.Size = min(c.Size, r.mostAtOnce())
	var taken map[string]int // by type
	var work []ledger.Work
	if c.Free > 0 && (r.WithPriority || worthRefilling(c.Free, j.queue.Limit)) {
		taken, work, err = r.take(ctx, c, j)
	}
	n, err := c.Commit(ctx, work, err)
	if err != nil {
		return 0, err
	}
	for taskType, n := range taken {
		r.claimed.WithLabelValues(taskType).Add(float64(n))
		r.Log.Info("tasks claimed", "task_type", taskType, "queue", j.queue.Name, "tasks", n)
	}
	return n, nil
}

// worthRefilling reports whether more than a fifth of a queue is free, so that claims are not too small. It is the
// Python scheduler's rule, except that here tasks with priority don't wait.
func worthRefilling(free int, limit *int64) bool {
	var fifth int64
	if limit != nil {
		fifth = min(*limit, dispatch.MaxClaim) / 5
	}
	return int64(free) > fifth
}

const (
	// graphRounds is how many rounds of the drain of graphs precede a pass. That is enough to fill the queues, and
	// other ready tasks don't wait for all of a large fan-out.
	graphRounds = 10
	// othersWait is the delay when other transactions drain graphs or hold rows.
	othersWait = 100 * time.Millisecond
)

// graphs drains graphs of tasks before a pass. Its result asks for another pass at once if there is more.
func (r *Runner) graphs(ctx context.Context) (service.Result, error) {
	var round graphs.Round
	for range graphRounds {
		var err error
		if round, err = r.Store.AdvanceGraphs(ctx, r.now()); err != nil {
			return service.Result{}, err
		}
		r.released.Add(float64(round.Released))
		r.neverRun.Add(float64(round.Failed))
		if round.Released+round.Failed > 0 {
			r.Log.Info("tasks of graphs", "released", round.Released, "never_run", round.Failed)
		}
		if !round.More {
			break
		}
	}
	result := service.Result{Again: round.More}
	if round.Waits {
		result.Next = min(r.Period, othersWait)
	}
	return result, nil
}
