package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/celery"
	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

const (
	maintenancePeriod = time.Minute
	lowWaterPeriod    = 10 * time.Second

	// UnheardAfter is how long the event of a start or an end may be delayed.
	UnheardAfter = 10 * time.Minute

	// lostAfter is when sent work counts as lost in any case: by default, a visit may be
	// scheduled again then.
	lostAfter = 7 * 24 * time.Hour
)

// Maintenance ends work that nothing else would end: events are sent once, and a worker
// may be configured to send none; lanes are removed from the configuration.
type Maintenance struct {
	Store   *db.Store
	Slots   *Slots
	Lengths Observer
	Log     *slog.Logger

	GivenUp *prometheus.CounterVec // messages given up, by queue; may be nil

	// LaneSets returns the lane sets in the configuration of this process; nil is none.
	LaneSets func() []string
	// LostAfter is when work counts as lost that a worker began and that has no time limit; 0 is a day.
	LostAfter time.Duration

	// Home returns where the work of a removed lane set goes.
	Home func(ctx context.Context, laneSet string) (Queue, error)

	unheard bulk.BatchSize
}

// NewGivenUp makes the counter of a Maintenance and registers it on reg.
func NewGivenUp(reg prometheus.Registerer) *prometheus.CounterVec {
	return promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "swh_scheduler_work_given_up_total", Help: "Messages of groups, lanes and hosters that were given up, as nothing was heard of them, by queue.",
	}, []string{"queue"})
}

// Jobs returns the jobs for a Keeper.
func (m *Maintenance) Jobs() []maintenance.Job {
	job := func(name string, do func(ctx context.Context, now time.Time) (string, error)) maintenance.Job {
		return maintenance.Job{Name: name, Period: maintenancePeriod, Do: func(ctx context.Context) (string, error) { return do(ctx, m.Store.Now()) }}
	}
	return []maintenance.Job{
		{Name: "events", Period: eventsPeriod, Do: m.lookAtEvents}, // before what judges by them
		job("unheard work", m.GiveUp), job("removed lanes", m.Release),
		{Name: "low water", Period: lowWaterPeriod, Do: func(ctx context.Context) (string, error) { return "", m.Store.RaiseLowWater(ctx) }},
		{Name: "work below low water", Period: time.Hour, Do: m.lowerLowWater},
	}
}

// lowerLowWater finds outgoing work that deliverers don't see, and changes that drains don't.
func (m *Maintenance) lowerLowWater(ctx context.Context) (string, error) {
	lowered, err := m.Store.LowerLowWater(ctx)
	if !lowered {
		return "", err
	}
	m.Log.Error("outgoing messages, or changes of candidates or graphs, were below the low-water marks; they are looked at now")
	return "lowered", err
}

// GiveUp gives up sent work whose end will not be heard, also of queues that no longer
// have lanes or shares, and deletes settled work. Both are judged by the moment up to which ends are
// known (db.Store.EndsKnown). Work whose start is not known is given up if a look found it out of its queue
// UnheardAfter before that moment: a worker may have taken it after the moment, however long it waited before.
// Each call is such a look.
// It goes on with the other queues where
// one can't be asked, and returns that error.
func (m *Maintenance) GiveUp(ctx context.Context, now time.Time) (string, error) {
	began := time.Now()
	// Before work and messages are looked at: what ends meanwhile is no harm.
	known, err := m.Store.EndsKnown(ctx, now)
	if err != nil {
		return "", err
	}
	queues, err := m.Store.QueuesWithSent(ctx)
	if err != nil {
		return "", err
	}
	total := 0
	var failed []error
	for _, queue := range queues {
		n, err := m.giveUp(ctx, queue, now.Add(time.Since(began)), known)
		total += n
		if err != nil {
			failed = append(failed, err)
		}
		if err != nil && !celery.IsOfQueue(err) && !postgres.TimedOut(err) {
			return count(total, "given up"), errors.Join(failed...)
		}
	}
	failed = append(failed,
		m.Store.ForgetSettled(ctx, known.Add(-UnheardAfter)),
		m.Store.ForgetLooks(ctx, known.Add(-UnheardAfter), known.Add(-lostAfter)))
	return count(total, "given up"), errors.Join(failed...)
}

// giveUp gives up work of one queue, in batches. The messages of the queue are counted anew
// for each, as they come and go. After a time-out the next batch is half as large.
func (m *Maintenance) giveUp(ctx context.Context, queue string, now, known time.Time) (total int, err error) {
	for more := true; more && err == nil; {
		var givenUp map[string]int
		most := m.unheard.Of(db.MaintenanceBatch)
		givenUp, more, err = m.giveUpSome(ctx, queue, most, now, known)
		m.unheard.Note(most, err)
		n := 0
		for set, of := range givenUp {
			m.Log.Warn("work given up: nothing is heard of it", "queue", queue, "lanes", set, "messages", of)
			n += of
		}
		if m.GivenUp != nil {
			m.GivenUp.WithLabelValues(queue).Add(float64(n))
		}
		total += n
	}
	return total, err
}

// giveUpSome gives up a batch of a queue's work, and nothing if the queue can't be asked.
// While it is unknown how many messages workers hold, any may be in the queue. It holds the queue's lock: no claim
// adds messages between their count and the look at the ledger.
func (m *Maintenance) giveUpSome(ctx context.Context, queue string, most int, now, known time.Time) (givenUp map[string]int, more bool, err error) {
	observed, err := observe(ctx, m.Store, m.Lengths, true, queue)
	if err != nil {
		return nil, false, err
	}
	err = m.Store.ByKey(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockQueues(ctx, queue); err != nil {
			return err
		}
		counts, err := countMessages(ctx, tx, observed, queue)
		if err == nil {
			err = counts[0].err
		}
		if err != nil {
			return err
		}
		waiting := counts[0].total()
		if counts[0].Unknown {
			waiting = math.MaxInt
		}
		givenUp, more, err = tx.GiveUpWork(ctx, db.Unheard{
			Queue: queue, Waiting: waiting, Now: now, Most: most,
			UnheardBefore: known.Add(-UnheardAfter), BegunBefore: known.Add(-cmp.Or(m.LostAfter, model.DefaultHosterLostAfter)), LostBefore: known.Add(-lostAfter),
		})
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return givenUp, more, nil
}

// Release sends the backlogs of removed lane sets to the queues that they would have gone
// to without lanes, as far as there are slots.
func (m *Maintenance) Release(ctx context.Context, now time.Time) (string, error) {
	if m.LaneSets != nil { // a process first says what it has
		if err := m.Store.SeeLaneSets(ctx, m.LaneSets(), now); err != nil {
			return "", err
		}
	}
	sets, err := m.Store.RemovedLaneSets(ctx, now)
	if err != nil {
		return "", err
	}
	total := 0
	var failed []error
	for _, set := range sets {
		home, err := m.Home(ctx, set)
		if errors.Is(err, model.ErrUnknownTaskType) {
			m.Log.Warn("lanes of an unknown task type have a backlog", "lanes", set)
			continue
		}
		n := 0
		if err == nil {
			n, err = m.release(ctx, set, home, now)
		}
		if total += n; err != nil {
			failed = append(failed, fmt.Errorf("send the backlog of the removed lanes of %q: %w", set, err))
		}
	}
	return count(total, "sent without lanes"), errors.Join(failed...)
}

// release sends the backlog of a removed lane set to a queue, as far as there are slots.
func (m *Maintenance) release(ctx context.Context, set string, home Queue, now time.Time) (int, error) {
	c, err := m.Slots.Open(ctx, home)
	if err != nil {
		return 0, err
	}
	c.Moved, err = c.Tx.SendWithoutLanes(ctx, set, home.Name, c.Size, now)
	if _, err := c.Commit(ctx, nil, err); err != nil {
		return 0, err
	}
	return c.Moved, nil
}

// count says what was done to how many messages, if there were any.
func count(n int, done string) string {
	if n == 0 {
		return ""
	}
	return model.Count(n, "message ", "messages ") + done
}
