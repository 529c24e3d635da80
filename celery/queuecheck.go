package celery

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// QueueCheck is a passive declaration of a Consumer's queue, made on the channel of its deliveries.
type QueueCheck struct {
	Ready     int // messages without a consumer
	Consumers int // consumers of the queue, this one among them

	session *consumeSession
	last    uint64 // tag of the last delivery before the answer
}

// ErrNotReading says that a Consumer doesn't read its queue now: it has no connection, or it is stopping.
var ErrNotReading = errors.New("the queue is not read now")

// CheckQueue requests the queue's numbers from the broker, on the channel of the deliveries. The answer comes after
// all messages that the broker had sent to this consumer, so Acknowledged reports whether those are done. CheckQueue
// waits for the answer until ctx or the connection ends. An answer that counts no consumer is an error: this one reads
// the queue.
//
// First it creates the queue's bindings again: they end with an exchange that is deleted, also if another of its name
// follows. If the exchange is missing, the broker closes the channel, and Run creates the exchange.
func (c *Consumer) CheckQueue(ctx context.Context) (QueueCheck, error) {
	c.m.Lock()
	s := c.session
	c.m.Unlock()
	if s == nil {
		return QueueCheck{}, ErrNotReading
	}
	type answer struct {
		check QueueCheck
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		check, err := s.check(c.options.Queue, c.options.Bindings)
		answered <- answer{check, err}
	}()
	select {
	case a := <-answered:
		return a.check, a.err
	case <-ctx.Done():
		return QueueCheck{}, context.Cause(ctx)
	}
}

// check sends two requests. The broker's channel may answer the first request before it passes on a delivery that it
// already has from the queue. It passes that on before it reads the second request.
func (s *consumeSession) check(queue string, bindings []Binding) (QueueCheck, error) {
	s.calls.Lock()
	defer s.calls.Unlock()
	if s.stopped {
		return QueueCheck{}, ErrNotReading
	}
	for _, b := range bindings {
		if err := s.channel.QueueBind(queue, b.Key, b.Exchange, false, nil); err != nil {
			return QueueCheck{}, fmt.Errorf("binding queue %q to exchange %q: %w", queue, b.Exchange, err)
		}
	}
	var first amqp.Queue
	for i := range 2 {
		answer, err := s.channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			return QueueCheck{}, fmt.Errorf("checking queue %q: %w", queue, err)
		}
		if i == 0 {
			first = answer
		}
	}
	select {
	case <-s.ended: // before the answer: another consumer may have taken its place
		s.stopped = true
		return QueueCheck{}, ErrNotReading
	default:
	}
	if isSilent(first.Messages, first.Consumers) {
		return QueueCheck{}, fmt.Errorf("checking queue %q: its leader doesn't answer the broker", queue)
	}
	check := QueueCheck{Ready: first.Messages, Consumers: first.Consumers, session: s}
	check.last, _ = s.conn.socket.held.tags()
	return check, nil
}

// SameConnection reports whether two checks were made over the same connection.
func (q QueueCheck) SameConnection(other QueueCheck) bool { return q.session == other.session }

// Acknowledged reports whether all deliveries before a check are acknowledged.
func (q QueueCheck) Acknowledged() bool {
	if q.session == nil {
		return false
	}
	_, released := q.session.conn.socket.held.tags()
	return released >= q.last
}
