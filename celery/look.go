package celery

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Look is a look of a Consumer at its queue.
type Look struct {
	Ready     int // messages that no consumer has
	Consumers int // that read the queue, this one among them

	session *consumeSession
	last    uint64 // tag of the last delivery that came before the answer
}

// ErrNotReading says that a Consumer doesn't read its queue now: it has no connection, or it stops.
var ErrNotReading = errors.New("the queue is not read now")

// Look asks the broker about the queue, on the channel of the deliveries. All that the broker had sent to
// this consumer when it was asked has come by the answer, so Acknowledged says whether it is done. It
// waits for the answer until ctx or the connection ends.
func (c *Consumer) Look(ctx context.Context) (Look, error) {
	c.m.Lock()
	s := c.session
	c.m.Unlock()
	if s == nil {
		return Look{}, ErrNotReading
	}
	type answer struct {
		look Look
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		look, err := s.look(c.options.Queue)
		answered <- answer{look, err}
	}()
	select {
	case a := <-answered:
		return a.look, a.err
	case <-ctx.Done():
		return Look{}, context.Cause(ctx)
	}
}

// look asks twice. The broker's channel may answer the first question before it passes on a delivery that
// it already has from the queue; then it passes that on before it reads the second question.
func (s *consumeSession) look(queue string) (Look, error) {
	s.calls.Lock()
	defer s.calls.Unlock()
	if s.stopped {
		return Look{}, ErrNotReading
	}
	var first amqp.Queue
	for i := range 2 {
		answer, err := s.channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			return Look{}, fmt.Errorf("looking at queue %q: %w", queue, err)
		}
		if i == 0 {
			first = answer
		}
	}
	select {
	case <-s.ended: // before the answer: another consumer may have come in this one's place
		s.stopped = true
		return Look{}, ErrNotReading
	default:
	}
	look := Look{Ready: first.Messages, Consumers: first.Consumers, session: s}
	look.last, _ = s.conn.socket.held.tags()
	return look, nil
}

// SameConnection reports whether two looks were made over the same connection.
func (l Look) SameConnection(other Look) bool { return l.session == other.session }

// Acknowledged reports whether all deliveries that came before a look are acknowledged.
func (l Look) Acknowledged() bool {
	if l.session == nil {
		return false
	}
	_, released := l.session.conn.socket.held.tags()
	return released >= l.last
}
