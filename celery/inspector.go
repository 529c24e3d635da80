package celery

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/service"
)

// StatsAge is how old the management API's figures may be by default: RabbitMQ collects
// them every 5 s, and on a busy machine a whole turn late.
const StatsAge = 12 * time.Second

// InspectorOptions may be left zero.
type InspectorOptions struct {
	ConnectionOptions

	Logger       *slog.Logger  // default: slog.Default()
	Timeout      time.Duration // of each request to the management API; default: 5 s
	QueueTimeout time.Duration // of each question to the broker about a queue; default: 2 s
	StatsAge     time.Duration // how old the management API's figures may be; default: StatsAge

	Management *service.Service // is told whether the management API answers; default: one that logs that
}

// QueueLength is how many messages a queue holds.
type QueueLength struct {
	Exists         bool
	Ready          int // waiting for a consumer; exact
	Unacknowledged int // handed to a consumer; an upper bound, unless Unknown
	Consumers      int // connected workers' processes that read it

	// Unknown: the management API doesn't tell what is unacknowledged. Unacknowledged is
	// then an estimate, by what was published of late, and no bound of anything.
	Unknown bool
}

// Messages returns what counts against a queue's limit.
func (l QueueLength) Messages() int { return l.Ready + l.Unacknowledged }

// QueueFigures are what the management API says of a queue. The zero value knows nothing.
type QueueFigures struct {
	answered bool      // the API knows the queue
	known    bool      // and tells its counts
	asked    time.Time // before the question
	age      time.Duration
	stats    queueStats
	prefetch int // of all its consumers; -1 if it isn't known or has no bound
}

// Since returns the earliest moment that the figures may be of: they may not count what was
// published later.
func (f QueueFigures) Since() time.Time { return f.asked.Add(-f.age) }

// Rates returns how many messages a second were published to the queue and delivered to
// consumers, as of the last seconds. known is false if the management API doesn't tell.
func (f QueueFigures) Rates() (in, out float64, known bool) {
	return f.stats.Stats.Published.Rate, f.stats.Stats.Delivered.Rate, f.known
}

// QueueInspector measures queues. It is safe for concurrent use; measurements
// are made one after the other.
type QueueInspector struct {
	statsAge   time.Duration
	management *management
	questions  questions
	tasks      sync.WaitGroup

	busy    mutex // guards the rest
	dialer  dialer
	conn    *connection
	channel *amqp.Channel
}

// NewQueueInspector makes an inspector. managementURL is the root of RabbitMQ's
// management API, with user and password if they differ from the broker's. Empty
// means http(s) on the broker's host, at its port + 10,000.
func NewQueueInspector(b Broker, managementURL string, o InspectorOptions) *QueueInspector {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Management = cmp.Or(o.Management, service.NewService(o.Logger, "the management API"))
	q := &QueueInspector{
		statsAge:   cmp.Or(o.StatsAge, StatsAge),
		management: newManagement(b, managementURL, cmp.Or(o.Timeout, 5*time.Second), o.Management),
		busy:       newMutex(),
		dialer:     newDialer(b, o.ConnectionOptions),
	}
	q.questions = questions{timeout: cmp.Or(o.QueueTimeout, queueTimeout), tasks: &q.tasks}
	return q
}

// Figures asks the management API about a queue. Without an answer the figures know
// nothing; that is logged once.
func (q *QueueInspector) Figures(ctx context.Context, queue string) QueueFigures {
	f := QueueFigures{asked: time.Now(), age: q.statsAge, prefetch: -1}
	stats, err := q.management.queue(ctx, queue)
	if err != nil {
		return f
	}
	f.answered, f.known, f.stats = true, stats.known(), stats
	if !f.known { // as of a new queue, in which there was nothing before
		f.stats.Ready, f.stats.Unacknowledged = new(0), new(0)
	}
	if limit, known := q.management.prefetch(ctx, stats, q.statsAge); known {
		f.prefetch = limit
	}
	return f
}

// Length measures a queue by figures that it asks for first: see LengthSince.
func (q *QueueInspector) Length(ctx context.Context, queue string, recent int) (QueueLength, error) {
	return q.LengthSince(ctx, queue, q.Figures(ctx, queue), recent)
}

// LengthSince measures a queue. recent is how many messages the caller knows to have been
// confirmed on it since figures.Since.
//
// The broker itself counts the ready messages, now. The count of unacknowledged ones comes
// from the figures, so it is raised to an upper bound: since then, no more messages can
// have gone from ready to unacknowledged than were ready or came since, and are not ready
// now; and no consumer holds more than its prefetch limit. (Only what others published and
// consumers fetched since can escape.) If the figures know nothing, the unacknowledged
// messages are unknown.
//
// A QueueDownError or QueueAccessError is of this queue alone.
func (q *QueueInspector) LengthSince(ctx context.Context, queue string, figures QueueFigures, recent int) (QueueLength, error) {
	found, now, err := q.now(ctx, queue)
	if err != nil {
		return QueueLength{}, fmt.Errorf("measuring queue %q: %w", queue, err)
	}
	if !found {
		return QueueLength{}, nil
	}
	if figures.stats.down() {
		return QueueLength{}, fmt.Errorf("measuring queue %q: %w", queue, &QueueDownError{queue, "its state is " + figures.stats.State})
	}
	length := QueueLength{Exists: true, Ready: now.Messages, Consumers: now.Consumers}
	length.Unknown = !figures.known
	if !figures.answered {
		length.Unacknowledged = recent
		return length, nil
	}
	past := figures.stats
	moved := max(0, *past.Ready+recent-now.Messages)
	length.Unacknowledged = *past.Unacknowledged + moved
	// The limits count only if they are those of all consumers there are now.
	if moved > 0 && len(past.Consumers) >= now.Consumers && figures.prefetch >= 0 {
		// What was counted is counted, even if its consumer has left.
		length.Unacknowledged = min(length.Unacknowledged, max(figures.prefetch, *past.Unacknowledged))
	}
	return length, nil
}

// now asks the broker, over a connection that is kept, for the number of ready
// messages and of consumers.
func (q *QueueInspector) now(ctx context.Context, queue string) (found bool, state amqp.Queue, err error) {
	if err := q.busy.lock(ctx); err != nil {
		return false, state, err
	}
	defer q.busy.unlock()
	if q.conn == nil || q.conn.IsClosed() {
		if q.conn, err = q.dialer.dial(ctx); err != nil {
			return false, state, err
		}
		q.channel = nil
	}
	defer q.conn.killAfter(ctx)()
	if q.channel == nil || q.channel.IsClosed() {
		// No queue has to answer this: without an answer the connection is silent.
		silent := time.AfterFunc(q.questions.timeout, q.conn.kill)
		q.channel, err = q.conn.Channel()
		silent.Stop()
		if err != nil {
			return false, state, err
		}
	}
	channel := q.channel
	var answer amqp.Queue
	late := make(chan struct{})
	err = q.questions.ask(ctx, queue, func() (err error) {
		answer, err = channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		select {
		case <-late:
			_ = channel.Close()
		default:
		}
		return err
	})
	switch {
	case err == nil:
		return true, answer, nil
	case isMissing(err):
		return false, state, nil // this has closed the channel
	}
	close(late)
	q.channel = nil
	return false, state, err
}

// Close closes the connections.
func (q *QueueInspector) Close() error {
	_ = q.busy.lock(context.Background())
	defer q.busy.unlock()
	q.management.close()
	if q.conn != nil {
		q.conn.close()
		q.conn = nil
	}
	q.tasks.Wait()
	return nil
}
