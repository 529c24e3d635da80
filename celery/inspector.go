package celery

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// StatsAge is how old the management API's figures may be: RabbitMQ collects them
// every 5 s by default, and on a busy machine a whole turn late.
const StatsAge = 12 * time.Second

// InspectorOptions may be left zero.
type InspectorOptions struct {
	ConnectionOptions

	Logger  *slog.Logger  // default: slog.Default()
	Timeout time.Duration // of each request to the management API; default: 5 s
}

// QueueLength is how many messages a queue holds.
type QueueLength struct {
	Exists         bool
	Ready          int // waiting for a consumer; exact
	Unacknowledged int // handed to a consumer; an upper bound
}

// Messages returns what counts against a queue's limit.
func (l QueueLength) Messages() int { return l.Ready + l.Unacknowledged }

// QueueInspector measures queues. It is safe for concurrent use; measurements
// are made one after the other.
type QueueInspector struct {
	log        *slog.Logger
	management *management

	busy    mutex // guards the rest
	dialer  dialer
	conn    *connection
	channel *amqp.Channel
	missing bool // whether the management API's absence has been logged
}

// NewQueueInspector makes an inspector. managementURL is the root of RabbitMQ's
// management API, with user and password if they differ from the broker's. Empty
// means http(s) on the broker's host, at its port + 10,000.
func NewQueueInspector(b Broker, managementURL string, o InspectorOptions) *QueueInspector {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	return &QueueInspector{
		log: o.Logger,
		management: &management{
			url: managementURL,
			client: &http.Client{
				Timeout:   o.Timeout,
				Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second},
			},
		},
		busy:   newMutex(),
		dialer: newDialer(b, o.ConnectionOptions),
	}
}

// Length measures a queue. recent is how many messages the caller knows to
// have been confirmed on it within the last StatsAge.
//
// The broker itself counts the ready messages, now. The count of unacknowledged
// ones comes from the management API and is up to StatsAge old, so it is raised
// to an upper bound: since then, no more messages can have gone from ready to
// unacknowledged than were ready or came since, and are not ready now; and no
// consumer holds more than its prefetch limit. (Only what others published and
// consumers fetched within StatsAge can escape.)
//
// Without the management API, recent stands for the unacknowledged messages;
// that is logged once.
func (q *QueueInspector) Length(ctx context.Context, queue string, recent int) (QueueLength, error) {
	length, err := q.length(ctx, queue, recent)
	if err != nil {
		return QueueLength{}, fmt.Errorf("measuring queue %q: %w", queue, err)
	}
	return length, nil
}

func (q *QueueInspector) length(ctx context.Context, queue string, recent int) (length QueueLength, err error) {
	if err := q.busy.lock(ctx); err != nil {
		return length, err
	}
	defer q.busy.unlock()
	// The figures of the past come first: whatever moves between the two
	// questions then counts as having moved since.
	node := q.dialer.broker.node(q.dialer.current)
	past, pastErr := q.management.queue(ctx, node, queue)
	found, now, err := q.now(ctx, queue)
	if err != nil || !found {
		return length, err
	}
	length = QueueLength{Exists: true, Ready: now.Messages}
	if pastErr != nil {
		if ctx.Err() != nil {
			return length, pastErr
		}
		if !q.missing {
			q.missing = true
			q.log.Warn("the management API doesn't answer; messages that workers hold unacknowledged are not counted, so queues may exceed their limits by that many", "error", pastErr)
		}
		length.Unacknowledged = recent
		return length, nil
	}
	if q.missing {
		q.missing = false
		q.log.Info("the management API answers again")
	}
	moved := max(0, past.Ready+recent-now.Messages)
	length.Unacknowledged = past.Unacknowledged + moved
	// The limits count only if they are those of all consumers there are now.
	if moved > 0 && len(past.Consumers) >= now.Consumers {
		if limit, known := q.management.prefetch(ctx, node, past); known {
			// What was counted is counted, even if its consumer has left.
			length.Unacknowledged = min(length.Unacknowledged, max(limit, past.Unacknowledged))
		}
	}
	return length, nil
}

// now asks the broker, over a connection that is kept, for the number of ready
// messages and of consumers.
func (q *QueueInspector) now(ctx context.Context, queue string) (found bool, state amqp.Queue, err error) {
	if q.conn == nil || q.conn.IsClosed() {
		if q.conn, err = q.dialer.dial(ctx); err != nil {
			return false, state, err
		}
		q.channel = nil
	}
	defer q.conn.killAfter(ctx)()
	if q.channel == nil || q.channel.IsClosed() {
		if q.channel, err = q.conn.Channel(); err != nil {
			return false, state, err
		}
	}
	state, err = q.channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	if hasCode(err, amqp.NotFound) {
		return false, state, nil // this has closed the channel
	}
	return err == nil, state, err
}

// Close closes the connections.
func (q *QueueInspector) Close() error {
	_ = q.busy.lock(context.Background())
	defer q.busy.unlock()
	q.management.client.CloseIdleConnections()
	if q.conn != nil {
		q.conn.close()
		q.conn = nil
	}
	return nil
}
