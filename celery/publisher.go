package celery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// PublisherOptions may be left zero.
type PublisherOptions struct {
	ConnectionOptions

	Logger *slog.Logger // default: slog.Default()

	// MaxInFlight bounds the messages sent and not yet confirmed, over all
	// concurrent calls. Default: 1,000.
	MaxInFlight int

	// MaxMessageSize is the largest body in bytes. It must not exceed the
	// broker's max_message_size, whose excess costs the whole channel.
	// Default: 16 MiB, RabbitMQ 4's own.
	MaxMessageSize int

	// ConfirmTimeout is how long messages in flight may still be confirmed
	// after the context has ended. Default: 5 s.
	ConfirmTimeout time.Duration

	// MaxWait bounds how long one call waits for a broker that can't be reached
	// or that blocks publishers. Default: until the context ends.
	MaxWait time.Duration

	// OnBlocked is told when the broker begins to block publishers, with its
	// reason, and when it ends. It must return at once.
	OnBlocked func(blocked bool, reason string)

	// Origin and ReplyTo are what Celery derives from the process:
	// "gen<pid>@<host>" and a UUID of the sending app.
	Origin, ReplyTo string
}

func (o PublisherOptions) withDefaults() PublisherOptions {
	o.ConnectionOptions = o.ConnectionOptions.withDefaults()
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 1000)
	o.MaxMessageSize = cmp.Or(o.MaxMessageSize, 16<<20)
	o.ConfirmTimeout = cmp.Or(o.ConfirmTimeout, 5*time.Second)
	o.Origin = cmp.Or(o.Origin, defaultOrigin())
	o.ReplyTo = cmp.Or(o.ReplyTo, uuid.NewString())
	return o
}

var (
	// ErrUnconfirmed says that a message was sent, but that the broker's answer
	// never came: it may or may not have it.
	ErrUnconfirmed = errors.New("sent, but not confirmed by the broker")

	// ErrNotSent says that a message was not sent: the broker doesn't have it.
	ErrNotSent = errors.New("not sent")

	errWaited = errors.New("the broker couldn't take it within the time allowed (MaxWait)")

	// ErrClosed says that the publisher or consumer was closed by its owner.
	ErrClosed = errors.New("closed")
)

// ReturnedError says that the broker found no queue for a message and dropped
// it.
type ReturnedError struct {
	Queue  string
	Code   uint16 // of AMQP: 312 is NO_ROUTE
	Reason string
}

func (e *ReturnedError) Error() string {
	return fmt.Sprintf("the broker has no queue %q (%d %s)", e.Queue, e.Code, e.Reason)
}

// RejectedError says that the broker refused a message: its queue is full and
// set to reject, or the broker failed to store it. Sending it again later is
// safe.
type RejectedError struct{ Queue string }

func (e *RejectedError) Error() string {
	return fmt.Sprintf("the broker refused a message for queue %q: the queue is full or can't store it", e.Queue)
}

// IsPermanent says whether sending a message again would fail in the same
// way: its queue doesn't exist, or it can't be encoded.
func IsPermanent(err error) bool {
	var returned *ReturnedError
	var encoding *EncodingError
	return errors.As(err, &returned) || errors.As(err, &encoding)
}

// Publisher sends task messages. It is safe for concurrent use.
type Publisher struct {
	options PublisherOptions
	log     *slog.Logger

	ctx   context.Context // ends when Close begins
	close context.CancelFunc

	calls    sync.WaitGroup // calls that Close waits for
	tasks    sync.WaitGroup // goroutines that end with a session; started by calls
	callsM   sync.Mutex
	isClosed bool

	connecting chan struct{} // holds one token: a mutex that heeds contexts
	dialer     dialer        // held with the token
	down       bool          // whether an outage has been logged; held with the token

	sessionM sync.Mutex
	session  *publishSession

	encodeM sync.Mutex // also keeps encoding and sending of one message together
	encoder *encoder
}

// NewPublisher makes a publisher. It connects when it is first used.
func NewPublisher(b Broker, o PublisherOptions) *Publisher {
	o = o.withDefaults()
	p := &Publisher{
		options:    o,
		log:        o.Logger,
		connecting: make(chan struct{}, 1),
		dialer:     dialer{broker: b, options: o.ConnectionOptions},
		encoder:    newEncoder(o.Origin, o.ReplyTo, o.MaxMessageSize),
	}
	p.ctx, p.close = context.WithCancel(context.Background())
	return p
}

// Close stops sending, gives messages in flight ConfirmTimeout to be
// confirmed, and closes the connection. Calls that are still sending get
// ErrNotSent for the rest.
func (p *Publisher) Close() error {
	p.callsM.Lock()
	p.isClosed = true
	p.callsM.Unlock()
	p.close()
	p.calls.Wait()
	if s := p.current(); s != nil {
		s.conn.close()
	}
	p.tasks.Wait()
	return nil
}

// begin registers a call and derives its context, which also ends on Close.
func (p *Publisher) begin(ctx context.Context) (context.Context, func(), error) {
	p.callsM.Lock()
	defer p.callsM.Unlock()
	if p.isClosed {
		return nil, nil, ErrClosed
	}
	p.calls.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.ctx, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		p.calls.Done()
	}, nil
}

// Connect returns once there is a connection, so that a caller can wait for
// the broker before it takes up work.
func (p *Publisher) Connect(ctx context.Context) error {
	ctx, end, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	_, err = p.connected(ctx)
	return err
}

func (p *Publisher) current() *publishSession {
	p.sessionM.Lock()
	defer p.sessionM.Unlock()
	return p.session
}

// connected gives the session in use, or makes a new one, however often it
// takes, until the context ends.
func (p *Publisher) connected(ctx context.Context) (*publishSession, error) {
	if s := p.current(); s != nil && s.alive() {
		return s, nil
	}
	select {
	case p.connecting <- struct{}{}:
		defer func() { <-p.connecting }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s := p.current(); s != nil && s.alive() {
		return s, nil
	}
	for {
		s, err := p.open(ctx)
		if err == nil {
			p.log.Info("connected to the broker", "broker", s.conn.node.String())
			p.down, p.dialer.tries = false, 0
			p.sessionM.Lock()
			p.session = s
			p.sessionM.Unlock()
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		if !p.down {
			p.down = true
			p.log.Warn("the broker can't be reached; trying again", "error", err)
		}
		if !sleep(ctx, p.dialer.pause()) {
			return nil, fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
	}
}

// open makes one try at every address.
func (p *Publisher) open(ctx context.Context) (*publishSession, error) {
	conn, err := p.dialer.dial(ctx)
	if err != nil {
		return nil, err
	}
	// The library's calls know no context; closing the socket ends them.
	defer context.AfterFunc(ctx, conn.kill)()
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		conn.close()
		return nil, fmt.Errorf("opening a channel on %s: %w", conn.node, err)
	}
	s := newPublishSession(conn, ch, p.options.MaxInFlight)
	p.tasks.Go(func() { s.watch(p.log, p.options.OnBlocked) })
	return s, nil
}

// inFlight is a message that was sent and whose answer is awaited.
type inFlight struct {
	index   int
	session *publishSession
	confirm *amqp.DeferredConfirmation
	key     returnKey
}

// Publish sends messages in order and waits for the broker's answers. The
// result has one element a message; nil means that the broker has taken it.
// The package comment lists what else there may be. Queues are not made here:
// see [Publisher.DeclareQueue].
func (p *Publisher) Publish(ctx context.Context, msgs []TaskMessage) []error {
	c := publishCall{p: p, msgs: msgs, errs: make([]error, len(msgs))}
	caller, end, err := p.begin(ctx)
	if err != nil {
		c.unsent(0, err)
		return c.errs
	}
	defer end()
	if len(msgs) == 0 {
		return c.errs
	}
	defer c.guard(caller)()
	c.send(caller)
	c.drain(caller)
	return c.errs
}

// publishCall is one call of Publish.
type publishCall struct {
	p       *Publisher
	msgs    []TaskMessage
	errs    []error
	flying  []inFlight // in the order sent
	settled int        // how many of flying have their result
}

// guard frees a call that is stuck in a socket which the broker doesn't read,
// some time after its context has ended.
func (c *publishCall) guard(ctx context.Context) (release func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		// The second more lets the orderly way, drain, come first.
		t := time.NewTimer(c.p.options.ConfirmTimeout + time.Second)
		defer t.Stop()
		select {
		case <-done:
		case <-t.C:
			if s := c.p.current(); s != nil {
				s.conn.kill()
			}
		}
	})
	return func() { close(done); stop() }
}

func (c *publishCall) unsent(from int, err error) {
	for i := from; i < len(c.msgs); i++ {
		c.errs[i] = fmt.Errorf("%w: task %s to queue %q: %w", ErrNotSent, c.msgs[i].ID, c.msgs[i].Queue, err)
	}
}

func (c *publishCall) send(ctx context.Context) {
	for i := range c.msgs {
		for {
			s, err := c.acquire(ctx)
			if err != nil {
				c.unsent(i, err)
				return
			}
			again, err := c.sendOne(s, i)
			if !again {
				c.errs[i] = err
				break
			}
		}
	}
}

// acquire gives a session on which one more message may be sent.
func (c *publishCall) acquire(ctx context.Context) (*publishSession, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if s := c.p.current(); s != nil && s.alive() && !s.isBlocked() {
		select {
		case s.slots <- struct{}{}:
			return s, nil
		default:
		}
	}
	if c.p.options.MaxWait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.p.options.MaxWait, errWaited)
		defer cancel()
	}
	for {
		s, err := c.p.connected(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.waitUnblocked(ctx); err != nil {
			return nil, err
		}
		select {
		case s.slots <- struct{}{}:
			return s, nil
		default:
		}
		if c.settled < len(c.flying) {
			// Its own messages hold slots: wait for the oldest.
			if !c.settle(ctx) {
				return nil, context.Cause(ctx)
			}
			continue
		}
		select {
		case s.slots <- struct{}{}:
			return s, nil
		case <-s.dead:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// sendOne sends message i, for which the caller holds a slot. again means
// that it was not sent because the session has ended.
func (c *publishCall) sendOne(s *publishSession, i int) (again bool, err error) {
	m := &c.msgs[i]
	c.p.encodeM.Lock()
	publishing, err := c.p.encoder.encode(m)
	if err != nil {
		c.p.encodeM.Unlock()
		s.release()
		return false, err
	}
	confirm, err := s.channel.PublishWithDeferredConfirm("", m.Queue, true, false, publishing)
	c.p.encodeM.Unlock()
	switch {
	case err == nil:
		c.flying = append(c.flying, inFlight{i, s, confirm, returnKey{m.ID, m.Queue}})
		return false, nil
	case errors.Is(err, amqp.ErrClosed):
		s.release()
		s.end()
		return true, nil
	default:
		// A part of it may have gone out, or all of it.
		s.release()
		s.end()
		s.conn.kill()
		return false, fmt.Errorf("%w: task %s to queue %q: %w", ErrUnconfirmed, m.ID, m.Queue, err)
	}
}

// settle waits for the answer to the oldest message in flight; false means
// that the context ended first.
func (c *publishCall) settle(ctx context.Context) bool {
	f := c.flying[c.settled]
	select {
	case <-f.confirm.Done():
	default:
		select {
		case <-f.confirm.Done():
		case <-ctx.Done():
			return false
		}
	}
	c.settled++
	c.errs[f.index] = f.result(&c.msgs[f.index])
	return true
}

// drain settles what is left, after the context's end for no longer than
// ConfirmTimeout.
func (c *publishCall) drain(ctx context.Context) {
	for c.settled < len(c.flying) && c.settle(ctx) {
	}
	if c.settled == len(c.flying) {
		return
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.p.options.ConfirmTimeout)
	defer cancel()
	for c.settled < len(c.flying) && c.settle(grace) {
	}
	for _, f := range c.flying[c.settled:] {
		m := &c.msgs[f.index]
		c.errs[f.index] = fmt.Errorf("%w: task %s to queue %q: %w", ErrUnconfirmed, m.ID, m.Queue, context.Cause(ctx))
		// The slot is free again, and a return forgotten, once the answer comes.
		c.p.tasks.Go(func() {
			<-f.confirm.Done()
			_ = f.result(m)
		})
	}
}

// result interprets an answer that has come, and gives back the slot.
func (f *inFlight) result(m *TaskMessage) error {
	returned := f.session.takeReturn(f.key)
	f.session.release()
	switch {
	case returned != nil:
		return returned
	case f.confirm.Acked():
		return nil
	case !f.session.open():
		// The library turns every outstanding confirmation into a refusal when
		// the channel goes.
		return fmt.Errorf("%w: task %s to queue %q: the connection was lost", ErrUnconfirmed, m.ID, m.Queue)
	default:
		return &RejectedError{Queue: m.Queue}
	}
}
