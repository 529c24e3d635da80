package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/sql"
)

// MaxClaim is the most messages one claim takes, whatever the queue's limit
// (the peer's MAX_NUM_TASKS).
const MaxClaim = 10000

// Queue is a queue and how many messages it may hold, ready and unacknowledged
// together. As with the peer, a nil or zero limit means no limit.
type Queue struct {
	Name  string
	Limit *int64

	// Lanes, if not nil, are those by which its work goes to workers: claims write
	// their messages for Name, from where they are put on lanes.
	Lanes *Lanes
}

// ClaimFunc claims up to free messages in a transaction, and returns how many it
// wrote to the outbox.
type ClaimFunc = func(ctx context.Context, tx *sql.Tx, free int) (int, error)

// QueueLengths tells how many messages the broker holds. recent is how many
// were confirmed on the queue within celery.StatsAge: those that the broker's
// own statistics may not show yet.
type QueueLengths interface {
	Length(ctx context.Context, queue string, recent int) (celery.QueueLength, error)
}

// Slots runs claims within the free slots of queues.
type Slots struct {
	store   *sql.Store
	lengths QueueLengths
	claimed func() // called after a claim that wrote to the outbox
	now     func() time.Time
	metrics slotMetrics
	more    moreWork
}

// slotMetrics tell what the last claim for each queue saw.
type slotMetrics struct {
	messages, limit, free *prometheus.GaugeVec
	seconds               *prometheus.HistogramVec
}

func newSlotMetrics() slotMetrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	return slotMetrics{
		messages: gauge("swh_scheduler_queue_messages", "Messages of a queue at the last claim for it: ready and unacknowledged at the broker, and on the way there (outbox).", "queue", "state"),
		limit:    gauge("swh_scheduler_queue_limit", "How many messages a queue may hold; 0 is no limit.", "queue"),
		free:     gauge("swh_scheduler_queue_free_slots", "How many messages the last claim for a queue could add.", "queue"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "swh_scheduler_claim_seconds", Help: "Time of a claim, from the queue's lock to its commit: counting slots, grabbing work, writing the outbox.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"queue"}),
	}
}

// Register registers the metrics of claims.
func (s *Slots) Register(reg prometheus.Registerer) {
	reg.MustRegister(s.metrics.messages, s.metrics.limit, s.metrics.free, s.metrics.seconds)
}

// NewSlots makes a Slots. claimed is called after each claim that left rows in
// the outbox; a Deliverer's Wake goes there.
func NewSlots(store *sql.Store, lengths QueueLengths, claimed func()) *Slots {
	return &Slots{store: store, lengths: lengths, claimed: claimed, now: time.Now, metrics: newSlotMetrics()}
}

// Claim counts the free slots of a queue, calls claim with that number, and
// returns how many messages claim says it wrote to the outbox. All of it is one
// transaction under the queue's lock: the count stays true until it commits.
// claim may be called with 0, so that it can tell a full queue from idle work.
//
// Of a queue with lanes, what is claimed may wait in their lines, and what waits
// there is sent as far as there are slots (see package lanes). claim may be nil then,
// for the latter alone.
func (s *Slots) Claim(ctx context.Context, q Queue, claim ClaimFunc) (int, error) {
	began := s.now()
	var claimed, sent int
	err := s.store.InTx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if q.Lanes != nil {
			claimed, sent, err = s.claimLanes(ctx, tx, q, claim)
			return err
		}
		if err := tx.LockQueue(ctx, q.Name); err != nil {
			return err
		}
		free, err := s.free(ctx, tx, q)
		if err != nil {
			return fmt.Errorf("count the free slots of queue %q: %w", q.Name, err)
		}
		claimed, err = claim(ctx, tx, free)
		sent = claimed
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

// free counts the free slots of a queue whose lock is held.
func (s *Slots) free(ctx context.Context, tx *sql.Tx, q Queue) (int, error) {
	if q.Limit == nil || *q.Limit <= 0 {
		s.metrics.limit.WithLabelValues(q.Name).Set(0)
		s.metrics.free.WithLabelValues(q.Name).Set(MaxClaim)
		return MaxClaim, nil
	}
	held, err := s.held(ctx, tx, q.Name)
	if err != nil {
		return 0, err
	}
	free := freeSlots(*q.Limit, held)
	s.metrics.limit.WithLabelValues(q.Name).Set(float64(*q.Limit))
	s.metrics.free.WithLabelValues(q.Name).Set(float64(free))
	return free, nil
}

// held counts the messages of a queue, those on the way there included. The outbox
// and the ledger of deliveries are read before the broker: see the package comment.
func (s *Slots) held(ctx context.Context, tx *sql.Tx, queue string) (int, error) {
	underway, err := tx.OutboxDepth(ctx, queue)
	if err != nil {
		return 0, err
	}
	recent, err := tx.RecentlyDelivered(ctx, queue, s.now().Add(-celery.StatsAge))
	if err != nil {
		return 0, err
	}
	length, err := s.lengths.Length(ctx, queue, recent)
	if err != nil {
		return 0, err
	}
	for state, n := range map[string]int{"ready": length.Ready, "unacknowledged": length.Unacknowledged, "outbox": underway} {
		s.metrics.messages.WithLabelValues(queue, state).Set(float64(n))
	}
	return underway + length.Messages(), nil
}

// freeSlots is the arithmetic of free: never negative, never above MaxClaim.
func freeSlots(limit int64, held int) int {
	return int(max(0, min(limit-int64(held), MaxClaim)))
}
