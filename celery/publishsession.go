package celery

import (
	"context"
	"log/slog"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// publishSession is one connection's worth of publishing. It is used until
// its connection or its channel ends, and never again.
type publishSession struct {
	conn    *connection
	channel *amqp.Channel

	slots chan struct{} // one token a message in flight

	closed  chan *amqp.Error // of the connection
	failed  chan *amqp.Error // of the channel
	blocks  chan amqp.Blocking
	returns chan amqp.Return

	endOnce sync.Once
	dead    chan struct{} // closed by end

	m         sync.Mutex
	returned  map[returnKey][]*ReturnedError
	unblocked chan struct{} // closed when unblocked; nil while not blocked
}

// returnKey tells what a returned message was; returns carry no delivery tag.
type returnKey struct{ id, queue string }

func newPublishSession(conn *connection, ch *amqp.Channel, maxInFlight int) *publishSession {
	return &publishSession{
		conn:     conn,
		channel:  ch,
		slots:    make(chan struct{}, maxInFlight),
		dead:     make(chan struct{}),
		returned: map[returnKey][]*ReturnedError{},
		closed:   conn.NotifyClose(make(chan *amqp.Error, 1)),
		failed:   ch.NotifyClose(make(chan *amqp.Error, 1)),
		blocks:   conn.NotifyBlocked(make(chan amqp.Blocking, 8)),
		// The broker sends a return before its confirmation, and the library's
		// reader hands both over in that order. There can't be more returns than
		// messages in flight, so the reader never waits here, and a message's
		// return is in the buffer when its confirmation is seen.
		returns: ch.NotifyReturn(make(chan amqp.Return, maxInFlight)),
	}
}

// alive says whether the session may be used for one more message.
func (s *publishSession) alive() bool {
	select {
	case <-s.dead:
		return false
	default:
		return s.open()
	}
}

// open says whether the library takes channel and connection for open.
func (s *publishSession) open() bool {
	return !s.channel.IsClosed() && !s.conn.IsClosed()
}

// end makes sure that nobody uses the session any more.
func (s *publishSession) end() { s.endOnce.Do(func() { close(s.dead) }) }

func (s *publishSession) release() { <-s.slots }

func (s *publishSession) takeReturn(k returnKey) error {
	s.m.Lock()
	defer s.m.Unlock()
drain:
	for {
		select {
		case r, ok := <-s.returns:
			if !ok {
				s.returns = nil
				break drain
			}
			key := returnKey{r.CorrelationId, r.RoutingKey}
			s.returned[key] = append(s.returned[key], &ReturnedError{Queue: r.RoutingKey, Code: r.ReplyCode, Reason: r.ReplyText})
		default:
			break drain
		}
	}
	found := s.returned[k]
	if len(found) == 0 {
		return nil
	}
	if len(found) == 1 {
		delete(s.returned, k)
	} else {
		s.returned[k] = found[1:]
	}
	return found[0]
}

func (s *publishSession) isBlocked() bool {
	s.m.Lock()
	defer s.m.Unlock()
	return s.unblocked != nil
}

// waitUnblocked returns nil when the broker takes messages, or when the
// session has ended.
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
		case <-s.dead:
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
func (s *publishSession) watch(log *slog.Logger, onBlocked func(bool, string)) {
	report := func(blocked bool, reason string) {
		if !s.setBlocked(blocked) {
			return
		}
		if blocked {
			log.Warn("the broker blocks publishers; waiting", "reason", reason)
		} else {
			log.Info("the broker takes messages again")
		}
		if onBlocked != nil {
			onBlocked(blocked, reason)
		}
	}
	for {
		select {
		case b, ok := <-s.blocks:
			if ok {
				report(b.Active, b.Reason)
				continue
			}
			s.blocks = nil
		case err := <-s.failed:
			if s.conn.IsClosed() {
				s.failed = nil // the channel went with its connection
				continue
			}
			// A failed channel, say after a message too large for the broker,
			// leaves the connection open; it isn't worth keeping.
			s.end()
			s.conn.close()
			if err != nil {
				log.Warn("the channel to the broker was closed", "error", err)
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
