package celery

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// publishSession is the use of one connection for publishing. It ends with its connection or its channel, and is not
// used again.
type publishSession struct {
	conn    *connection
	channel *amqp.Channel

	unanswered atomic.Int64 // messages, counted from before they are sent

	late awaited // messages without a waiting call

	slots chan struct{} // one token for each message in flight with a waiting call

	closed  chan *amqp.Error // of the connection
	failed  chan *amqp.Error // of the channel
	blocks  chan amqp.Blocking
	returns chan amqp.Return

	ended context.Context // ends when the session may not be used for further messages
	end   context.CancelFunc

	exchanges sync.Map // exchanges of routes that exist

	writing mutex    // keeps encoding and sending of one message together
	encoder *encoder // guarded by writing

	m         sync.Mutex
	returned  map[returnKey][]*ReturnedError
	unblocked chan struct{} // closed when unblocked; nil while not blocked
}

// returnKey identifies a returned message; returns carry no delivery tag.
type returnKey struct{ id, routingKey string }

func newPublishSession(conn *connection, ch *amqp.Channel, maxInFlight int, e *encoder) *publishSession {
	ended, end := context.WithCancel(context.Background())
	return &publishSession{
		conn:     conn,
		channel:  ch,
		slots:    make(chan struct{}, maxInFlight),
		ended:    ended,
		end:      end,
		writing:  newMutex(),
		encoder:  e,
		returned: map[returnKey][]*ReturnedError{},
		closed:   conn.NotifyClose(make(chan *amqp.Error, 1)),
		failed:   ch.NotifyClose(make(chan *amqp.Error, 1)),
		blocks:   conn.NotifyBlocked(make(chan amqp.Blocking, 8)),
		// The broker sends a return before the message's confirmation, and the library's reader passes both on in
		// that order. So a message's return is in the buffer when its confirmation arrives. There can't be more
		// returns than messages in flight, so the reader hardly ever waits here. watch empties the buffer when many
		// messages were unanswered.
		returns: ch.NotifyReturn(make(chan amqp.Return, maxInFlight)),
	}
}

// alive reports whether the session may be used for one more message.
func (s *publishSession) alive() bool { return s.ended.Err() == nil && s.open() }

func (s *publishSession) open() bool {
	return !s.channel.IsClosed() && !s.conn.IsClosed()
}

func (s *publishSession) release() { <-s.slots }

// lockWriter begins the sending of a message, for which one call at a time uses the encoder and the channel. It returns
// amqp.ErrClosed once the session has ended, and the cause of the context's end if that came first.
func (s *publishSession) lockWriter(ctx context.Context) error {
	select {
	case s.writing <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.writing <- struct{}{}:
		return nil
	case <-s.ended.Done():
		return amqp.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// unlockWriter releases what lockWriter took.
func (s *publishSession) unlockWriter() { s.writing.unlock() }

// publish sends a message, or returns amqp.ErrClosed if the session has ended. It counts the message before it
// checks that: a retired session, which has ended, is closed once its count is zero.
func (s *publishSession) publish(exchange, key string, m amqp.Publishing) (confirm *amqp.DeferredConfirmation, err error) {
	s.unanswered.Add(1)
	if err = amqp.ErrClosed; s.ended.Err() == nil {
		confirm, err = s.channel.PublishWithDeferredConfirm(exchange, key, true, false, m)
	}
	if err != nil {
		s.unanswered.Add(-1)
	}
	return confirm, err
}

// takeReturn returns the oldest return of a message that has not been taken, or nil.
func (s *publishSession) takeReturn(k returnKey) error {
	s.m.Lock()
	defer s.m.Unlock()
	s.keepReturns()
	found := s.returned[k]
	switch len(found) {
	case 0:
		return nil
	case 1:
		delete(s.returned, k)
	default:
		s.returned[k] = found[1:]
	}
	return found[0]
}

// keepReturns empties the buffer of returns. The caller holds m, so that all returns taken from the buffer are in
// the map for its readers.
func (s *publishSession) keepReturns() {
	for range len(s.returns) {
		r := <-s.returns
		key := returnKey{r.CorrelationId, r.RoutingKey}
		s.returned[key] = append(s.returned[key], &ReturnedError{Queue: r.RoutingKey, Code: r.ReplyCode, Reason: r.ReplyText})
	}
}

func (s *publishSession) isBlocked() bool {
	s.m.Lock()
	defer s.m.Unlock()
	return s.unblocked != nil
}

// waitUnblocked returns nil once the broker takes messages, or the session has ended.
func (s *publishSession) waitUnblocked(ctx context.Context) error {
	for {
		s.m.Lock()
		unblocked := s.unblocked
		s.m.Unlock()
		if unblocked == nil {
			return nil
		}
		select {
		case <-unblocked:
		case <-s.ended.Done():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *publishSession) setBlocked(blocked bool) (changed bool) {
	s.m.Lock()
	defer s.m.Unlock()
	if blocked == (s.unblocked != nil) {
		return false
	}
	if blocked {
		s.unblocked = make(chan struct{})
	} else {
		close(s.unblocked)
		s.unblocked = nil
	}
	return true
}

// watch follows the state of connection and channel until either ends.
func (s *publishSession) watch(log *slog.Logger) {
	report := func(blocked bool, reason string) {
		switch {
		case !s.setBlocked(blocked):
		case blocked:
			log.Warn("the broker blocks publishers; waiting", "reason", reason)
		default:
			log.Info("the broker takes messages again")
		}
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.m.Lock()
			s.keepReturns()
			s.m.Unlock()
		case b, ok := <-s.blocks:
			if ok {
				report(b.Active, b.Reason)
				continue
			}
			s.blocks = nil
		case err := <-s.failed:
			if s.conn.IsClosed() {
				s.failed = nil // the channel closed with its connection
				continue
			}
			// A failed channel, for example after a message too large for the broker, leaves the connection open;
			// the session closes it.
			s.end()
			s.conn.close()
			if err != nil {
				log.Warn("the channel to the broker was closed", "error", explained(err))
			}
			report(false, "")
			return
		case err := <-s.closed:
			s.end()
			if err != nil {
				log.Warn("the connection to the broker was lost", "error", err)
			}
			report(false, "")
			return
		}
	}
}
