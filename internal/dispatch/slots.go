package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/celery"
	"swh-scheduler/sql/db"
)

// MaxClaim is the most messages one claim takes, whatever the queue's limit
// (the peer's MAX_NUM_TASKS).
const MaxClaim = 10000

// Queue is a queue to claim for.
type Queue struct {
	Name  string
	Limit *int64   // of messages, ready and unacknowledged together; nil or 0: none, as with the peer
	Lanes *LaneSet // may be nil
}

// Claimed is what a claim took.
type Claimed struct {
	Written int       // messages written to the ledger, outgoing for the queue
	Work    []db.Work // messages to be routed and written
}

// Count returns the number of messages.
func (c Claimed) Count() int { return c.Written + len(c.Work) }

// ClaimFunc claims up to free messages in a transaction. For a queue with lanes it must
// return them as Claimed.Work.
type ClaimFunc = func(ctx context.Context, tx *db.Tx, free int) (Claimed, error)

// QueueLengths counts the messages at the broker.
type QueueLengths interface {
	// Length counts those of a queue. recent is how many were confirmed within
	// celery.StatsAge: the broker's own statistics may not show them yet.
	Length(ctx context.Context, queue string, recent int) (celery.QueueLength, error)
}

// Slots runs claims within the free slots of queues.
type Slots struct {
	store   *db.Store
	lengths QueueLengths
	claimed func() // called after a claim with outgoing messages
	now     func() time.Time
	metrics slotMetrics
	idle    sync.Map // by name of the lane set: true if the last claim left no work waiting
	sends   sync.Map // by name of the lane set: the *db.BatchSize in which its backlogs are sent
}

// slotMetrics show the last claim for each queue.
type slotMetrics struct {
	messages, limit, free *prometheus.GaugeVec
	seconds               *prometheus.HistogramVec
}

// newGauge makes gauges with labels and registers them, unless reg is nil.
func newGauge(reg prometheus.Registerer, name, help string, labels ...string) *prometheus.GaugeVec {
	return promauto.With(reg).NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func newSlotMetrics() slotMetrics {
	return slotMetrics{
		messages: newGauge(nil, "swh_scheduler_queue_messages", "Messages of a queue at the last claim for it: ready and unacknowledged at the broker, and outgoing.", "queue", "state"),
		limit:    newGauge(nil, "swh_scheduler_queue_limit", "How many messages a queue may hold; 0 is no limit.", "queue"),
		free:     newGauge(nil, "swh_scheduler_queue_free_slots", "How many messages the last claim for a queue could add.", "queue"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "swh_scheduler_claim_seconds", Help: "Time of a claim, from the queue's lock to its commit: counting slots, taking work, writing it to the ledger.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"queue"}),
	}
}

// Register registers the metrics of claims.
func (s *Slots) Register(reg prometheus.Registerer) {
	reg.MustRegister(s.metrics.messages, s.metrics.limit, s.metrics.free, s.metrics.seconds)
	promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "swh_scheduler_clock_ahead_seconds",
		Help: "How far this host's clock is ahead of the database's; beyond 5 s, either way, nothing is claimed.",
	}, func() float64 { return s.store.ClockAhead().Seconds() })
}

// NewSlots makes a Slots. claimed, usually a Deliverer's Wake, is called after each claim
// with outgoing messages.
func NewSlots(store *db.Store, lengths QueueLengths, claimed func()) *Slots {
	return &Slots{store: store, lengths: lengths, claimed: claimed, now: store.Now, metrics: newSlotMetrics()}
}

// Claim counts the free slots of a queue, calls claim with that number, routes what it
// took, writes that to the ledger, and returns the number of messages. All of it is one
// transaction under the queue's lock, so the count stays valid until the commit. claim
// may be called with 0, so that it can tell a full queue from idle work.
//
// For a queue with lanes, claimed messages may wait in the backlogs, and backlogs are
// sent as far as there are slots. With a nil claim only the latter is done.
func (s *Slots) Claim(ctx context.Context, q Queue, claim ClaimFunc) (int, error) {
	began := s.now()
	var claimed, sent int
	err := s.store.InTx(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if q.Lanes != nil {
			claimed, sent, err = s.claimLanes(ctx, tx, q, claim)
		} else {
			claimed, err = s.claimPlain(ctx, tx, q, claim)
			sent = claimed
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	s.metrics.seconds.WithLabelValues(q.Name).Observe(s.now().Sub(began).Seconds())
	if sent > 0 {
		s.claimed()
	}
	return claimed, nil
}

func (s *Slots) claimPlain(ctx context.Context, tx *db.Tx, q Queue, claim ClaimFunc) (int, error) {
	if err := tx.LockQueues(ctx, q.Name); err != nil {
		return 0, err
	}
	free, err := s.free(ctx, tx, q)
	if err != nil {
		return 0, fmt.Errorf("count the free slots of queue %q: %w", q.Name, err)
	}
	claimed, err := claim(ctx, tx, free)
	if err != nil {
		return 0, err
	}
	for i := range claimed.Work {
		claimed.Work[i].Queue = q.Name
	}
	return claimed.Count(), tx.AddWork(ctx, claimed.Work)
}

// free counts the free slots of a queue whose lock is held.
func (s *Slots) free(ctx context.Context, tx *db.Tx, q Queue) (int, error) {
	if q.Limit == nil || *q.Limit <= 0 {
		// Without the broker's count, outgoing messages bound it: while they can't be
		// delivered, nothing more is claimed.
		ledgers, err := tx.QueueLedgers(ctx, s.now(), q.Name)
		if err != nil {
			return 0, err
		}
		free := freeSlots(MaxClaim, ledgers[0].Outgoing)
		s.metrics.limit.WithLabelValues(q.Name).Set(0)
		s.metrics.free.WithLabelValues(q.Name).Set(float64(free))
		return free, nil
	}
	held, err := s.held(ctx, tx, q.Name)
	if err != nil {
		return 0, err
	}
	free := freeSlots(*q.Limit, held[0])
	s.metrics.limit.WithLabelValues(q.Name).Set(float64(*q.Limit))
	s.metrics.free.WithLabelValues(q.Name).Set(float64(free))
	return free, nil
}

// held counts the messages of some queues, including outgoing ones.
func (s *Slots) held(ctx context.Context, tx *db.Tx, queues ...string) ([]int, error) {
	counts, err := countMessages(ctx, tx, s.lengths, s.now(), queues...)
	if err != nil {
		return nil, err
	}
	held := make([]int, len(counts))
	for i, c := range counts {
		held[i] = c.total()
		for state, n := range map[string]int{"ready": c.Ready, "unacknowledged": c.Unacknowledged, "outbox": c.outgoing} {
			s.metrics.messages.WithLabelValues(queues[i], state).Set(float64(n))
		}
	}
	return held, nil
}

// messageCount is an upper bound of the messages of a queue.
type messageCount struct {
	celery.QueueLength
	outgoing int
}

func (c messageCount) total() int { return c.outgoing + c.Messages() }

// countMessages counts the messages of some queues, in their order. The ledger is read
// before the broker is asked: see the package comment.
func countMessages(ctx context.Context, ledger interface {
	QueueLedgers(ctx context.Context, since time.Time, names ...string) ([]db.QueueLedger, error)
}, lengths QueueLengths, now time.Time, queues ...string) ([]messageCount, error) {
	ledgers, err := ledger.QueueLedgers(ctx, now.Add(-celery.StatsAge), queues...)
	if err != nil {
		return nil, err
	}
	counts := make([]messageCount, len(queues))
	for i, queue := range queues {
		length, err := lengths.Length(ctx, queue, ledgers[i].Recent)
		if err != nil {
			return nil, fmt.Errorf("queue %q: %w", queue, err)
		}
		counts[i] = messageCount{length, ledgers[i].Outgoing}
	}
	return counts, nil
}

// freeSlots returns the free slots below a limit, at most MaxClaim.
func freeSlots(limit int64, held int) int {
	return int(max(0, min(limit-int64(held), MaxClaim)))
}
