package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/daemon"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// Store is what a runner asks of the database besides its claims.
type Store interface {
	TaskTypes(ctx context.Context) ([]scheduler.TaskType, error)
	ReadyTaskTypes(ctx context.Context, now time.Time, withPriority bool) ([]string, error)
	OutboxDue(ctx context.Context, now time.Time, urgent bool) (int, error)
	DrainGraphs(ctx context.Context, now time.Time) (sql.GraphRound, error)
	MendGraphs(ctx context.Context) error
}

// Slots claims within the free slots of a queue.
type Slots interface {
	Claim(ctx context.Context, q dispatch.Queue, claim func(ctx context.Context, tx *sql.Tx, free int) (int, error)) (int, error)
}

// Options configure a Runner.
type Options struct {
	Store Store
	Slots Slots
	Log   *slog.Logger
	Reg   prometheus.Registerer

	Period           time.Duration // between passes that find nothing
	TaskTypes        []string      // only these, if any
	TaskTypePatterns []string      // only types whose name starts with one of these, if any
	WithPriority     bool          // tasks of any priority instead of those with none

	// Shares says, by task type, between which groups the free slots of its queue
	// are divided. Tasks with priority are not.
	Shares map[string]scheduler.Shares
	// Lanes are those of task types, and of types' tasks with priority; see Config.
	Lanes map[string][]scheduler.Lane

	// Listen, if not nil, calls wake when there may be something to claim before
	// the period is over, until ctx ends or it fails. A pass then follows at once.
	Listen func(ctx context.Context, wake func()) error
}

// Runner claims ready tasks.
type Runner struct {
	Options
	now      func() time.Time
	mended   time.Time // when graphs were last mended
	claimed  *prometheus.CounterVec
	released prometheus.Counter
	neverRun prometheus.Counter
}

// New makes a Runner; its counters are registered on o.Reg.
func New(o Options) *Runner {
	r := &Runner{
		Options: o,
		now:     time.Now,
		claimed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_runner_scheduled_task_total",
			Help: "Tasks claimed for scheduling, by task type (the peer's counter).",
		}, []string{"task_type"}),
		released: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "swh_scheduler_runner_graph_tasks_released_total",
			Help: "Tasks of graphs that were released, as what they waited for has ended.",
		}),
		neverRun: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "swh_scheduler_runner_graph_tasks_never_run_total",
			Help: "Tasks of graphs that will not run: a dependency failed, their deadline is over, or their graph was cancelled.",
		}),
	}
	o.Reg.MustRegister(r.claimed, r.released, r.neverRun)
	return r
}

// Run claims what is ready every Period, and when it is woken, until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	var listener sync.WaitGroup
	defer listener.Wait()
	if r.Listen != nil {
		listener.Go(func() { daemon.Listen(ctx, r.Log, r.Listen, wake) })
	}
	loop := daemon.Loop{
		RunOnce: func(ctx context.Context) (daemon.Result, error) {
			result, graphErr := r.graphs(ctx)
			if full, err := r.outboxFull(ctx); full || err != nil {
				return daemon.Result{Next: deliveryWait}, errors.Join(graphErr, err)
			}
			n, err := r.RunOnce(ctx)
			result.Again = result.Again || n > 0
			return result, errors.Join(graphErr, err)
		},
		Period:  r.Period,
		Wake:    wake,
		Service: daemon.NewService(r.Log, "what the runner needs"),
	}
	return loop.Run(ctx)
}

// Drain releases tasks of graphs and claims until nothing is ready that a queue has room for, and returns how
// many tasks that were. What it claims must be delivered meanwhile.
func (r *Runner) Drain(ctx context.Context) (int, error) {
	total := 0
	for {
		full, err := r.outboxFull(ctx)
		if err == nil && full {
			err = daemon.Sleep(ctx, deliveryWait)
		}
		if err != nil {
			return total, err
		}
		if full {
			continue
		}
		result, err := r.graphs(ctx)
		if err != nil {
			return total, err
		}
		n, err := r.RunOnce(ctx)
		total += n
		if err != nil || n == 0 && !result.Again {
			return total, err
		}
	}
}

// deliveryWait is how long a full outbox is given before the next look.
const deliveryWait = 100 * time.Millisecond

// outboxFull says that so many messages wait to be sent that claiming more would
// only mark tasks as scheduled long before they are.
func (r *Runner) outboxFull(ctx context.Context) (bool, error) {
	n, err := r.Store.OutboxDue(ctx, r.now(), r.WithPriority)
	return n >= dispatch.MaxClaim, err
}

// RunOnce makes one pass over the task types that have something ready. It
// returns how many tasks it claimed, and what went wrong for any type.
func (r *Runner) RunOnce(ctx context.Context) (int, error) {
	jobs, err := r.readyJobs(ctx)
	if err != nil {
		return 0, err
	}
	var total int
	var failed []error
	for _, j := range jobs {
		n, err := r.claim(ctx, j)
		if err != nil {
			failed = append(failed, fmt.Errorf("task type %q: %w", j.name(), err))
			continue
		}
		total += n
	}
	return total, errors.Join(failed...)
}

// readyJobs are the task types to serve in this pass, in the database's order.
// Their definitions are read anew each time: limits change while we run.
func (r *Runner) readyJobs(ctx context.Context) ([]job, error) {
	names, err := r.Store.ReadyTaskTypes(ctx, r.now(), r.WithPriority)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	ready := make(map[string]bool, len(names))
	for _, name := range names {
		ready[name] = r.wanted(name)
	}
	all, err := r.Store.TaskTypes(ctx)
	if err != nil {
		return nil, err
	}
	var types []scheduler.TaskType
	for _, tt := range all {
		if ready[tt.Type] {
			types = append(types, tt)
		}
	}
	return r.jobs(types, all), nil
}

// wanted applies --task-type and --task-type-pattern: a type passes if it is
// named (or none is) and starts with a pattern (or there is none).
func (r *Runner) wanted(name string) bool {
	named := len(r.TaskTypes) == 0
	for _, t := range r.TaskTypes {
		named = named || t == name
	}
	matches := len(r.TaskTypePatterns) == 0
	for _, prefix := range r.TaskTypePatterns {
		matches = matches || strings.HasPrefix(name, prefix)
	}
	return named && matches
}

// claim fills the free slots of a job's queue.
func (r *Runner) claim(ctx context.Context, j job) (int, error) {
	var claimed map[string]int // by type
	n, err := r.Slots.Claim(ctx, j.queue, func(ctx context.Context, tx *sql.Tx, free int) (int, error) {
		if free == 0 || !r.WithPriority && !worthRefilling(free, j.queue.Limit) {
			return 0, nil
		}
		var err error
		if claimed, err = r.claimFree(ctx, tx, j, free); err != nil {
			return 0, err
		}
		total := 0
		for _, n := range claimed {
			total += n
		}
		return total, nil
	})
	for taskType, n := range claimed {
		if err == nil && n > 0 {
			r.claimed.WithLabelValues(taskType).Add(float64(n))
			r.Log.Info("tasks claimed", "task_type", taskType, "queue", j.queue.Name, "tasks", n)
		}
	}
	return n, err
}

// claimFree claims as many tasks as there are free slots, and returns how many
// that was of each type.
func (r *Runner) claimFree(ctx context.Context, tx *sql.Tx, j job, free int) (map[string]int, error) {
	if j.shares != nil {
		return r.shareOut(ctx, tx, j, free)
	}
	n, err := tx.ClaimTasks(ctx, sql.TaskClaim{
		Type: j.types[0], Queue: j.queue.Name, WithPriority: r.WithPriority, Max: free, Now: r.now(),
	})
	return map[string]int{j.name(): n}, err
}

// saveCodeNow is the prefix of the queues for tasks with priority.
const saveCodeNow = "save_code_now:"

// queueOf is where a type's tasks go.
func queueOf(tt scheduler.TaskType, withPriority bool) string {
	if withPriority {
		return saveCodeNow + tt.BackendName
	}
	return tt.Queue()
}

// worthRefilling says whether more than a fifth of a queue is free, so that the
// database is asked for a good number of tasks at a time (the peer's rule, which
// is not for tasks with priority: those don't wait).
func worthRefilling(free int, limit *int64) bool {
	var fifth int64
	if limit != nil {
		fifth = min(*limit, dispatch.MaxClaim) / 5
	}
	return int64(free) > fifth
}
