package maintenance

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/postgres"
)

// lostAfter is the age at which sent work counts as lost in any case. A visit may be scheduled again after the same
// time, by default.
const lostAfter = 7 * 24 * time.Hour

// GiveUpWork ends sent work without an end event. Celery sends events once, and workers may be configured to send
// none.
type GiveUpWork struct {
	Store  *db.Store
	Broker dispatch.Observer
	Log    *slog.Logger

	GivenUp *prometheus.CounterVec // messages given up, by queue; may be nil
	// LostAfter is the age at which started work without a time limit counts as lost; 0 is a day.
	LostAfter time.Duration

	size bulk.BatchSize
}

// NewGivenUp returns the counter of a GiveUpWork, registered on reg.
func NewGivenUp(reg prometheus.Registerer) *prometheus.CounterVec {
	return promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "swh_scheduler_work_given_up_total", Help: "Messages of groups, lanes and hosters that were given up for want of events, by queue.",
	}, []string{"queue"})
}

// Job returns the job that calls GiveUp.
func (u *GiveUpWork) Job() Job {
	return Job{Name: "work without events", Period: time.Minute, Do: func(ctx context.Context) (string, error) { return u.GiveUp(ctx, u.Store.Now()) }}
}

// GiveUp gives up sent work whose end event is lost, and deletes settled work. It includes queues whose lanes or
// shares were removed from the configuration. Both steps use the moment up to which ends are known
// (db.Store.EndsKnown). Each call observes which messages have left their queue. Work without a start event is given
// up if an observation found it out of its queue GiveUpAfter before that moment. A later observation proves nothing:
// a worker may have taken the message after that moment. If a queue can't be observed, GiveUp goes on with the others
// and returns that error.
func (u *GiveUpWork) GiveUp(ctx context.Context, now time.Time) (string, error) {
	began := time.Now()
	// This moment is read before work and messages, so that work which ends meanwhile isn't given up.
	known, err := u.Store.EndsKnown(ctx, now)
	if err != nil {
		return "", err
	}
	queues, err := u.Store.QueuesWithSent(ctx)
	if err != nil {
		return "", err
	}
	total := 0
	var failed []error
	for _, queue := range queues {
		n, err := u.giveUp(ctx, queue, now.Add(time.Since(began)), known)
		total += n
		if err != nil {
			failed = append(failed, err)
		}
		if err != nil && !celery.IsOfQueue(err) && !postgres.TimedOut(err) {
			return count(total, "given up"), errors.Join(failed...)
		}
	}
	failed = append(failed,
		u.Store.ForgetSettled(ctx, known.Add(-GiveUpAfter)),
		u.Store.ForgetObservations(ctx, known.Add(-GiveUpAfter), known.Add(-lostAfter)))
	return count(total, "given up"), errors.Join(failed...)
}

// giveUp gives up work of one queue, in batches. It counts the queue's messages before each batch, as they come and
// go. After a time-out the next batch is half as large.
func (u *GiveUpWork) giveUp(ctx context.Context, queue string, now, known time.Time) (total int, err error) {
	for more := true; more && err == nil; {
		var givenUp map[string]int
		most := u.size.Of(ledger.MaintenanceBatch)
		givenUp, more, err = u.giveUpSome(ctx, queue, most, now, known)
		u.size.Adjust(most, err)
		n := 0
		for set, of := range givenUp {
			u.Log.Warn("work given up: no event of its end came", "queue", queue, "lanes", set, "messages", of)
			n += of
		}
		if u.GivenUp != nil {
			u.GivenUp.WithLabelValues(queue).Add(float64(n))
		}
		total += n
	}
	return total, err
}

// giveUpSome gives up a batch of a queue's work, and none if the queue can't be observed. While the number of
// messages that workers hold is unknown, any message may be in the queue. It holds the queue's lock, so that no claim
// adds messages between the observation and the ledger's statement.
func (u *GiveUpWork) giveUpSome(ctx context.Context, queue string, most int, now, known time.Time) (givenUp map[string]int, more bool, err error) {
	observed, err := dispatch.ObserveQueue(ctx, u.Store, u.Broker, queue)
	if err != nil {
		return nil, false, err
	}
	err = u.Store.ByKey(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockQueues(ctx, queue); err != nil {
			return err
		}
		waiting, err := dispatch.QueueUpperBound(ctx, tx, queue, observed)
		if err != nil {
			return err
		}
		givenUp, more, err = tx.GiveUpWork(ctx, ledger.GiveUpFilter{
			Queue: queue, Waiting: waiting, Now: now, Limit: most,
			SilentBefore: known.Add(-GiveUpAfter), BegunBefore: known.Add(-cmp.Or(u.LostAfter, model.DefaultHosterLostAfter)), LostBefore: known.Add(-lostAfter),
		})
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return givenUp, more, nil
}

// count returns a text such as "3 messages given up", or "" for 0.
func count(n int, done string) string {
	if n == 0 {
		return ""
	}
	return model.Count(n, "message ", "messages ") + done
}
