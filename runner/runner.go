package runner

import (
	"context"
	"errors"
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
	ReadyTaskTypes(ctx context.Context, now time.Time, withPriority bool, from map[string]time.Time) ([]string, error)
	OutgoingDue(ctx context.Context, urgent bool) (int, error)
	AdvanceGraphs(ctx context.Context, now time.Time) (graphs.Round, error)
}

// Slots opens claims for the free slots of queues.
type Slots interface {
	Open(ctx context.Context, q dispatch.Queue) (*dispatch.Claim, error)
	OpenTogether(ctx context.Context, queues ...dispatch.Queue) (dispatch.Claims, error)
}

// Options configure a Runner.
type Options struct {
	Store Store
	Slots Slots
	Log   *slog.Logger
	Reg   prometheus.Registerer

	Period           time.Duration // between passes while nothing is ready; shorter at first (pauses)
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
	mostAtOnce         atomic.Int64 // the most tasks of a claim now
	lookout            lookout
	claimed            *prometheus.CounterVec
	released, neverRun prometheus.Counter
}

// New makes a Runner; its counters are registered on o.Reg.
func New(o Options) *Runner {
	reg := promauto.With(o.Reg)
	r := &Runner{
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
	r.mostAtOnce.Store(claimAtMost)
	return r
}

// Run claims ready tasks every Period, and when it is woken, until ctx ends. Its first claims are small: it can't know
// whether tasks with priority come in.
func (r *Runner) Run(ctx context.Context) error {
	if !r.WithPriority {
		r.mostAtOnce.Store(claimAtMostBeside)
	}
	pauses := pauses{period: r.Period, idle: patientPasses}
	return (&service.Loop{
		Name: "claiming tasks", Log: r.Log, Period: r.Period, Listen: r.Listen,
		RunOnce: func(ctx context.Context) (service.Result, error) {
			result, graphErr := r.graphs(ctx)
			if full, err := r.tooManyOutgoing(ctx); full || err != nil {
				return service.Result{Next: deliveryWait}, errors.Join(graphErr, err)
			}
			n, ready, err := r.pass(ctx)
			if celery.IsOfQueue(err) {
				err = nil // not an outage: the other queues continue
			}
			result.Again = result.Again || n > 0
			if next := pauses.after(n, ready); result.Next == 0 {
				result.Next = next
			}
			return result, errors.Join(graphErr, err)
		},
	}).Run(ctx)
}

// pauses are the waits between the passes of a runner.
type pauses struct {
	period time.Duration
	idle   int // passes in succession that found no ready task
}

// patientPasses is the number of idle passes after which each pause is the whole period.
const patientPasses = 6

// after returns the pause after a pass. It is short after tasks came in, as the next ones may follow soon, and doubles up
// to the period. While ready tasks have no free slot it is the period: each pass asks the broker about their queues.
func (p *pauses) after(claimed int, ready bool) time.Duration {
	switch {
	case claimed > 0:
		p.idle = 0
	case !ready:
		p.idle = min(p.idle+1, patientPasses)
		return p.period >> (patientPasses - p.idle)
	}
	return p.period
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
	// claimAtMostBeside is the same at the start and while tasks with priority come in. Then it doubles with each pass.
	// Beside larger claims, a task with priority waits longer: its commit for the disk, its message for the processor.
	claimAtMostBeside = 50
	// besidePriority is how long a notification of a task with priority keeps claims small.
	besidePriority = 10 * time.Second
)

// PriorityCameIn makes a runner of tasks without priority claim less at once for a while: one with priority became ready.
func (r *Runner) PriorityCameIn() {
	r.cameIn.Store(r.now().UnixNano())
	r.mostAtOnce.Store(claimAtMostBeside)
}

// claimMore doubles the most tasks of a claim, unless tasks with priority come in.
func (r *Runner) claimMore() {
	if most := r.mostAtOnce.Load(); r.now().UnixNano()-r.cameIn.Load() >= int64(besidePriority) {
		r.mostAtOnce.CompareAndSwap(most, min(2*most, claimAtMost))
	}
}

// tooManyOutgoing reports whether so many messages are outgoing that further claims would mark tasks as scheduled
// long before they are sent.
func (r *Runner) tooManyOutgoing(ctx context.Context) (bool, error) {
	n, err := r.Store.OutgoingDue(ctx, r.WithPriority)
	return n >= dispatch.MaxClaim, err
}

const (
	// parallelClaims is how many transactions a pass claims in at once. They wait together for the disk, the broker and
	// the database.
	parallelClaims = 4
	// claimsTogether is the most queues of a transaction. Each queue's part of it is small, so that none waits long.
	claimsTogether = 16
)

// RunOnce makes one pass over the task types with ready tasks. Types of the same queue follow each other. It returns
// the number of claimed tasks, and the errors of all types.
func (r *Runner) RunOnce(ctx context.Context) (int, error) {
	n, _, err := r.pass(ctx)
	return n, err
}

// pass is RunOnce. ready reports whether there were ready tasks, with or without a free slot.
func (r *Runner) pass(ctx context.Context) (n int, ready bool, err error) {
	jobs, err := r.readyJobs(ctx)
	if err != nil || len(jobs) == 0 {
		return 0, false, err
	}
	claimed, failed := make([]int, len(jobs)), make([]error, len(jobs))
	var claims errgroup.Group
	claims.SetLimit(parallelClaims)
	for _, of := range transactions(jobs) {
		claims.Go(func() error {
			for _, together := range of {
				r.claim(ctx, jobs, together, claimed, failed)
			}
			return nil
		})
	}
	_ = claims.Wait() // the errors are in failed
	for i, of := range claimed {
		n += of
		if jobs[i].emptied {
			r.lookout.emptied(jobs[i].name())
		}
	}
	if n > 0 {
		r.claimMore()
	}
	return n, true, errors.Join(failed...)
}

// transactions returns the indexes of the jobs of each transaction, by the transactions that follow each other. Jobs
// of the same queue follow each other. Queues with one job and a limit, without lanes and groups, are claimed for together:
// with many queues, a commit for each would take longer than the claims.
func transactions(jobs []job) (all [][][]int) {
	var simple []int
	for _, of := range byQueue(jobs) {
		if len(of) == 1 && jobs[of[0]].simple() {
			simple = append(simple, of[0])
			continue
		}
		all = append(all, slices.Collect(slices.Chunk(of, 1)))
	}
	size := min(claimsTogether, (len(simple)+parallelClaims-1)/parallelClaims)
	for some := range slices.Chunk(simple, max(1, size)) {
		all = append(all, [][]int{some})
	}
	return all
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
	now, began := r.now(), time.Now()
	from := r.lookout.look(now)
	names, err := r.Store.ReadyTaskTypes(ctx, now, r.WithPriority, from)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	var all []model.TaskType
	if len(names) > 0 {
		if all, err = r.Store.TaskTypes(ctx); err != nil {
			return nil, err
		}
	}
	isReady := make(map[string]bool, len(names))
	for _, name := range names {
		isReady[name] = true
	}
	r.lookout.looked(now, took, from, all, isReady)
	ready := slices.DeleteFunc(slices.Clone(all), func(tt model.TaskType) bool {
		return !isReady[tt.Type] || !r.wanted(tt.Type)
	})
	jobs := r.jobs(ready, all)
	for i, j := range jobs {
		jobs[i].from = from[j.types[0].Type]
	}
	return jobs, nil
}

// wanted applies --task-type and --task-type-pattern.
func (r *Runner) wanted(name string) bool {
	return model.Restriction{TaskTypes: r.TaskTypes, Patterns: r.TaskTypePatterns}.Admits(name)
}

// claim fills the free slots of the queues of some jobs in one transaction. It sets their elements of claimed and
// failed. If the transaction fails, each job gets one of its own.
func (r *Runner) claim(ctx context.Context, jobs []job, together []int, claimed []int, failed []error) {
	switch err := r.claimTogether(ctx, jobs, together, claimed, failed); {
	case err == nil:
	case len(together) == 1:
		failed[together[0]] = jobs[together[0]].failed(err)
	default:
		for one := range slices.Chunk(together, 1) {
			r.claim(ctx, jobs, one, claimed, failed)
		}
	}
}

// claimTogether is claim without the retries. failed gets the errors of queues that can't be observed; any other error
// is returned, and nothing is claimed.
func (r *Runner) claimTogether(ctx context.Context, jobs []job, together []int, claimed []int, failed []error) error {
	var queues []dispatch.Queue
	for _, at := range together {
		queues = append(queues, jobs[at].queue)
	}
	claims, err := r.Slots.OpenTogether(ctx, queues...)
	if err != nil {
		return err
	}
	refill := dispatch.RefillByRunner
	if r.WithPriority {
		refill = dispatch.RefillByPriority // here tasks with priority have a limit, too, and don't wait
	}
	taken, work := make([]map[string]int, len(claims)), make([][]ledger.Work, len(claims))
	for i, c := range claims {
		c.Size = min(c.Size, max(1, int(r.mostAtOnce.Load())/len(claims)))
		if err == nil && c.Free >= refill(queues[i].Limit) {
			taken[i], work[i], err = r.take(ctx, c, jobs[together[i]])
		}
	}
	if err = claims.Commit(ctx, work, err); err != nil {
		return err
	}
	for i, at := range together {
		claimed[at] = len(work[i])
		jobs[at].emptied = jobs[at].shares == nil && len(work[i]) > 0 && len(work[i]) < claims[i].Size
		if err := claims[i].Err; err != nil {
			failed[at] = jobs[at].failed(err)
		}
		for taskType, n := range taken[i] {
			r.claimed.WithLabelValues(taskType).Add(float64(n))
			r.Log.Info("tasks claimed", "task_type", taskType, "queue", queues[i].Name, "tasks", n)
		}
	}
	return nil
}

const (
	// graphRounds is how many rounds of the drain of graphs precede a pass. That is enough to fill the queues, and
	// other ready tasks don't wait for all of a large fan-out.
	graphRounds = 10
	// graphsTime ends them earlier: rounds are slow where failures follow long chains.
	graphsTime = time.Second
	// othersWait is the delay when other transactions drain graphs or hold rows.
	othersWait = 100 * time.Millisecond
)

// graphs drains graphs of tasks before a pass. Its result asks for another pass at once if there is more.
func (r *Runner) graphs(ctx context.Context) (service.Result, error) {
	var round graphs.Round
	began := time.Now()
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
		if !round.More || time.Since(began) >= graphsTime {
			break
		}
	}
	result := service.Result{Again: round.More}
	if round.Waits {
		result.Next = min(r.Period, othersWait)
	}
	return result, nil
}
