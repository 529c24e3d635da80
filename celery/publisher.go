package celery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/service"
)

// PublisherOptions may be left zero.
type PublisherOptions struct {
	ConnectionOptions

	Logger      *slog.Logger // default: slog.Default()
	MaxInFlight int          // messages sent and not yet confirmed, over all calls; default: 1,000

	// MaxMessageSize is the largest body in bytes. It must not exceed the broker's max_message_size: the broker
	// closes the channel for a larger message. Default: 16 MiB, as RabbitMQ 4.
	MaxMessageSize int

	// ConfirmTimeout is how long messages in flight may still be confirmed after the context was cancelled. Default:
	// 5 s.
	ConfirmTimeout time.Duration

	// MaxWait bounds how long one call waits for a broker that can't be reached
	// or that blocks publishers. Default: until the context ends.
	MaxWait time.Duration

	// QueueTimeout is how long a queue may take to answer DeclareQueue. Default: 2 s.
	QueueTimeout time.Duration

	Sending SendSettings
}

var (
	// ErrUnconfirmed: the broker may or may not have the message.
	ErrUnconfirmed = errors.New("sent, but not confirmed by the broker")

	// ErrNotSent: the broker doesn't have the message.
	ErrNotSent = errors.New("not sent")

	// ErrClosed: the owner has closed the publisher or consumer.
	ErrClosed = errors.New("closed")

	errLost   = errors.New("the connection was lost")
	errWaited = errors.New("the broker couldn't take it within the time allowed (MaxWait)")
)

// ReturnedError reports that the broker found no queue for a message and dropped it.
type ReturnedError struct {
	Queue  string
	Code   uint16 // of AMQP: 312 is NO_ROUTE
	Reason string
}

func (e *ReturnedError) Error() string {
	return fmt.Sprintf("the broker has no queue %q (%d %s)", e.Queue, e.Code, e.Reason)
}

// RejectedError reports that the broker refused a message: its queue is full and
// set to reject, or the broker failed to store it. Sending it again later is safe.
type RejectedError struct{ Queue string }

func (e *RejectedError) Error() string {
	return fmt.Sprintf("the broker refused a message for queue %q: the queue is full or can't store it", e.Queue)
}

// UnansweredError reports that the broker hasn't answered for a message within the time allowed, on a connection
// that is still open: it may still answer. It is an ErrUnconfirmed.
type UnansweredError struct {
	err      error
	answered chan struct{}
	result   error // once answered
}

// NewUnansweredError returns an UnansweredError, and the function that sets its result. The caller calls that
// function once, with the result of Publish.
func NewUnansweredError(err error) (e *UnansweredError, answer func(result error)) {
	e = &UnansweredError{err: err, answered: make(chan struct{})}
	return e, func(result error) {
		e.result = result
		close(e.answered)
	}
}

func (e *UnansweredError) Error() string { return e.err.Error() }
func (e *UnansweredError) Unwrap() error { return e.err }

// Answered is closed when the broker has answered, or when the connection was lost and it no longer can.
func (e *UnansweredError) Answered() <-chan struct{} { return e.answered }

// Result returns the result of Publish; it is valid after Answered is closed.
func (e *UnansweredError) Result() error { return e.result }

// IsPermanent reports whether sending a message again would fail in the same
// way: its queue doesn't exist, or it can't be encoded.
func IsPermanent(err error) bool {
	_, returned := errors.AsType[*ReturnedError](err)
	_, encoding := errors.AsType[*EncodingError](err)
	return returned || encoding
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

	questions questions
	forms     *forms

	connecting mutex
	dialer     dialer // guarded by connecting
	broker     *service.Service

	sessionM sync.Mutex
	session  *publishSession
	retired  map[*publishSession]bool

	suspects    *sync.Map  // queues that did not answer
	forSuspects *Publisher // with connections of its own

	replyTo string // reply_to of all messages
}

// NewPublisher makes a publisher. It connects when it is first used.
func NewPublisher(b Broker, o PublisherOptions) *Publisher {
	p := newPublisher(b, o)
	p.forSuspects = newPublisher(b, o)
	p.suspects = new(sync.Map)
	p.forSuspects.suspects = p.suspects
	return p
}

func newPublisher(b Broker, o PublisherOptions) *Publisher {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 1000)
	o.MaxMessageSize = cmp.Or(o.MaxMessageSize, 16<<20)
	o.ConfirmTimeout = cmp.Or(o.ConfirmTimeout, 5*time.Second)
	p := &Publisher{
		options:    o,
		log:        o.Logger,
		connecting: newMutex(),
		dialer:     newDialer(b, o.ConnectionOptions),
		broker:     service.NewService(o.Logger, "the broker"),
		forms:      newForms(o.Sending),
		replyTo:    uuid.NewString(),
	}
	p.questions = questions{timeout: cmp.Or(o.QueueTimeout, queueTimeout), tasks: &p.tasks}
	p.ctx, p.close = context.WithCancel(context.Background())
	return p
}

// Close stops sending, waits up to ConfirmTimeout for messages in flight, and closes the connections, all at once. Calls
// that are still sending get ErrNotSent for the rest.
func (p *Publisher) Close() error {
	var closing sync.WaitGroup
	if p.forSuspects != nil {
		closing.Go(func() { _ = p.forSuspects.Close() })
	}
	p.callsM.Lock()
	p.isClosed = true
	p.callsM.Unlock()
	p.close()
	p.calls.Wait()
	p.sessionM.Lock()
	for s := range p.retired {
		closing.Go(s.conn.close)
	}
	if s := p.session; s != nil && !p.retired[s] {
		closing.Go(s.conn.close)
	}
	p.sessionM.Unlock()
	closing.Wait()
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

// Connect returns once there is a connection, so that a caller can wait for the broker before it claims work.
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

// connected returns the session in use, or makes a new one, retrying until the context ends.
func (p *Publisher) connected(ctx context.Context) (*publishSession, error) {
	if s := p.current(); s != nil && s.alive() {
		return s, nil
	}
	if err := p.connecting.lock(ctx); err != nil {
		return nil, err
	}
	defer p.connecting.unlock()
	if s := p.current(); s != nil && s.alive() {
		return s, nil
	}
	for {
		s, err := p.open(ctx)
		if err == nil {
			p.log.Info("connected to the broker", "broker", s.conn.node.String())
			p.broker.OK()
			p.dialer.backoff.Reset()
			p.sessionM.Lock()
			p.session = s
			p.sessionM.Unlock()
			return s, nil
		}
		if ctx.Err() == nil {
			p.broker.Failed(err)
		}
		if p.dialer.backoff.Wait(ctx) != nil {
			return nil, fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
	}
}

// open tries every address once.
func (p *Publisher) open(ctx context.Context) (*publishSession, error) {
	conn, err := p.dialer.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.killAfter(ctx)()
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		conn.close()
		return nil, fmt.Errorf("opening a channel on %s: %w", conn.node, err)
	}
	s := newPublishSession(conn, ch, p.options.MaxInFlight, newEncoder(p.options.MaxMessageSize, p.replyTo))
	p.tasks.Go(func() { s.watch(p.log) })
	return s, nil
}

// inFlight is a message that was sent and is not answered yet.
type inFlight struct {
	index   int
	session *publishSession
	confirm *amqp.DeferredConfirmation
	key     returnKey
}

// Publish sends the messages of each queue in order and waits for the broker's answers. A queue that does not answer
// gets few messages until it does, so that it doesn't delay the others. Its messages that are unsent at the
// context's deadline get a QueueDownError. The result has one element per message: nil if the broker has it, else
// one of the errors in the package comment. The queues must exist: see [Publisher.DeclareQueue]. Messages that are
// not answered by the context's deadline, or within ConfirmTimeout after it was cancelled, get an UnansweredError.
func (p *Publisher) Publish(ctx context.Context, msgs []TaskMessage) []error {
	errs := make([]error, len(msgs))
	calls := make(map[string]*publishCall)
	for i := range msgs {
		c := calls[msgs[i].Queue]
		if c == nil {
			c = &publishCall{p: p, msgs: msgs, errs: errs}
			_, c.suspect = p.suspects.Load(msgs[i].Queue)
			calls[msgs[i].Queue] = c
		}
		c.todo = append(c.todo, i)
	}
	var sending sync.WaitGroup
	for _, c := range calls {
		sending.Go(func() { c.do(ctx) })
	}
	sending.Wait()
	return errs
}

func (c *publishCall) do(ctx context.Context) {
	if c.suspect {
		c.p = c.p.forSuspects
		if err := c.p.Connect(ctx); err != nil {
			c.unsent(0, err)
			return
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, suspectTime)
		defer cancel()
	}
	caller, end, err := c.p.begin(ctx)
	if err != nil {
		c.unsent(0, err)
		return
	}
	defer end()
	defer c.guard(caller)()
	c.send(caller)
	c.drain(caller)
}

// Messages for a queue that did not answer go over a connection for such queues, where they can delay only each
// other. RabbitMQ's channel waits for seconds for a quorum queue without a majority, and then blocks its whole
// connection.
const (
	suspectWindow = 30          // most unanswered messages of one call
	suspectTime   = time.Second // most time that a call waits for it
)

// publishCall is the part of a call of Publish that is for one queue.
type publishCall struct {
	p       *Publisher
	msgs    []TaskMessage // of the whole call
	errs    []error
	todo    []int      // indexes of the messages for this queue
	suspect bool       // the queue didn't answer last time
	flying  []inFlight // in the order sent
	settled int        // how many of flying have their result

	writing atomic.Pointer[publishSession] // session on which it is sending a message; nil while it isn't
}

// guard frees a call that is stuck in a socket which the broker doesn't read. Some time after the call's context has
// ended, guard closes the connection that the call writes to, and no other. Other calls take another connection as
// soon as the context has ended.
func (c *publishCall) guard(ctx context.Context) (release func()) {
	done, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, func() {
		// A write that isn't stuck ends at once. During the extra second, drain can end in order.
		const atOnce = 100 * time.Millisecond
		if service.Sleep(done, atOnce) != nil {
			return
		}
		stuck := c.writing.Load()
		if stuck == nil {
			return
		}
		c.p.retire(stuck)
		if service.Sleep(done, c.p.options.ConfirmTimeout+time.Second-atOnce) == nil && c.writing.Load() == stuck {
			stuck.conn.kill()
		}
	})
	return func() {
		stop()
		cancel()
	}
}

// unsent sets the result of todo, except for its first done messages.
func (c *publishCall) unsent(done int, err error) {
	_, down := errors.AsType[*QueueDownError](err)
	for _, i := range c.todo[done:] {
		if c.errs[i] = err; !down {
			c.errs[i] = failure(ErrNotSent, &c.msgs[i], err)
		}
	}
}

func failure(kind error, m *TaskMessage, cause error) error {
	return fmt.Errorf("%w: task %s to queue %q: %w", kind, m.ID, m.Queue, cause)
}

func (c *publishCall) send(ctx context.Context) {
	for done, i := range c.todo {
		for {
			s, err := c.acquire(ctx)
			if err != nil {
				c.unsent(done, err)
				return
			}
			again, err := c.sendOne(ctx, s, i)
			if !again {
				c.errs[i] = err
				break
			}
		}
	}
}

// acquire returns a session on which one more message may be sent.
func (c *publishCall) acquire(ctx context.Context) (*publishSession, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if c.suspect && len(c.flying)-c.settled >= suspectWindow {
		if f := c.flying[c.settled]; !c.settle(ctx) {
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) || f.session.isBlocked() {
				return nil, context.Cause(ctx)
			}
			return nil, &QueueDownError{c.msgs[f.index].Queue, fmt.Sprintf("%d messages are not answered for", suspectWindow)}
		}
	}
	if s := c.p.current(); s != nil && s.alive() && !s.isBlocked() {
		select {
		case s.slots <- struct{}{}: // the usual case, without a timer
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
			// Its own messages use up the slots: wait for the oldest.
			if !c.settle(ctx) {
				return nil, context.Cause(ctx)
			}
			continue
		}
		select {
		case s.slots <- struct{}{}:
			return s, nil
		case <-s.ended.Done():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// sendOne sends message i, for which the caller holds a slot. again means that
// the session has ended, and the message was not sent.
func (c *publishCall) sendOne(ctx context.Context, s *publishSession, i int) (again bool, err error) {
	m := &c.msgs[i]
	form := c.p.forms.of(m.Name)
	key := m.Queue
	if form.Exchange != "" {
		key = form.RoutingKey
		if err := c.findExchange(s, m, form.Exchange); err != nil {
			s.release()
			return false, err
		}
	}
	if err := s.lockWriter(ctx); err != nil {
		s.release()
		if errors.Is(err, amqp.ErrClosed) {
			return true, nil
		}
		c.p.retire(s) // another call is stuck in the session
		return false, failure(ErrNotSent, m, err)
	}
	publishing, err := s.encoder.encode(m, form)
	if err != nil {
		s.unlockWriter()
		s.release()
		return false, err
	}
	c.writing.Store(s)
	confirm, err := s.publish(form.Exchange, key, publishing)
	c.writing.Store(nil)
	s.unlockWriter()
	switch {
	case err == nil:
		c.flying = append(c.flying, inFlight{i, s, confirm, returnKey{m.ID, key}})
		return false, nil
	case errors.Is(err, amqp.ErrClosed):
		s.release()
		s.end()
		return true, nil
	default:
		// Some or all of its bytes may have been sent.
		s.release()
		s.end()
		s.conn.kill()
		return false, failure(ErrUnconfirmed, m, err)
	}
}

// settle waits for the answer to the oldest message in flight. It returns false if the context ended first.
func (c *publishCall) settle(ctx context.Context) bool {
	f := c.flying[c.settled]
	select {
	case <-f.confirm.Done():
	case <-ctx.Done():
		select {
		case <-f.confirm.Done(): // both channels may be ready
		default:
			return false
		}
	}
	c.settled++
	c.errs[f.index] = f.result(&c.msgs[f.index])
	f.session.release()
	if c.errs[f.index] == nil {
		c.p.suspects.Delete(c.msgs[f.index].Queue)
	}
	return true
}

// drain settles the rest until the context's deadline, or for at most ConfirmTimeout after it was cancelled.
func (c *publishCall) drain(ctx context.Context) {
	for c.settled < len(c.flying) && c.settle(ctx) {
	}
	if c.settled == len(c.flying) {
		return
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.p.options.ConfirmTimeout)
		defer cancel()
		for c.settled < len(c.flying) && c.settle(grace) {
		}
	}
	for _, f := range c.flying[c.settled:] {
		m := &c.msgs[f.index]
		e, answer := NewUnansweredError(failure(ErrUnconfirmed, m, context.Cause(ctx)))
		c.errs[f.index] = e
		// Other messages get its slot, and go over another connection: a queue that doesn't answer must not delay
		// the rest.
		f.session.release()
		c.p.suspects.Store(m.Queue, true)
		f.session.late.add(m.Queue, 1)
		c.p.retire(f.session)
		c.p.tasks.Go(func() {
			<-f.confirm.Done()
			result := f.result(m)
			if result == nil {
				c.p.suspects.Delete(m.Queue)
			}
			f.session.late.add(m.Queue, -1)
			answer(result)
		})
	}
}

// result interprets an answer.
func (f *inFlight) result(m *TaskMessage) error {
	returned := f.session.takeReturn(f.key)
	f.session.unanswered.Add(-1)
	switch {
	case returned != nil:
		return returned
	case f.confirm.Acked():
		return nil
	case !f.session.open():
		// When the channel closes, the library turns every outstanding confirmation into a refusal.
		return failure(ErrUnconfirmed, m, errLost)
	default:
		return &RejectedError{Queue: m.Queue}
	}
}
