package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/celery"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/postgres"
)

const (
	lostPeriod = 10 * time.Minute // between the starts of two sweeps, which read all runs
	lostTime   = 15 * time.Second // of each minute, for a sweep
)

// LostOptions configure a LostRuns.
type LostOptions struct {
	Store  *db.Store
	Broker interface {
		Length(ctx context.Context, queue string, recent int) (celery.QueueLength, error)
	}
	Log *slog.Logger
	Reg prometheus.Registerer

	// After is the time without events after which a run is lost, by task type; "default" is for the other types. A
	// type without a time has no lost runs.
	After map[string]time.Duration
	// Before, if not zero, includes runs that were sent before this program began to send, if that was before this
	// moment.
	Before time.Time
}

// LostRuns gives up runs whose end never comes. It sets their status lost, and the database retries their tasks by
// their type's rules for a failure. The Python scheduler has the status and never sets it.
//
// A run is lost if it had no event for the given time and one of the conditions below holds. The time ends at the
// moment up to which ends are known (db.Store.EndsKnown).
//
//   - A worker had started it.
//   - Its message is neither outgoing nor in its queue: the queue is empty, and was empty at an
//     observation GiveUpAfter before that moment. A worker that took the message since may have
//     started it.
//
// While its queue can't be observed, no run is lost. While the number of messages that workers hold is unknown, no
// run without a start is lost. The listener ignores a result that comes later, as a run ends once. Runs that
// PostgreSQL refuses to end are logged, and the sweep goes on.
//
// The Python runner may have left years of runs without an end, whose tasks were done long ago. So runs that were
// sent before runners of this program began to send are counted and left alone, except those of Before. The first
// sweep by changed rules begins at once, and logs what it left alone.
type LostRuns struct {
	LostOptions
	now         func() time.Time
	lost        *prometheus.CounterVec
	size        bulk.BatchSize
	loggedRules string // the rules of which it was logged what they leave alone
}

// NewLostRuns returns a LostRuns whose counter is registered on o.Reg.
func NewLostRuns(o LostOptions) *LostRuns {
	return &LostRuns{
		LostOptions: o, now: o.Store.Now,
		lost: promauto.With(o.Reg).NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_runner_lost_runs_total", Help: "Runs given up for want of events, by task type.",
		}, []string{"task_type"}),
	}
}

// Job returns the sweep as a maintenance job.
func (l *LostRuns) Job() Job {
	return Job{Name: "lost runs", Period: time.Minute, Do: func(ctx context.Context) (string, error) {
		n, err := l.RunOnce(ctx)
		if n == 0 {
			return "", err
		}
		return model.Count(n, "run", "runs") + " given up", err
	}}
}

// RunOnce begins a sweep if one is due, or continues it, gives up the lost runs, and returns their number. If a queue
// can't be observed, it goes on with the others and returns that error.
func (l *LostRuns) RunOnce(ctx context.Context) (int, error) {
	types, err := l.Store.TaskTypes(ctx)
	if err != nil {
		return 0, err
	}
	known, err := l.Store.EndsKnown(ctx, l.now())
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
			before[tt.Type] = known.Add(-after)
			byName[tt.Type] = tt
		}
	}
	if len(before) == 0 {
		return 0, nil
	}
	since, err := l.Store.SendingSince(ctx)
	if err != nil {
		return 0, err
	}
	rules := lostRules(l.After, since, l.Before)
	n := 0
	var observeErr error
	ended, err := l.Store.EachSilentRun(ctx, db.SilentRunSweep{Before: before, Rules: rules, Every: lostPeriod, AtMost: lostTime}, func(silent []ledger.SilentRun) (left int, err error) {
		lost, err := l.gone(ctx, silent, byName, known)
		if err != nil && !celery.IsOfQueue(err) {
			return 0, err // the next call continues the sweep here
		}
		observeErr = errors.Join(observeErr, err)
		ours := slices.DeleteFunc(slices.Clone(lost), func(r ledger.SilentRun) bool { return !since.Sent(r.Scheduled, r.WithPriority, l.Before) })
		given, err := l.giveUp(ctx, ours)
		n += given
		return len(lost) - len(ours), err
	})
	if err == nil && ended && rules.Rules != l.loggedRules {
		err = l.logLeft(ctx, rules.Rules, since)
	}
	if err = errors.Join(observeErr, err); n == 0 {
		return 0, err
	}
	l.Log.Warn("runs given up: no event of their end came; their tasks are retried by their type's rules", "runs", n)
	return n, err
}

// logLeft logs the number of runs that the last sweep left alone, if any, once for each set of rules. That number
// excludes runs whose message may be in a queue: a later sweep may find those.
func (l *LostRuns) logLeft(ctx context.Context, rules string, since model.SendingSince) error {
	found, err := l.Store.SilentRuns(ctx)
	if err == nil && found.Left > 0 {
		l.loggedRules = rules
		l.Log.Warn("silent runs are left alone: they were sent before this program sent here, and lost_after would send their tasks again; "+
			"see ForeignRunsSilent in docs/how-to/runbooks.md", "runs", found.Left, "sending_since", since[false])
	}
	return err
}

// giveUp ends lost runs, and returns how many it ended.
func (l *LostRuns) giveUp(ctx context.Context, lost []ledger.SilentRun) (n int, err error) {
	_, err = l.size.Write(0, len(lost), func(first, end int) error {
		ended, err := l.Store.LoseRuns(ctx, lost[first:end], l.now())
		if err == nil {
			n += ended
			for _, run := range lost[first:end] {
				l.lost.WithLabelValues(run.TaskType).Inc()
			}
		}
		return err
	}, func(i int, err *postgres.RefusedError) {
		l.Log.Error("a lost run can't be ended; its task stays scheduled", "run", lost[i].ID, "task_type", lost[i].TaskType, "error", err)
	})
	return n, err
}

// gone returns the silent runs whose message isn't in its queue and didn't leave it lately, and the errors of queues
// that can't be observed. known is the moment up to which starts are known.
func (l *LostRuns) gone(ctx context.Context, silent []ledger.SilentRun, types map[string]model.TaskType, known time.Time) ([]ledger.SilentRun, error) {
	type observation struct {
		lost bool      // started runs of the queue are lost
		left time.Time // so are others that were scheduled before
	}
	observations := make(map[string]observation)
	var gone []ledger.SilentRun
	var failed []error
	for _, run := range silent {
		queue := types[run.TaskType].QueueFor(run.WithPriority)
		a, observed := observations[queue]
		if !observed {
			length, err := l.Broker.Length(ctx, queue, 0)
			switch {
			case celery.IsOfQueue(err):
				failed = append(failed, err)
			case err != nil:
				return nil, err
			default:
				a.lost = true
			}
			if a.lost && !length.Unknown && length.Messages() == 0 {
				if a.left, err = l.left(ctx, queue, known); err != nil {
					return nil, err
				}
			}
			observations[queue] = a
		}
		scheduled := time.Unix(0, 0)
		if run.Scheduled != nil {
			scheduled = *run.Scheduled
		}
		if a.lost && (run.Status != model.RunScheduled || scheduled.Before(a.left)) {
			gone = append(gone, run)
		}
	}
	return gone, errors.Join(failed...)
}

// left notes that a queue is empty. It returns the moment before which a scheduled message has left the queue so long
// ago that its start would be known.
func (l *LostRuns) left(ctx context.Context, queue string, known time.Time) (time.Time, error) {
	if err := l.Store.NoteEmptyQueue(ctx, queue, l.now()); err != nil {
		return time.Time{}, err
	}
	return l.Store.LeftQueueBefore(ctx, queue, known.Add(-GiveUpAfter))
}

// lostRules returns the rules of a sweep: the time without events by task type, and the moments that
// model.SendingSince.Sent uses.
func lostRules(after map[string]time.Duration, s model.SendingSince, before time.Time) db.SilentRuns {
	var b strings.Builder
	for _, taskType := range slices.Sorted(maps.Keys(after)) {
		fmt.Fprintf(&b, "%s=%s ", taskType, after[taskType])
	}
	for _, withPriority := range []bool{false, true} {
		fmt.Fprintf(&b, "%s ", s[withPriority].UTC().Format(time.RFC3339Nano))
	}
	b.WriteString(before.UTC().Format(time.RFC3339Nano))
	return db.SilentRuns{Rules: b.String(), After: maps.Clone(after), Before: before}
}
