package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/celery"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// MaxClaim is the most messages one claim takes, whatever the queue's limit
// (the Python scheduler's MAX_NUM_TASKS).
const MaxClaim = 10000

// Queue is a queue to claim for.
type Queue struct {
	Name  string
	Limit *int64   // of messages, ready and unacknowledged together, as the Python scheduler's: nil or 0 is none, less allows no message
	Lanes *LaneSet // may be nil
}

// Observer observes queues at the broker, for claims. It may take seconds, so no lock is held and no transaction is
// open.
type Observer interface {
	// Observe returns the broker's observation of each queue. now returns a lower bound of the database's time.
	// statistics adds the number of unacknowledged messages.
	Observe(ctx context.Context, now func() time.Time, queues []string, statistics bool) map[string]celery.Observation
}

// QueueLengths counts the messages at the broker, for display.
type QueueLengths interface {
	// Figures returns the broker's statistics of a queue, if any. It may take seconds, so no lock is held.
	Figures(ctx context.Context, queue string) celery.QueueFigures
	// LengthSince counts the messages of a queue. recent is the number of messages confirmed since figures.Since,
	// which the figures may not include.
	LengthSince(ctx context.Context, queue string, figures celery.QueueFigures, recent int) (celery.QueueLength, error)
}

// Slots opens claims for the free slots of queues. It is safe for concurrent use.
type Slots struct {
	store           *db.Store
	broker          Observer
	claimed         func() // called after a claim with outgoing messages
	now             func() time.Time
	metrics         slotMetrics
	sizes           sync.Map // by name of the queue: the *bulk.BatchSize of its claims
	idle            sync.Map // by name of the lane set: true if the last claim left no work waiting
	sends           sync.Map // by name of the lane set: the *bulk.BatchSize in which its backlogs are sent
	failing         sync.Map // queues that can't be observed
	ready           sync.Map // by name of the queue: whether messages waited for a worker at the last count
	withoutConsumer sync.Map // by lanes' queues without a consumer: the *unreadQueue

	// Log, if not nil, gets a line when a queue can't be observed, and one when it can again.
	Log *slog.Logger
}

// slotMetrics show the last claim for each queue.
type slotMetrics struct {
	messages, limit, free, known, unread *prometheus.GaugeVec
	seconds                              *prometheus.HistogramVec
}

// newGauge makes gauges with labels and registers them, unless reg is nil.
func newGauge(reg prometheus.Registerer, name, help string, labels ...string) *prometheus.GaugeVec {
	return promauto.With(reg).NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func newSlotMetrics() slotMetrics {
	return slotMetrics{
		messages: newMessages(),
		limit:    newGauge(nil, "swh_scheduler_queue_limit", "How many messages a queue may hold; 0 is no limit.", "queue"),
		free:     newGauge(nil, "swh_scheduler_queue_free_slots", "How many messages the last claim for a queue could add.", "queue"),
		known:    newGauge(nil, "swh_scheduler_queue_unacknowledged_known", "Whether the last claim for a queue had the number of unacknowledged messages (1), or estimated it (0).", "queue"),
		unread:   newGauge(nil, "swh_scheduler_lane_without_consumer", "Whether a lane's queue has had messages and no consumer for 45 seconds (1).", "lane_set", "lane"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "swh_scheduler_claim_seconds", Help: "Time of a claim, from the queue's lock to its commit: counting slots, taking work, writing it to the ledger.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"queue"}),
	}
}

// Register registers the metrics of claims.
func (s *Slots) Register(reg prometheus.Registerer) {
	reg.MustRegister(s.metrics.messages, s.metrics.limit, s.metrics.free, s.metrics.known, s.metrics.unread, s.metrics.seconds)
	promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "swh_scheduler_clock_offset_seconds",
		Help: "How far this host's clock is ahead of the database's; beyond 5 s, either way, nothing is claimed.",
	}, func() float64 { return s.store.ClockAhead().Seconds() })
}

// NewSlots makes a Slots. claimed, usually a Deliverer's Wake, is called after each claim
// with outgoing messages.
func NewSlots(store *db.Store, broker Observer, claimed func()) *Slots {
	return &Slots{store: store, broker: broker, claimed: claimed, now: store.Now, metrics: newSlotMetrics()}
}

// observations are by queue.
type observations = map[string]celery.Observation

// observe observes queues. Its dates are lower bounds of the database's time.
func observe(ctx context.Context, store *db.Store, broker Observer, statistics bool, queues ...string) (observations, error) {
	if err := store.EnsureTime(ctx); err != nil {
		return nil, err
	}
	return broker.Observe(ctx, store.LeastNow, queues, statistics), nil
}

// Limited reports whether the queue has a limit.
func (q Queue) Limited() bool { return q.Limit != nil && *q.Limit != 0 }

// freeOfUnlimited returns the free slots of a queue without a limit, whose lock is held. Without the broker's count,
// outgoing messages are the bound: while they can't be delivered, nothing more is claimed.
func (s *Slots) freeOfUnlimited(ctx context.Context, tx *db.Tx, queue string, observed observations) (int, error) {
	length, err := observed[queue].Length(0)
	s.logFailure(queue, err)
	if err != nil {
		return 0, err
	}
	s.ready.Store(queue, length.Ready > 0)
	ledgers, err := tx.QueueLedgers(ctx, ledger.QueueObserved{Name: queue, Since: s.now(), Asked: s.now()})
	if err != nil {
		return 0, err
	}
	return s.showFree(queue, 0, freeSlots(MaxClaim, ledgers[0].Outgoing)), nil
}

// freeOfLimit returns the free slots of a queue below its limit.
func (s *Slots) freeOfLimit(queue string, limit int64, c messageCount) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	return s.showFree(queue, limit, freeSlots(limit, c.total())), nil
}

// showFree sets the metrics of a queue's slots, and returns free.
func (s *Slots) showFree(queue string, limit int64, free int) int {
	s.metrics.limit.WithLabelValues(queue).Set(float64(limit))
	s.metrics.free.WithLabelValues(queue).Set(float64(free))
	return free
}

// count counts the messages of some queues, including outgoing ones.
func (s *Slots) count(ctx context.Context, tx *db.Tx, observed observations, queues ...string) ([]messageCount, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	counts, err := countMessages(ctx, tx, observed, queues...)
	if err != nil {
		return nil, err
	}
	for i, c := range counts {
		s.logFailure(queues[i], c.err)
		if c.err != nil {
			continue
		}
		s.ready.Store(queues[i], c.Ready > 0)
		for state, n := range map[string]int{"ready": c.Ready, "unacknowledged": c.Unacknowledged + c.since, "outgoing": c.outgoing} {
			s.metrics.messages.WithLabelValues(queues[i], state).Set(float64(n))
		}
		known := 1.0
		if c.Unknown {
			known = 0
		}
		s.metrics.known.WithLabelValues(queues[i]).Set(known)
	}
	return counts, nil
}

// Waiting reports whether a claim last counted ready messages in a queue or in one of its lanes. Unacknowledged
// messages don't count.
func (s *Slots) Waiting(q Queue) bool {
	return slices.ContainsFunc(q.destination().queues(), func(queue string) bool {
		waiting, _ := s.ready.Load(queue)
		return waiting == true
	})
}

// logFailure logs once that a queue can't be observed, and once that it can again.
func (s *Slots) logFailure(queue string, err error) {
	if s.Log == nil {
		return
	}
	if err == nil {
		if _, failing := s.failing.LoadAndDelete(queue); failing {
			s.Log.Info("the queue answers again", "queue", queue)
		}
		return
	}
	if _, failing := s.failing.Swap(queue, true); !failing {
		s.Log.Warn("nothing is claimed for a queue: it can't be observed", "queue", queue, "error", err)
	}
}

// messageCount is an upper bound of the messages of a queue, unless Unknown.
type messageCount struct {
	celery.QueueLength
	since    int // delivered since the observation, ready or unacknowledged
	outgoing int
	err      error // of this queue alone; nothing else is known of it
}

func (c messageCount) total() int { return c.outgoing + c.Messages() + c.since }

// queueLedgers reads the ledger's counts, in a transaction or outside one.
type queueLedgers interface {
	LeastNow() time.Time
	QueueLedgers(ctx context.Context, observed ...ledger.QueueObserved) ([]ledger.QueueLedger, error)
	SentMessages(ctx context.Context, queue string) (int, error)
}

// countMessages counts the messages of queues, in their order, by observations that are older than the caller's
// locks: see the package comment. It estimates an unknown number of unacknowledged messages by the ledger's recent
// deliveries and messages without a recorded end.
func countMessages(ctx context.Context, l queueLedgers, observed observations, queues ...string) ([]messageCount, error) {
	asked := make([]ledger.QueueObserved, len(queues))
	for i, queue := range queues {
		o := observed[queue]
		asked[i] = ledger.QueueObserved{Name: queue, Since: o.Since(), Asked: o.Asked}
		switch now := l.LeastNow(); {
		case o.Err != nil:
			asked[i].Since, asked[i].Asked = now, now // counts none
		case now.Sub(o.Since()) > ledger.DeliveriesKept:
			return nil, errors.New("the locks of the queues took so long that the observations are too old")
		case now.Before(o.Asked):
			return nil, errors.New("the database's clock was set back while the queues were observed")
		}
	}
	ledgers, err := l.QueueLedgers(ctx, asked...)
	if err != nil {
		return nil, err
	}
	counts := make([]messageCount, len(queues))
	for i, queue := range queues {
		before, since := ledgers[i].Before, ledgers[i].After
		length, err := observed[queue].Length(before)
		switch {
		case celery.IsOfQueue(err):
			counts[i].err = err
			continue
		case err != nil:
			return nil, err
		}
		if length.Unknown {
			sent, err := l.SentMessages(ctx, queue)
			if err != nil {
				return nil, err
			}
			if recent := before + since; sent > recent { // otherwise the queue may be new
				length.Unacknowledged = max(length.Unacknowledged, sent-since-length.Ready)
			}
		}
		counts[i] = messageCount{QueueLength: length, since: since, outgoing: ledgers[i].Outgoing}
	}
	return counts, nil
}

// freeSlots returns the free slots below a limit, at most MaxClaim.
func freeSlots(limit int64, held int) int {
	return int(max(0, min(limit-int64(held), MaxClaim)))
}
