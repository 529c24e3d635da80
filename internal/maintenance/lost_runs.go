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
	lostPeriod = 10 * time.Minute // between two sweeps for lost runs, which read all runs
	lostTime   = 15 * time.Second // of a minute, for a sweep
)

// LostOptions configure a LostRuns.
type LostOptions struct {
	Store   *db.Store
	Lengths interface {
		Length(ctx context.Context, queue string, recent int) (celery.QueueLength, error)
	}
	Log *slog.Logger
	Reg prometheus.Registerer

	// After is how long a run may be silent, by task type; "default" is for the other
	// types. Without it their runs are never given up.
	After map[string]time.Duration
	// Before, if not zero, has also those runs given up that were sent before this program sent
	// here, if that was before this moment.
	Before time.Time
}

// LostRuns gives up runs that never come back: it marks them lost, and the database
// retries their tasks by their type's rules for a failure. The Python scheduler has the status and
// never sets it.
//
// A run is lost when nothing was heard of it for the given time, up to the moment up to which ends are
// known (db.Store.EndsKnown), and either a worker had
// started it, or its message is neither outgoing nor in its queue, which is empty, and was so
// at a look GiveUpAfter before that moment: what a worker has taken from it since may have started. While
// its queue can't be asked, no run is lost, nor, while it is unknown how many messages
// workers hold, one that was not started. The listener ignores a result that comes after
// all: a run ends once. Runs that PostgreSQL refuses to end are logged, and hold up no
// other.
//
// What the Python runner left when it was replaced may be years of runs whose end was not heard,
// and whose tasks were done long ago. So runs that were sent before runners of this program sent
// here are counted and left alone, unless Before says otherwise. The first sweep by other rules
// than the last one begins at once, and what it has left alone is logged.
type LostRuns struct {
	LostOptions
	now         func() time.Time
	lost        *prometheus.CounterVec
	size        bulk.BatchSize
	loggedRules string // the rules of which it was logged what they leave alone
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
func (l *LostRuns) Job() Job {
	return Job{Name: "lost runs", Period: time.Minute, Do: func(ctx context.Context) (string, error) {
		n, err := l.RunOnce(ctx)
		if n == 0 {
			return "", err
		}
		return model.Count(n, "run", "runs") + " given up", err
	}}
}

// RunOnce begins a sweep if one is due, or goes on with it, gives up the runs that are
// lost, and returns their number. It goes on with the other queues where one can't be
// asked, and returns that error.
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
	var askErr error
	ended, err := l.Store.EachSilentRun(ctx, db.SilentRunSweep{Before: before, Rules: rules, Every: lostPeriod, AtMost: lostTime}, func(silent []ledger.SilentRun) (left int, err error) {
		lost, err := l.gone(ctx, silent, byName, known)
		if err != nil && !celery.IsOfQueue(err) {
			return 0, err // the sweep goes on here
		}
		askErr = errors.Join(askErr, err)
		ours := slices.DeleteFunc(slices.Clone(lost), func(r ledger.SilentRun) bool { return !since.Sent(r.Scheduled, r.WithPriority, l.Before) })
		given, err := l.giveUp(ctx, ours)
		n += given
		return len(lost) - len(ours), err
	})
	if err == nil && ended && rules.Rules != l.loggedRules {
		err = l.logLeft(ctx, rules.Rules, since)
	}
	if err = errors.Join(askErr, err); n == 0 {
		return 0, err
	}
	l.Log.Warn("runs given up: nothing was heard of them; their tasks are retried by their type's rules", "runs", n)
	return n, err
}

// logLeft logs what the last sweep, by these rules, has left alone, if anything: it leaves out runs whose
// message may be in a queue, which a later sweep may find.
func (l *LostRuns) logLeft(ctx context.Context, rules string, since model.Sending) error {
	found, err := l.Store.SilentRuns(ctx)
	if err == nil && found.Left > 0 {
		l.loggedRules = rules
		l.Log.Warn("silent runs are left alone: they were sent before this program sent here, and lost_after would send their tasks again; "+
			"see RunsLeftAlone in docs/how-to/runbooks.md", "runs", found.Left, "sending_since", since[false])
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
		l.Log.Error("a run of which nothing was heard can't be given up; its task stays scheduled", "run", lost[i].ID, "task_type", lost[i].TaskType, "error", err)
	})
	return n, err
}

// gone returns the silent runs that cannot be in their queue, and have not left it of late, and the errors of queues that
// can't be asked. known is the moment up to which starts are known.
func (l *LostRuns) gone(ctx context.Context, silent []ledger.SilentRun, types map[string]model.TaskType, known time.Time) ([]ledger.SilentRun, error) {
	type answer struct {
		lost bool      // started runs of the queue are gone
		left time.Time // others are that were scheduled before
	}
	answers := make(map[string]answer)
	var gone []ledger.SilentRun
	var failed []error
	for _, run := range silent {
		queue := types[run.TaskType].QueueFor(run.WithPriority)
		a, asked := answers[queue]
		if !asked {
			length, err := l.Lengths.Length(ctx, queue, 0)
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
			answers[queue] = a
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

// left notes that a queue is empty, and returns the moment before which all that was scheduled had left it so long ago
// that its start would be known.
func (l *LostRuns) left(ctx context.Context, queue string, known time.Time) (time.Time, error) {
	if err := l.Store.NoteEmptyQueue(ctx, queue, l.now()); err != nil {
		return time.Time{}, err
	}
	return l.Store.LeftQueue(ctx, queue, known.Add(-GiveUpAfter))
}

// lostRules returns how lost runs are looked for: after how long a silence, by task type, and by
// which moments of model.Sending.Sent.
func lostRules(after map[string]time.Duration, s model.Sending, before time.Time) db.SilentRuns {
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
