package celery

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/service"
)

// StatsAge is the default for the greatest age of the management API's figures. RabbitMQ collects them every 5 s,
// and on a busy machine one interval late.
const StatsAge = 12 * time.Second

// InspectorOptions may be left zero.
type InspectorOptions struct {
	ConnectionOptions

	Logger       *slog.Logger  // default: slog.Default()
	Timeout      time.Duration // of each request to the management API; default: 5 s
	QueueTimeout time.Duration // of each request to the broker about a queue; default: 2 s
	StatsAge     time.Duration // greatest age of the management API's figures; default: StatsAge

	Management *service.Service // gets the state of the management API; the default logs its changes
}

// QueueLength is how many messages a queue holds.
type QueueLength struct {
	Exists         bool
	Ready          int // waiting for a consumer; exact, but an upper bound for a quorum queue whose leader doesn't answer
	Unacknowledged int // handed to a consumer; an upper bound, unless Unknown
	Consumers      int // connected workers' processes that read it

	// Unknown: the management API has no count of unacknowledged messages. Unacknowledged is then an estimate by
	// recent deliveries, and not a bound.
	Unknown bool
}

// Messages returns what counts against a queue's limit.
func (l QueueLength) Messages() int { return l.Ready + l.Unacknowledged }

// QueueFigures are the management API's statistics of a queue. The zero value has none.
type QueueFigures struct {
	queue    string
	answered bool      // the API has the queue
	known    bool      // and its counts
	Asked    time.Time // before the request, by the caller's clock
	age      time.Duration
	stats    queueStats
	prefetch int // of all its consumers; -1 if it is unknown or unlimited
}

// Since returns the earliest moment of the figures: they may not count messages published later.
func (f QueueFigures) Since() time.Time { return f.Asked.Add(-f.age) }

// Rates returns the recent rates, in messages a second, of publishing to the queue and delivery to consumers. known
// is false if the management API has no figures.
func (f QueueFigures) Rates() (in, out float64, known bool) {
	return f.stats.Stats.Published.Rate, f.stats.Stats.Delivered.Rate, f.known
}

// QueueInspector measures queues. It is safe for concurrent use; each request to the broker has a channel of its
// own.
type QueueInspector struct {
	statsAge   time.Duration
	management *management
	questions  questions
	tasks      sync.WaitGroup

	busy   mutex // guards the rest
	dialer dialer
	conn   *connection
	idle   []*amqp.Channel // of conn
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

// Figures requests a queue's statistics from the management API. Without an answer it returns empty figures; that is
// logged once. Since is by the host's clock.
func (q *QueueInspector) Figures(ctx context.Context, queue string) QueueFigures {
	return q.figures(ctx, time.Now, queue)
}

// figures is Figures with the caller's clock.
func (q *QueueInspector) figures(ctx context.Context, now func() time.Time, queue string) QueueFigures {
	f := QueueFigures{queue: queue, Asked: now(), age: q.statsAge, prefetch: -1}
	stats, err := q.management.queue(ctx, queue)
	if err != nil {
		return f
	}
	f.answered, f.known, f.stats = true, stats.known(), stats
	if !f.known { // figures of a new queue, which was empty before
		f.stats.Ready, f.stats.Unacknowledged = new(0), new(0)
	}
	if limit, known := q.management.prefetch(ctx, stats, q.statsAge); known {
		f.prefetch = limit
	}
	return f
}

// Length measures a queue with figures that it requests first: see LengthSince.
func (q *QueueInspector) Length(ctx context.Context, queue string, recent int) (QueueLength, error) {
	return q.LengthSince(ctx, queue, q.Figures(ctx, queue), recent)
}

// LengthSince measures a queue with earlier figures; see Observation.Length. recent is the number of messages that
// the caller has confirmed on it since figures.Since.
//
// A QueueDownError or QueueAccessError is of this queue alone.
func (q *QueueInspector) LengthSince(ctx context.Context, queue string, figures QueueFigures, recent int) (QueueLength, error) {
	return q.observe(ctx, time.Now, queue, figures).Length(recent)
}

// now declares the queue passively, over a connection that is kept, for the numbers of ready messages and of
// consumers.
func (q *QueueInspector) now(ctx context.Context, queue string) (found bool, state amqp.Queue, err error) {
	if len(queue) > maxShortString { // its declaration would end the connection, with the requests for other queues
		return false, state, &QueueDownError{queue, "its name has more than 255 bytes"}
	}
	conn, channel, err := q.channel(ctx)
	if err != nil {
		return false, state, err
	}
	var answer amqp.Queue
	var left atomic.Int32
	leave := func() { // closes the channel if the answer came after its caller had left
		if left.Add(1) == 2 {
			_ = channel.Close()
		}
	}
	err = q.questions.ask(ctx, queue, func() (err error) {
		defer leave()
		answer, err = channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	})
	switch {
	case err == nil:
		q.giveBack(conn, channel)
		return true, answer, nil
	case isMissing(err):
		return false, state, nil // this has closed the channel
	}
	q.tasks.Go(leave)
	q.forgetIdle()
	return false, state, err
}

// channel returns a channel for one request. A connection that does not open one in time counts as silent, and is
// closed: no queue is blamed for that.
func (q *QueueInspector) channel(ctx context.Context) (*connection, *amqp.Channel, error) {
	if err := q.busy.lock(ctx); err != nil {
		return nil, nil, err
	}
	defer q.busy.unlock()
	if q.conn == nil || q.conn.IsClosed() {
		var err error
		q.idle = nil
		if q.conn, err = q.dialer.dial(ctx); err != nil {
			return nil, nil, err
		}
	}
	for n := len(q.idle) - 1; n >= 0; n-- {
		channel := q.idle[n]
		q.idle = q.idle[:n]
		if !channel.IsClosed() {
			return q.conn, channel, nil
		}
	}
	conn := q.conn
	type opened struct {
		channel *amqp.Channel
		err     error
	}
	answer := make(chan opened, 1)
	q.tasks.Go(func() {
		defer time.AfterFunc(q.questions.timeout, conn.kill).Stop()
		channel, err := conn.Channel()
		answer <- opened{channel, err}
	})
	select {
	case o := <-answer:
		return conn, o.channel, o.err
	case <-ctx.Done():
		q.tasks.Go(func() {
			if o := <-answer; o.err == nil {
				_ = o.channel.Close()
			}
		})
		return nil, nil, context.Cause(ctx)
	}
}

// giveBack stores a channel, whose request was answered, for the next request.
func (q *QueueInspector) giveBack(conn *connection, channel *amqp.Channel) {
	_ = q.busy.lock(context.Background())
	keep := conn == q.conn && len(q.idle) < idleChannels
	if keep {
		q.idle = append(q.idle, channel)
	}
	q.busy.unlock()
	if !keep {
		q.tasks.Go(func() { _ = channel.Close() })
	}
}

// forgetIdle makes the next request open a channel, which shows whether the connection answers.
func (q *QueueInspector) forgetIdle() {
	_ = q.busy.lock(context.Background())
	idle := q.idle
	q.idle = nil
	q.busy.unlock()
	for _, channel := range idle {
		q.tasks.Go(func() { _ = channel.Close() })
	}
}

// Close closes the connections.
func (q *QueueInspector) Close() error {
	_ = q.busy.lock(context.Background())
	q.management.close()
	if q.conn != nil {
		q.conn.close()
		q.conn = nil
	}
	q.busy.unlock()
	q.tasks.Wait()
	return nil
}
