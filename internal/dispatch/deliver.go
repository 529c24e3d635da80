package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/celery"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/tracing"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/postgres"
)

const (
	// DeliverBatch is the number of messages that are locked, sent and confirmed together; urgentBatch is that of
	// urgent ones.
	DeliverBatch, urgentBatch = 225, 50

	// parallelBatches is how many batches of messages that are not urgent a deliverer works on at once: it sends one
	// while another is confirmed or read. A deliverer that is killed between the broker's confirms and its own
	// commits repeats at most 2×225 + 50 = 500 messages, with the same ids.
	parallelBatches = 2

	// deliverTimeout bounds one batch. So a broker or a queue without an answer neither keeps a transaction open nor
	// blocks other queues. Rows that are unanswered by then are leased (batch.write).
	deliverTimeout = 3 * time.Second

	idlePoll = 2 * time.Second // how often an idle Deliverer reads rows of other processes

	// roundTime bounds a round of Run: a loop whose round doesn't end counts as stuck.
	roundTime = time.Minute

	// StopBound is how long Run continues to deliver after its context ends. Rows that are left wait for the next
	// start.
	StopBound = 10 * time.Second
)

// Publisher sends messages and returns an error for each message that the broker may not have.
type Publisher interface {
	DeclareQueue(ctx context.Context, queue string) error
	Publish(ctx context.Context, messages []celery.TaskMessage) []error
}

// Deliverer sends outgoing messages to the broker. Several may run at once, in one
// process or in many.
type Deliverer struct {
	store     *db.Store
	publisher Publisher
	log       *slog.Logger
	streams   [2]*stream
	now       func() time.Time
	messages  *prometheus.CounterVec
	lowered   *prometheus.CounterVec
	backOff   *backOff
	settling  sync.Mutex
	short     atomic.Bool // PostgreSQL had no disk space for outcomes

	// Ageing is how long work waits in a queue until messages with a higher priority no longer overtake it; 0 turns
	// that off.
	Ageing time.Duration

	// Tracer, if not nil, makes a span from each message's claim to the broker, and
	// propagates it to the worker.
	Tracer *tracing.Tracer
}

// stream is either the urgent messages or the others. Each stream has its own batches, so that urgent messages don't
// wait for a batch of others.
type stream struct {
	urgent             bool
	work               string // name of its loop
	batchSize, batches int    // messages in a batch, and batches at once
	wake               chan struct{}
	turn               turn
}

// NewDeliverer makes a Deliverer; its counters are registered on reg.
func NewDeliverer(store *db.Store, publisher Publisher, log *slog.Logger, reg prometheus.Registerer) *Deliverer {
	return &Deliverer{
		store: store, publisher: publisher, log: log, now: store.Now, backOff: newBackOff(),
		streams: [2]*stream{
			{urgent: true, work: "delivery of urgent messages", batchSize: urgentBatch, batches: 1, wake: make(chan struct{}, 1)},
			{work: "delivery", batchSize: DeliverBatch, batches: parallelBatches, wake: make(chan struct{}, 1)},
		},
		messages: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_dispatch_messages_total",
			Help: "Messages taken from the ledger, by queue and outcome: confirmed, refused (backed off), unanswered (not sent again until their connection is lost), unconfirmed (sent again).",
		}, []string{"queue", "result"}),
		lowered: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_dispatch_lowered_total",
			Help: "Messages sent with a lower priority than their group's, because other work had waited in the queue for priority_ageing.",
		}, []string{"queue"}),
	}
}

// Wake makes the Deliverer read new rows, or answers that came. It never blocks.
func (d *Deliverer) Wake() {
	for _, s := range d.streams {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Run delivers until ctx ends, then for at most StopBound the messages that are still outgoing. It retries an outage
// with back-off and logs it once.
func (d *Deliverer) Run(ctx context.Context) error {
	var unreachable atomic.Bool
	if _, err := d.each(func(s *stream) (Delivered, error) {
		reachable := true
		loop := service.Loop{
			Name: s.work, Log: d.log,
			RunOnce: func(ctx context.Context) (service.Result, error) {
				done, more, err := d.round(ctx, s, time.After(roundTime))
				// A round cut short by ctx is no sign of an outage.
				reachable = err == nil || done.Confirmed > 0 || ctx.Err() != nil
				return service.Result{Again: more}, err
			},
			Period:   idlePoll,
			Wake:     s.wake,
			CutShort: true, // Drain continues
		}
		err := loop.Run(ctx)
		if !reachable {
			unreachable.Store(true)
		}
		return Delivered{}, err
	}); err != nil || unreachable.Load() {
		return err
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopBound)
	defer cancel()
	defer service.OnAbandon(ctx, cancel)()
	if _, err := d.Drain(last); err != nil {
		d.log.Warn("stopped before all messages were sent; the rest is sent at the next start", "error", err)
	}
	if err := d.awaitAnswers(last); err != nil {
		d.log.Warn("stopped", "error", err)
	}
	return nil
}

// each calls do for both streams at once.
func (d *Deliverer) each(do func(s *stream) (Delivered, error)) (sum Delivered, err error) {
	var both sync.WaitGroup
	var done [len(d.streams)]Delivered
	var errs [len(d.streams)]error
	for i, s := range d.streams {
		both.Go(func() { done[i], errs[i] = do(s) })
	}
	both.Wait()
	for _, d := range done {
		sum.add(d)
	}
	return sum, errors.Join(errs[:]...)
}

// Drain delivers until no row is due and unlocked, in the order of each stream. It returns the outcomes of the rows
// that it took, and the errors.
func (d *Deliverer) Drain(ctx context.Context) (Delivered, error) {
	return d.each(func(s *stream) (Delivered, error) {
		done, _, err := d.round(ctx, s, nil)
		return done, err
	})
}

// round delivers a stream until no row is due and unlocked. It begins no batch after over, and then returns true for
// more.
func (d *Deliverer) round(ctx context.Context, s *stream, over <-chan time.Time) (sum Delivered, more bool, err error) {
	var batches sync.WaitGroup
	total, errs := make([]Delivered, s.batches), make([]error, s.batches)
	var ended atomic.Bool
	for i := range s.batches {
		batches.Go(func() {
			for {
				batch, err := d.deliverBatch(ctx, s)
				total[i].add(batch)
				if err != nil || batch.taken < s.batchSize {
					errs[i] = err
					return
				}
				select {
				case <-over:
					ended.Store(true)
				default:
				}
				if ended.Load() {
					return
				}
			}
		})
	}
	batches.Wait()
	for _, t := range total {
		sum.add(t)
	}
	return sum, ended.Load(), errors.Join(errs...)
}

// turn orders the batches of a stream. A batch locks send before it unlocks read, so batches
// are sent in the order in which they were read.
type turn struct{ read, send sync.Mutex }

// DrainUntil drains whenever there may be rows, and a last time when done is closed. It stops at the first error. It
// returns the outcomes of all rows.
func (d *Deliverer) DrainUntil(ctx context.Context, done <-chan struct{}) (Delivered, error) {
	running, fail := context.WithCancel(ctx)
	defer fail()
	total, err := d.each(func(s *stream) (total Delivered, err error) {
		for last := false; ; {
			n, _, err := d.round(ctx, s, nil)
			total.add(n)
			if err != nil {
				fail() // ends the other stream: the claimer may wait for this one
			}
			if err != nil || last {
				return total, err
			}
			select {
			case <-s.wake:
			case <-done:
				last = true
			case <-running.Done():
				return total, ctx.Err()
			}
		}
	})
	if err == nil {
		err = service.Within(ctx, StopBound, d.awaitAnswers)
	}
	return total, err
}

// Delivered counts messages by outcome.
type Delivered struct {
	Confirmed int // in their queue
	Refused   int // backed off, with the reason in last_error
	taken     int
}

func (d *Delivered) add(more Delivered) {
	d.Confirmed += more.Confirmed
	d.Refused += more.Refused
}

// deliverBatch locks, sends and confirms one batch. When ctx ends, it sends no more, but commits the transaction, so
// that confirmed messages are not sent twice.
func (d *Deliverer) deliverBatch(ctx context.Context, s *stream) (Delivered, error) {
	if err := ctx.Err(); err != nil {
		return Delivered{}, err
	}
	if err := d.settleAnswers(context.WithoutCancel(ctx)); err != nil {
		return Delivered{}, err
	}
	b := batch{Deliverer: d}
	defer func() { d.backOff.release(b.inHand) }() // after the outcomes are written or kept
	err := d.store.ByPlace(context.WithoutCancel(ctx), func(commit context.Context, tx *db.Tx) error {
		s.turn.read.Lock()
		rows, err := tx.NextOutgoing(commit, s.urgent, s.batchSize, d.backOff.queues(d.now()), d.backOff.messages())
		s.turn.send.Lock()
		s.turn.read.Unlock()
		rows = d.backOff.reserve(rows)
		b.inHand = rows
		var outcomes []error
		if err == nil && len(rows) > 0 {
			err = LowerPriorities(commit, tx, d.now(), d.Ageing, rows, func(queue string) { d.lowered.WithLabelValues(queue).Inc() })
			if err == nil {
				outcomes = d.publish(ctx, rows)
			}
		}
		s.turn.send.Unlock()
		if err != nil || len(rows) == 0 {
			return err
		}
		b.classify(rows, outcomes)
		if d.short.Load() {
			return d.insist(ctx, commit, tx, &b)
		}
		return b.write(commit, tx)
	})
	if postgres.IsDiskFull(err) && b.delivered.taken > 0 && !b.insisted {
		err = d.lockAgain(ctx, &b)
	}
	if err != nil {
		d.unwritten(b)
		return Delivered{}, err
	}
	d.trackUnanswered(b.unanswered)
	return b.delivered, b.outage
}

// LowerPriorities lowers the priority of messages to that of work that has waited in their queue for longer than
// ageing, so that the messages don't overtake it; 0 turns that off. It calls lowered for each message.
func LowerPriorities(ctx context.Context, tx *db.Tx, now time.Time, ageing time.Duration, rows []ledger.Outgoing, lowered func(queue string)) error {
	var homes []string
	for _, row := range rows {
		if row.Share.Priority > 0 && !slices.Contains(homes, row.Home) {
			homes = append(homes, row.Home)
		}
	}
	if len(homes) == 0 || ageing == 0 {
		return nil
	}
	passed, err := tx.LowestOverduePriorities(ctx, homes, now, ageing)
	if err != nil {
		return err
	}
	for i := range rows {
		if lowest, waits := passed[rows[i].Queue]; waits && lowest < rows[i].Share.Priority {
			rows[i].Share.Priority = lowest
			lowered(rows[i].Queue)
		}
	}
	return nil
}

// publish declares the rows' queues and sends the rows, within deliverTimeout. If a queue cannot be declared, only
// its own rows fail. It skips rows of queues that were backed off since the rows were read.
func (d *Deliverer) publish(ctx context.Context, rows []ledger.Outgoing) []error {
	ctx, cancel := context.WithTimeout(ctx, deliverTimeout)
	defer cancel()
	outcomes := make([]error, len(rows))
	declared := d.declare(ctx, rows)
	messages := make([]celery.TaskMessage, 0, len(rows))
	sent := make([]int, 0, len(rows))
	spans := make([]tracing.MessageSpan, 0, len(rows))
	for i, row := range rows {
		if err := declared[row.Queue]; err != nil {
			outcomes[i] = err
			continue
		}
		id := row.TaskID.String()
		span := d.Tracer.Send(id, row.TaskName, row.Queue, row.Claimed)
		message := celery.TaskMessage{
			ID: id, Name: row.TaskName, Queue: row.Queue, Args: row.Args, Kwargs: row.Kwargs,
			Priority: row.Share.Priority, TimeLimit: row.Lane.HardLimit, SoftTimeLimit: row.Lane.SoftLimit, TraceParent: span.Parent(),
		}
		if row.RootID.Valid {
			message.RootID = row.RootID.UUID.String()
		}
		messages = append(messages, message)
		sent, spans = append(sent, i), append(spans, span)
	}
	for i, err := range d.publisher.Publish(ctx, messages) {
		outcomes[sent[i]] = err
		spans[i].Done(err)
	}
	return outcomes
}

// errBackedOff is the outcome of a row whose queue this process has backed off since it read the row.
var errBackedOff = errors.New("its queue is left alone for now")

// declare declares the queues of rows, all at once, and returns the error of each.
func (d *Deliverer) declare(ctx context.Context, rows []ledger.Outgoing) map[string]error {
	declared := make(map[string]error)
	for _, row := range rows {
		declared[row.Queue] = nil
	}
	for _, queue := range d.backOff.queues(d.now()) {
		if _, ok := declared[queue]; ok {
			declared[queue] = errBackedOff
		}
	}
	var m sync.Mutex
	var asking sync.WaitGroup
	for queue, err := range maps.Clone(declared) {
		if err == nil {
			asking.Go(func() {
				err := d.publisher.DeclareQueue(ctx, queue)
				m.Lock()
				defer m.Unlock()
				declared[queue] = err
			})
		}
	}
	asking.Wait()
	return declared
}

// retryDelay returns the delay after the (attempts+1)-th refusal of a message: half a minute, doubled
// each time, an hour at most.
func retryDelay(attempts int32) time.Duration {
	const first, longest = 30 * time.Second, time.Hour
	if attempts >= 7 { // 30 s × 2⁷ is above the hour
		return longest
	}
	return first << max(attempts, 0)
}
