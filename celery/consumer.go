package celery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Binding routes messages from an exchange to a queue.
type Binding struct {
	Exchange string
	Kind     string // the exchange's type if it has to be made: direct, fanout, topic
	Key      string
}

// EventsBinding brings all of Celery's events, from the exchange that Celery
// sends them to.
var EventsBinding = Binding{Exchange: "celeryev", Kind: amqp.ExchangeTopic, Key: "#"}

// ConsumerOptions need a queue; the rest may be left zero.
type ConsumerOptions struct {
	ConnectionOptions

	Logger *slog.Logger // default: slog.Default()

	// Queue is made durable if it doesn't exist, and used as it is if it does.
	Queue string

	// Bindings of the queue are made at each connection. Their exchanges are
	// made durable if they don't exist.
	Bindings []Binding

	// Prefetch is how many deliveries may be unacknowledged. Default: 1,000.
	Prefetch int

	// Reading, if not nil, is called each time the queue begins to be read.
	Reading func()

	// MaxMessageSize is the largest body in bytes that is handed over whole.
	// Default: 4 MiB.
	MaxMessageSize int
}

// Delivery is one message from the queue.
type Delivery struct {
	Body            []byte
	ContentType     string
	ContentEncoding string
	RoutingKey      string
	Headers         map[string]any

	// Redelivered says that the message was delivered before, perhaps to
	// somebody else, and not acknowledged.
	Redelivered bool

	// Oversized says that the message exceeds MaxMessageSize. Body holds only
	// its beginning.
	Oversized bool

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
}

// NewConsumer makes a consumer; Run connects.
func NewConsumer(b Broker, o ConsumerOptions) *Consumer {
	o.ConnectionOptions = o.ConnectionOptions.withDefaults()
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Prefetch = cmp.Or(o.Prefetch, 1000)
	o.MaxMessageSize = cmp.Or(o.MaxMessageSize, 4<<20)
	return &Consumer{
		options: o,
		log:     o.Logger,
		dialer:  dialer{broker: b, options: o.ConnectionOptions, maxBody: uint64(o.MaxMessageSize)},
	}
}

// Run delivers messages to out, in order, until the context ends or Close is
// called; then it returns nil. Losing the connection, or the queue, it connects again, with
// growing pauses. It doesn't close out.
//
// When Run returns, the connection stays open for acknowledgements; end it
// with Close. Run must not be called twice at the same time.
func (c *Consumer) Run(ctx context.Context, out chan<- Delivery) error {
	if c.options.Queue == "" {
		return errors.New("a consumer needs a queue")
	}
	down := false
	for {
		s, deliveries, err := c.open(ctx)
		if err == nil {
			down, c.dialer.tries = false, 0
			c.log.Info("reading queue", "queue", c.options.Queue, "broker", s.conn.node.String())
			if c.options.Reading != nil {
				c.options.Reading()
			}
			if err = c.forward(ctx, s, deliveries, out); err == nil {
				return nil
			}
		}
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return nil
		}
		if !down {
			down = true
			c.log.Warn("the queue can't be read; trying again", "queue", c.options.Queue, "error", err)
		}
		if !sleep(ctx, c.dialer.pause()) {
			return nil
		}
	}
}

func (c *Consumer) open(ctx context.Context) (*consumeSession, <-chan amqp.Delivery, error) {
	conn, err := c.dialer.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	// The library's calls know no context; closing the socket ends them.
	stop := context.AfterFunc(ctx, conn.kill)
	defer stop()
	ch, deliveries, err := c.consume(conn)
	if err != nil {
		conn.close()
		return nil, nil, fmt.Errorf("%s: %w", conn.node, err)
	}
	s := &consumeSession{conn: conn, channel: ch}
	c.m.Lock()
	defer c.m.Unlock()
	if c.closed {
		conn.close()
		return nil, nil, ErrClosed
	}
	c.session = s
	return s, deliveries, nil
}

const consumerTag = "consumer"

func (c *Consumer) consume(conn *connection) (*amqp.Channel, <-chan amqp.Delivery, error) {
	queue := c.options.Queue
	found, _, err := inspectQueue(conn.Connection, queue)
	if err != nil {
		return nil, nil, err
	}
	if !found {
		err := onChannel(conn.Connection, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
			return err
		})
		if err != nil {
			return nil, nil, fmt.Errorf("declaring queue %q: %w", queue, err)
		}
	}
	for _, b := range c.options.Bindings {
		if err := bind(conn.Connection, queue, b); err != nil {
			return nil, nil, fmt.Errorf("binding queue %q to exchange %q: %w", queue, b.Exchange, err)
		}
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, nil, err
	}
	if err := ch.Qos(c.options.Prefetch, 0, false); err != nil {
		return nil, nil, fmt.Errorf("setting the prefetch limit: %w", err)
	}
	deliveries, err := ch.Consume(queue, consumerTag, false, false, false, false, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("reading queue %q: %w", queue, err)
	}
	return ch, deliveries, nil
}

// bind makes the exchange if there is none; an existing one is used whatever
// its type.
func bind(conn *amqp.Connection, queue string, b Binding) error {
	err := onChannel(conn, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(b.Exchange, b.Kind, true, false, false, false, nil)
	})
	if hasCode(err, amqp.NotFound) {
		err = onChannel(conn, func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare(b.Exchange, b.Kind, true, false, false, false, nil)
		})
	}
	if err != nil {
		return err
	}
	return onChannel(conn, func(ch *amqp.Channel) error {
		return ch.QueueBind(queue, b.Key, b.Exchange, false, nil)
	})
}

// forward hands deliveries over until the context ends, which gives nil, or
// until no more come, which gives the reason.
func (c *Consumer) forward(ctx context.Context, s *consumeSession, deliveries <-chan amqp.Delivery, out chan<- Delivery) error {
	closed := s.channel.NotifyClose(make(chan *amqp.Error, 1))
	for {
		select {
		case <-ctx.Done():
			c.stop(s, deliveries)
			return nil
		case d, ok := <-deliveries:
			if !ok {
				return c.lost(s, closed)
			}
			select {
			case out <- c.delivery(s, &d):
			case <-ctx.Done():
				c.stop(s, deliveries)
				return nil
			}
		}
	}
}

// stop has the broker send no more. What it sent already, and nobody took,
// stays unacknowledged.
func (c *Consumer) stop(s *consumeSession, deliveries <-chan amqp.Delivery) {
	timeout, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	defer context.AfterFunc(timeout, s.conn.kill)()
	var drained sync.WaitGroup
	drained.Go(func() {
		for range deliveries { // the library's goroutine waits for a reader
		}
	})
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
		Body:            d.Body,
		ContentType:     d.ContentType,
		ContentEncoding: d.ContentEncoding,
		RoutingKey:      d.RoutingKey,
		Headers:         d.Headers,
		Redelivered:     d.Redelivered,
		session:         s,
		tag:             d.DeliveryTag,
	}
	if limit := c.options.MaxMessageSize; len(out.Body) > limit {
		out.Body, out.Oversized = out.Body[:limit], true
	}
	return out
}

// AckUpTo acknowledges a delivery and all that came before it. It does
// nothing if the delivery came over an earlier connection: the broker has
// taken those messages back and delivers them again.
func (c *Consumer) AckUpTo(d Delivery) error {
	c.m.Lock()
	current := c.session
	c.m.Unlock()
	if d.session == nil || d.session != current {
		return nil
	}
	if err := current.channel.Ack(d.tag, true); err != nil {
		if current.channel.IsClosed() {
			return nil // as above: the connection has just become an earlier one
		}
		return fmt.Errorf("acknowledging deliveries of queue %q: %w", c.options.Queue, err)
	}
	return nil
}

// Close ends the connection. Deliveries not acknowledged go back to their
// queue.
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
