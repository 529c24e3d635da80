package celery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/service"
)

// Binding routes messages from an exchange to a queue.
type Binding struct {
	Exchange string
	Kind     string // the exchange's type if it has to be made: direct, fanout, topic
	Key      string
}

// EventsQueue is the queue of workers' events: the Python scheduler's.
const EventsQueue = "celeryev.listener"

// EventsBinding brings all events of Celery's workers.
var EventsBinding = Binding{Exchange: "celeryev", Kind: amqp.ExchangeTopic, Key: "#"}

// ConsumerOptions need a queue; the rest may be left zero.
type ConsumerOptions struct {
	ConnectionOptions

	Logger *slog.Logger // default: slog.Default()

	Queue     string    // used as it is if it exists; else created as durable
	Bindings  []Binding // created at each connection; missing exchanges are created as durable
	Prefetch  int       // most unacknowledged deliveries; default: 1,000
	OnReading func()    // called each time the consumer begins to read; may be nil
	// OnLost is called each time the queue can't be read; another try follows. The default logs one line until the
	// queue is read again.
	OnLost func(error)

	// MaxBytes bounds the bytes of unacknowledged bodies in memory: above it, the consumer doesn't read the socket.
	// A single message may be larger. Default: 32 MiB.
	MaxBytes int

	// MaxMessageSize is the largest body in bytes that is delivered whole.
	// Default: 4 MiB.
	MaxMessageSize int
}

// Delivery is one message from the queue.
type Delivery struct {
	Body        []byte
	ContentType string
	Redelivered bool // delivered before, perhaps to another consumer, and not acknowledged
	Oversized   bool // longer than MaxMessageSize: Body holds only its beginning

	session *consumeSession
	tag     uint64
}

// Consumer reads a queue.
type Consumer struct {
	options ConsumerOptions
	log     *slog.Logger
	dialer  dialer

	m       sync.Mutex
	session *consumeSession // nil when there is none
	closed  bool
}

type consumeSession struct {
	conn    *connection
	channel *amqp.Channel
	calls   sync.Mutex    // held while a call uses the channel, which takes one at a time
	stopped bool          // this side cancelled the consumer; the connection stays open. Guarded by calls
	ended   <-chan string // receives the consumer's tag if the broker cancels it, or is closed with the channel
}

// NewConsumer makes a consumer; Run connects.
func NewConsumer(b Broker, o ConsumerOptions) *Consumer {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Prefetch = cmp.Or(o.Prefetch, 1000)
	o.MaxMessageSize = cmp.Or(o.MaxMessageSize, 4<<20)
	c := &Consumer{options: o, log: o.Logger, dialer: newDialer(b, o.ConnectionOptions)}
	c.dialer.maxBody, c.dialer.maxHeld = uint64(o.MaxMessageSize), uint64(cmp.Or(o.MaxBytes, 32<<20))
	return c
}

// Run delivers messages to out, in order, until the context ends or Close is
// called; then it returns nil. When it loses the connection, or the queue, it
// connects again, with growing pauses. It doesn't close out. When it returns, the
// connection stays open for acknowledgements, until Close. Only one Run may be
// active at a time.
func (c *Consumer) Run(ctx context.Context, out chan<- Delivery) error {
	if c.options.Queue == "" {
		return errors.New("a consumer needs a queue")
	}
	queue := service.NewService(c.log, fmt.Sprintf("queue %q", c.options.Queue))
	for {
		s, deliveries, err := c.open(ctx)
		if err == nil {
			queue.OK()
			c.dialer.backoff.Reset()
			c.log.Info("reading queue", "queue", c.options.Queue, "broker", s.conn.node.String())
			if c.options.OnReading != nil {
				c.options.OnReading()
			}
			if err = c.forward(ctx, s, deliveries, out); err == nil {
				return nil
			}
		}
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return nil
		}
		if lost := c.options.OnLost; lost != nil {
			lost(fmt.Errorf("queue %q can't be read: %w", c.options.Queue, err))
		} else {
			queue.Failed(err)
		}
		if c.dialer.backoff.Wait(ctx) != nil {
			return nil
		}
	}
}

func (c *Consumer) open(ctx context.Context) (*consumeSession, <-chan amqp.Delivery, error) {
	conn, err := c.dialer.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer conn.killAfter(ctx)()
	ch, deliveries, ended, err := c.consume(conn)
	if err != nil {
		conn.close()
		return nil, nil, fmt.Errorf("%s: %w", conn.node, explained(err))
	}
	c.m.Lock()
	defer c.m.Unlock()
	if c.closed {
		conn.close()
		return nil, nil, ErrClosed
	}
	c.session = &consumeSession{conn: conn, channel: ch, ended: ended}
	return c.session, deliveries, nil
}

const consumerTag = "consumer"

func (c *Consumer) consume(conn *connection) (_ *amqp.Channel, _ <-chan amqp.Delivery, ended <-chan string, _ error) {
	queue := c.options.Queue
	found, err := hasQueue(conn.Connection, queue)
	if err != nil {
		return nil, nil, nil, err
	}
	if !found {
		if err := onChannel(conn.Connection, durableQueue(queue, nil)); err != nil {
			return nil, nil, nil, fmt.Errorf("declaring queue %q: %w", queue, err)
		}
	}
	for _, b := range c.options.Bindings {
		if err := bind(conn.Connection, queue, b); err != nil {
			return nil, nil, nil, fmt.Errorf("binding queue %q to exchange %q: %w", queue, b.Exchange, err)
		}
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, nil, nil, err
	}
	ended = ch.NotifyCancel(make(chan string, 1))
	if err := ch.Qos(c.options.Prefetch, 0, false); err != nil {
		return nil, nil, nil, fmt.Errorf("setting the prefetch limit: %w", err)
	}
	deliveries, err := ch.Consume(queue, consumerTag, false, false, false, false, nil)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("reading queue %q: %w", queue, err)
	}
	return ch, deliveries, ended, nil
}

// bind makes the exchange if it doesn't exist, and uses one of any type.
func bind(conn *amqp.Connection, queue string, b Binding) error {
	err := onChannel(conn, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(b.Exchange, b.Kind, true, false, false, false, nil)
	})
	if isMissing(err) {
		err = onChannel(conn, func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare(b.Exchange, b.Kind, true, false, false, false, nil)
		})
	}
	if err != nil {
		return err
	}
	return onChannel(conn, func(ch *amqp.Channel) error { return ch.QueueBind(queue, b.Key, b.Exchange, false, nil) })
}

// forward sends deliveries to out until the context ends (nil), or until no more come (the reason).
func (c *Consumer) forward(ctx context.Context, s *consumeSession, deliveries <-chan amqp.Delivery, out chan<- Delivery) error {
	closed := s.channel.NotifyClose(make(chan *amqp.Error, 1))
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case d, ok := <-deliveries:
			if !ok {
				return c.lost(s, closed)
			}
			select {
			case out <- c.delivery(s, &d):
			case <-ctx.Done():
			}
		}
	}
	c.stop(s, deliveries)
	return nil
}

// stop cancels the consumer. Deliveries that were not forwarded stay unacknowledged.
func (c *Consumer) stop(s *consumeSession, deliveries <-chan amqp.Delivery) {
	timeout, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	defer s.conn.killAfter(timeout)()
	s.conn.socket.held.end()
	var drained sync.WaitGroup // the library's goroutine waits for a reader
	drained.Go(func() {
		for range deliveries {
		}
	})
	s.calls.Lock()
	defer s.calls.Unlock()
	s.stopped = true
	_ = s.channel.Cancel(consumerTag, false)
	drained.Wait()
}

// lost cleans up after a session that ended by itself.
func (c *Consumer) lost(s *consumeSession, closed <-chan *amqp.Error) error {
	c.m.Lock()
	if c.session == s {
		c.session = nil
	}
	ended := c.closed
	c.m.Unlock()
	gone := s.channel.IsClosed()
	s.conn.close()
	if ended {
		return ErrClosed
	}
	if !gone {
		// The broker cancels consumers whose queue is deleted or moves.
		return errors.New("the broker has cancelled the consumer")
	}
	if err := <-closed; err != nil {
		return err
	}
	return amqp.ErrClosed
}

func (c *Consumer) delivery(s *consumeSession, d *amqp.Delivery) Delivery {
	out := Delivery{
		Body:        d.Body,
		ContentType: d.ContentType,
		Redelivered: d.Redelivered,
		session:     s,
		tag:         d.DeliveryTag,
	}
	s.conn.socket.held.handOver(d.DeliveryTag, uint64(len(d.Body)))
	if limit := c.options.MaxMessageSize; len(out.Body) > limit {
		out.Body, out.Oversized = out.Body[:limit], true
	}
	return out
}

// AckUpTo acknowledges a delivery and all before it. It does nothing if the
// delivery came over an earlier connection: the broker delivers those again.
func (c *Consumer) AckUpTo(d Delivery) error {
	c.m.Lock()
	current := c.session
	c.m.Unlock()
	if d.session == nil || d.session != current {
		return nil
	}
	// A channel that is closed by now belongs to an earlier connection, too.
	if err := current.channel.Ack(d.tag, true); err != nil && !current.channel.IsClosed() {
		return fmt.Errorf("acknowledging deliveries of queue %q: %w", c.options.Queue, err)
	}
	current.conn.socket.held.release(d.tag)
	return nil
}

// Close ends the connection. Unacknowledged deliveries go back to their queue.
func (c *Consumer) Close() error {
	c.m.Lock()
	s := c.session
	c.session, c.closed = nil, true
	c.m.Unlock()
	if s != nil {
		s.conn.close()
	}
	return nil
}
