package runner

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/daemon"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// lostPeriod is the time between two sweeps for lost runs, which are costly.
const lostPeriod = 10 * time.Minute

// defaultLost names, in LostOptions.After, the task types that are not named.
const defaultLost = "default"

// LostStore is what the sweep for lost runs asks of the database.
type LostStore interface {
	TaskTypes(ctx context.Context) ([]scheduler.TaskType, error)
	SilentRuns(ctx context.Context, before map[string]time.Time) ([]sql.SilentRun, error)
	LoseRuns(ctx context.Context, runs []sql.SilentRun, now time.Time) (int, error)
}

// LostOptions configure a LostRuns.
type LostOptions struct {
	Store   LostStore
	Lengths dispatch.QueueLengths
	Log     *slog.Logger
	Reg     prometheus.Registerer

	// After is how long a run may be silent, by task type; "default" is for the
	// types that are not named. The runs of other types are never given up.
	After map[string]time.Duration
}

// LostRuns gives up runs that never come back: it marks them lost, and the
// database retries their tasks by their type's rules for a failure. The peer has
// the status and never sets it: its runs wait for ever.
//
// A run is lost when nothing was heard of it for the time given, and either a
// worker had taken it, or its message is neither in the outbox nor can it be in
// its queue, which is empty. A result that comes after all is ignored by the
// listener: a run ends once.
type LostRuns struct {
	LostOptions
	now  func() time.Time
	lost *prometheus.CounterVec
}

// NewLostRuns makes a LostRuns; its counter is registered on o.Reg.
func NewLostRuns(o LostOptions) *LostRuns {
	l := &LostRuns{
		LostOptions: o,
		now:         time.Now,
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_runner_lost_runs_total",
			Help: "Runs given up because nothing was heard of them, by task type.",
		}, []string{"task_type"}),
	}
	o.Reg.MustRegister(l.lost)
	return l
}

// Run sweeps every ten minutes until ctx ends.
func (l *LostRuns) Run(ctx context.Context) error {
	loop := daemon.Loop{
		RunOnce: func(ctx context.Context) (daemon.Result, error) {
			_, err := l.RunOnce(ctx)
			return daemon.Result{}, err
		},
		Period:  lostPeriod,
		Jitter:  true,
		Service: daemon.NewService(l.Log, "what the sweep for lost runs needs"),
	}
	return loop.Run(ctx)
}

// RunOnce gives up the runs that are lost now, and returns how many it was.
func (l *LostRuns) RunOnce(ctx context.Context) (int, error) {
	types, err := l.Store.TaskTypes(ctx)
	if err != nil {
		return 0, err
	}
	before := make(map[string]time.Time)
	byName := make(map[string]scheduler.TaskType)
	for _, tt := range types {
		after, ok := l.After[tt.Type]
		if !ok {
			after = l.After[defaultLost]
		}
		if after > 0 {
			before[tt.Type] = l.now().Add(-after)
			byName[tt.Type] = tt
		}
	}
	if len(before) == 0 {
		return 0, nil
	}
	silent, err := l.Store.SilentRuns(ctx, before)
	if err != nil {
		return 0, err
	}
	lost, err := l.gone(ctx, silent, byName)
	if err != nil || len(lost) == 0 {
		return 0, err
	}
	n, err := l.Store.LoseRuns(ctx, lost, l.now())
	if err != nil {
		return 0, err
	}
	for _, run := range lost {
		l.lost.WithLabelValues(run.TaskType).Inc()
	}
	l.Log.Warn("runs given up: nothing was heard of them; their tasks are retried by their type's rules", "runs", n)
	return n, nil
}

// gone are the silent runs that no worker can still find in its queue.
func (l *LostRuns) gone(ctx context.Context, silent []sql.SilentRun, types map[string]scheduler.TaskType) ([]sql.SilentRun, error) {
	var gone []sql.SilentRun
	empty := make(map[string]bool)
	for _, run := range silent {
		if run.Status == scheduler.RunScheduled {
			queue := queueOf(types[run.TaskType], run.WithPriority)
			none, asked := empty[queue]
			if !asked {
				length, err := l.Lengths.Length(ctx, queue, 0)
				if err != nil {
					return nil, err
				}
				none = length.Messages() == 0
				empty[queue] = none
			}
			if !none {
				continue
			}
		}
		gone = append(gone, run)
	}
	return gone, nil
}
