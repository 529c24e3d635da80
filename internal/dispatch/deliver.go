package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/internal/daemon"
	"swh-scheduler/internal/tracing"
	"swh-scheduler/sql"
)

const (
	// DeliverBatch is how many outbox rows are locked, sent and deleted together.
	DeliverBatch = 250

	// deliverLanes is how many batches a Drain has in hand: while one is sent,
	// the one before is deleted and the one after is read. Their product is the
	// most messages that can be sent twice (with the same ids) when a deliverer
	// is killed between the broker's confirms and its own commits.
	deliverLanes = 2

	// deliverTimeout bounds one batch, so that a broker that has stopped taking
	// messages doesn't keep a transaction open for ever. Rows whose outcome is
	// not known by then are sent again.
	deliverTimeout = 15 * time.Second

	// idlePoll is how often an idle Deliverer looks for rows that others left.
	idlePoll = 2 * time.Second

	// StopBound is how long Run goes on delivering what was claimed after it was
	// told to stop. What is left then waits in the outbox for the next start.
	StopBound = 10 * time.Second
)

// Publisher sends messages and says of each whether the broker has it.
type Publisher interface {
	DeclareQueue(ctx context.Context, queue string) error
	Publish(ctx context.Context, messages []celery.TaskMessage) []error
}

// Deliverer moves outbox rows to the broker. Several may run at once, in one
// process or in many.
type Deliverer struct {
	store     *sql.Store
	publisher Publisher
	log       *slog.Logger
	wake      chan struct{}
	now       func() time.Time
	messages  *prometheus.CounterVec

	// Tracer, if not nil, makes a span of each message's way from its claim to the
	// broker, and has the message tell it to the worker.
	Tracer *tracing.Tracer
}

// NewDeliverer makes a Deliverer; its counters are registered on reg.
func NewDeliverer(store *sql.Store, publisher Publisher, log *slog.Logger, reg prometheus.Registerer) *Deliverer {
	d := &Deliverer{
		store: store, publisher: publisher, log: log,
		wake: make(chan struct{}, 1),
		now:  time.Now,
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_dispatch_messages_total",
			Help: "Messages taken from the outbox, by queue and by what became of them: confirmed, refused (put off), unconfirmed (sent again).",
		}, []string{"queue", "result"}),
	}
	reg.MustRegister(d.messages)
	return d
}

// Wake tells the Deliverer that there are new rows. It never blocks.
func (d *Deliverer) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run delivers until ctx ends, then goes on for at most StopBound with what is
// still in the outbox. An outage is retried with back-off and said once.
func (d *Deliverer) Run(ctx context.Context) error {
	reachable := true
	loop := daemon.Loop{
		RunOnce: func(ctx context.Context) (daemon.Result, error) {
			done, err := d.Drain(ctx)
			// A round cut short says nothing of the broker.
			reachable = err == nil || done.Confirmed > 0 || ctx.Err() != nil
			return daemon.Result{}, err
		},
		Period:  idlePoll,
		Wake:    d.wake,
		Service: daemon.NewService(d.log, "the way to the broker"),
	}
	if err := loop.Run(ctx); err != nil || !reachable {
		return err
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopBound)
	defer cancel()
	if _, err := d.Drain(last); err != nil {
		d.log.Warn("stopped before the outbox was empty; what is in it is sent at the next start", "error", err)
	}
	return nil
}

// Drain delivers until no row is due and free, in the order of the outbox. It
// returns what became of the rows it took, and the first error of each lane.
func (d *Deliverer) Drain(ctx context.Context) (Delivered, error) {
	var turn turn
	var lanes sync.WaitGroup
	var total [deliverLanes]Delivered
	var errs [deliverLanes]error
	for i := range deliverLanes {
		lanes.Go(func() {
			for {
				batch, err := d.deliverBatch(ctx, &turn)
				total[i].add(batch)
				if err != nil || batch.taken < DeliverBatch {
					errs[i] = err
					return
				}
			}
		})
	}
	lanes.Wait()
	var sum Delivered
	for _, t := range total {
		sum.add(t)
	}
	return sum, errors.Join(errs[:]...)
}

// turn keeps lanes in order: a batch that was read first is sent first. read is
// given up only when send is held.
type turn struct{ read, send sync.Mutex }

// DrainUntil drains whenever there may be something to deliver, and a last time
// when done is closed. It returns what became of all the rows it took, and the
// first error, at which it stops.
func (d *Deliverer) DrainUntil(ctx context.Context, done <-chan struct{}) (Delivered, error) {
	var total Delivered
	for last := false; ; {
		n, err := d.Drain(ctx)
		total.add(n)
		if err != nil || last {
			return total, err
		}
		select {
		case <-d.wake:
		case <-done:
			last = true
		case <-ctx.Done():
			return total, ctx.Err()
		}
	}
}

// Delivered counts outbox rows by what became of them.
type Delivered struct {
	Confirmed int // in their queue, gone from the outbox
	Refused   int // put off, with the reason in last_error

	taken int
}

func (d *Delivered) add(more Delivered) {
	d.Confirmed += more.Confirmed
	d.Refused += more.Refused
}

// deliverBatch locks, sends and deletes one batch. When ctx ends, no more is sent
// but the transaction is carried to its end: giving up the commit would only
// send twice what the broker has confirmed.
func (d *Deliverer) deliverBatch(ctx context.Context, turn *turn) (Delivered, error) {
	if err := ctx.Err(); err != nil {
		return Delivered{}, err
	}
	var done Delivered
	var unconfirmed error
	err := d.store.InTx(context.WithoutCancel(ctx), func(commit context.Context, tx *sql.Tx) error {
		rows, outcomes, err := d.send(ctx, tx, turn)
		if err != nil || len(rows) == 0 {
			return err
		}
		done.taken = len(rows)
		confirmed := make([]int64, 0, len(rows))
		perQueue := make(map[string]int)
		for i, err := range outcomes {
			row := rows[i]
			switch {
			case err == nil:
				confirmed = append(confirmed, row.ID)
				perQueue[row.Queue]++
			case refused(err):
				if err := d.putOff(commit, tx, row, err); err != nil {
					return err
				}
				done.Refused++
			default:
				unconfirmed = err
				d.messages.WithLabelValues(row.Queue, "unconfirmed").Inc()
			}
		}
		done.Confirmed = len(confirmed)
		for queue, n := range perQueue {
			d.messages.WithLabelValues(queue, "confirmed").Add(float64(n))
		}
		return tx.Delivered(commit, confirmed, perQueue, d.now())
	})
	if err != nil {
		return Delivered{}, err
	}
	// What was confirmed is gone from the outbox by now; the rest waits there.
	return done, unconfirmed
}

// send locks the next rows and publishes them, in turn with the other lanes.
func (d *Deliverer) send(ctx context.Context, tx *sql.Tx, turn *turn) ([]sql.OutboxRow, []error, error) {
	turn.read.Lock()
	rows, err := tx.NextOutbox(context.WithoutCancel(ctx), d.now(), DeliverBatch)
	turn.send.Lock()
	turn.read.Unlock()
	defer turn.send.Unlock()
	if err != nil || len(rows) == 0 {
		return nil, nil, err
	}
	return rows, d.publish(ctx, rows), nil
}

// publish declares the rows' queues and sends the rows, within deliverTimeout. A
// queue that cannot be declared takes its own rows with it, not the others'.
func (d *Deliverer) publish(ctx context.Context, rows []sql.OutboxRow) []error {
	ctx, cancel := context.WithTimeout(ctx, deliverTimeout)
	defer cancel()
	outcomes := make([]error, len(rows))
	declared := make(map[string]error)
	messages := make([]celery.TaskMessage, 0, len(rows))
	sent := make([]int, 0, len(rows))
	spans := make([]tracing.Sending, 0, len(rows))
	for i, row := range rows {
		err, known := declared[row.Queue]
		if !known {
			err = d.publisher.DeclareQueue(ctx, row.Queue)
			declared[row.Queue] = err
		}
		if err != nil {
			outcomes[i] = fmt.Errorf("declare queue %q: %w", row.Queue, err)
			continue
		}
		id := row.TaskID.String()
		span := d.Tracer.Send(id, row.TaskName, row.Queue, row.Claimed)
		message := celery.TaskMessage{
			ID: id, Name: row.TaskName, Queue: row.Queue,
			Args: row.Args, Kwargs: row.Kwargs,
			TimeLimit: row.TimeLimit, SoftTimeLimit: row.SoftTimeLimit, TraceParent: span.Parent(),
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

// refused says that the broker won't have this message, for now or for ever. Any
// other error is an outage, and concerns all messages.
func refused(err error) bool {
	var rejected *celery.RejectedError
	return celery.IsPermanent(err) || errors.As(err, &rejected)
}

// putOff keeps a refused message for later and says so with its id and reason.
func (d *Deliverer) putOff(ctx context.Context, tx *sql.Tx, row sql.OutboxRow, reason error) error {
	delay := retryDelay(row.Attempts)
	d.log.Error("message refused; it will be tried again",
		"task_id", row.TaskID, "task", row.TaskName, "queue", row.Queue,
		"attempt", row.Attempts+1, "again_in", delay, "reason", reason)
	d.messages.WithLabelValues(row.Queue, "refused").Inc()
	return tx.PostponeOutbox(ctx, row.ID, reason.Error(), d.now().Add(delay))
}

// retryDelay is how long a message waits after it was refused for the
// (attempts+1)-th time: half a minute, doubled each time, an hour at most.
func retryDelay(attempts int32) time.Duration {
	const first, longest = 30 * time.Second, time.Hour
	if attempts >= 7 { // 30 s × 2⁷ is above the hour
		return longest
	}
	return first << max(attempts, 0)
}
