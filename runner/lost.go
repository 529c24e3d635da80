package runner

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/keep"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// lostPeriod is the time between two sweeps for lost runs, which are costly.
const lostPeriod = 10 * time.Minute

// LostStore is the database of LostRuns.
type LostStore interface {
	Now() time.Time
	TaskTypes(ctx context.Context) ([]model.TaskType, error)
	SilentRuns(ctx context.Context, before map[string]time.Time) ([]db.SilentRun, error)
	LoseRuns(ctx context.Context, runs []db.SilentRun, now time.Time) (int, error)
}

// LostOptions configure a LostRuns.
type LostOptions struct {
	Store   LostStore
	Lengths dispatch.QueueLengths
	Log     *slog.Logger
	Reg     prometheus.Registerer

	// After is how long a run may be silent, by task type; "default" is for the other
	// types. Without it their runs are never given up.
	After map[string]time.Duration
}

// LostRuns gives up runs that never come back: it marks them lost, and the database
// retries their tasks by their type's rules for a failure. The peer has the status and
// never sets it.
//
// A run is lost when nothing was heard of it for the given time, and either a worker had
// started it, or its message is neither outgoing nor in its queue, which is empty. The
// listener ignores a result that comes after all: a run ends once. Runs that PostgreSQL
// refuses to end are logged, and hold up no other.
type LostRuns struct {
	LostOptions
	now  func() time.Time
	lost *prometheus.CounterVec
	size db.BatchSize
}

// NewLostRuns makes a LostRuns; its counter is registered on o.Reg.
func NewLostRuns(o LostOptions) *LostRuns {
	return &LostRuns{
		LostOptions: o, now: o.Store.Now,
		lost: promauto.With(o.Reg).NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_runner_lost_runs_total", Help: "Runs given up because nothing was heard of them, by task type.",
		}, []string{"task_type"}),
	}
}

// Job returns the sweep as a maintenance job.
func (l *LostRuns) Job() keep.Job {
	return keep.Job{Name: "lost runs", Period: lostPeriod, Do: func(ctx context.Context) (string, error) {
		n, err := l.RunOnce(ctx)
		if n == 0 {
			return "", err
		}
		return fmt.Sprintf("%d runs given up", n), err
	}}
}

// RunOnce gives up the runs that are lost now, and returns their number.
func (l *LostRuns) RunOnce(ctx context.Context) (int, error) {
	types, err := l.Store.TaskTypes(ctx)
	if err != nil {
		return 0, err
	}
	before := make(map[string]time.Time)
	byName := make(map[string]model.TaskType)
	for _, tt := range types {
		after, ok := l.After[tt.Type]
		if !ok {
			after = l.After["default"]
		}
		if after > 0 {
			before[tt.Type] = l.now().Add(-after)
			byName[tt.Type] = tt
		}
	}
	if len(before) == 0 {
		return 0, nil
	}
	lost, err := l.Store.SilentRuns(ctx, before)
	if err == nil {
		lost, err = l.gone(ctx, lost, byName)
	}
	if err != nil || len(lost) == 0 {
		return 0, err
	}
	n := 0
	_, err = l.size.Write(0, len(lost), func(first, end int) error {
		ended, err := l.Store.LoseRuns(ctx, lost[first:end], l.now())
		if err == nil {
			n += ended
			for _, run := range lost[first:end] {
				l.lost.WithLabelValues(run.TaskType).Inc()
			}
		}
		return err
	}, func(i int, err *db.RefusedError) {
		l.Log.Error("a run of which nothing was heard can't be given up; its task stays scheduled", "run", lost[i].ID, "task_type", lost[i].TaskType, "error", err)
	})
	if err != nil || n == 0 {
		return n, err
	}
	l.Log.Warn("runs given up: nothing was heard of them; their tasks are retried by their type's rules", "runs", n)
	return n, nil
}

// gone returns the silent runs that cannot be in their queue.
func (l *LostRuns) gone(ctx context.Context, silent []db.SilentRun, types map[string]model.TaskType) ([]db.SilentRun, error) {
	var gone []db.SilentRun
	empty := make(map[string]bool) // by queue
	for _, run := range silent {
		if run.Status == model.RunScheduled {
			queue := queueOf(types[run.TaskType], run.WithPriority)
			if _, asked := empty[queue]; !asked {
				length, err := l.Lengths.Length(ctx, queue, 0)
				if err != nil {
					return nil, err
				}
				empty[queue] = length.Messages() == 0
			}
			if !empty[queue] {
				continue
			}
		}
		gone = append(gone, run)
	}
	return gone, nil
}
