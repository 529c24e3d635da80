package celery

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// DeclareQueue makes sure that a queue exists. One that exists is used as it
// is, whatever its type and arguments. Otherwise it is made as Celery makes
// it: a durable direct exchange of the same name, a durable queue, and a
// binding with that name as its key.
func (p *Publisher) DeclareQueue(ctx context.Context, queue string) error {
	ctx, end, err := p.begin(ctx)
	if err != nil {
		return fmt.Errorf("declaring queue %q: %w", queue, err)
	}
	defer end()
	s, err := p.connected(ctx)
	if err != nil {
		return fmt.Errorf("declaring queue %q: %w", queue, err)
	}
	// The library's calls know no context, and the connection is shared: a call
	// that takes too long is left to end with the connection.
	done := make(chan error, 1)
	p.tasks.Go(func() { done <- declareQueue(s.conn.Connection, queue) })
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("declaring queue %q: %w", queue, err)
	}
	return nil
}

// declareQueue asks first, because a declaration with other arguments than
// the queue has is an error. Each step has a channel of its own, because an
// error closes the channel.
func declareQueue(conn *amqp.Connection, queue string) error {
	found, _, err := inspectQueue(conn, queue)
	if err != nil || found {
		return err
	}
	err = onChannel(conn, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(queue, amqp.ExchangeDirect, true, false, false, false, nil)
	})
	if err != nil && !hasCode(err, amqp.PreconditionFailed) { // an exchange of another type will do
		return err
	}
	err = onChannel(conn, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
		return err
	})
	if err != nil && !hasCode(err, amqp.PreconditionFailed) { // somebody else was quicker
		return err
	}
	return onChannel(conn, func(ch *amqp.Channel) error {
		return ch.QueueBind(queue, queue, queue, false, nil)
	})
}

// inspectQueue asks whether a queue exists and how many messages in it are
// ready.
func inspectQueue(conn *amqp.Connection, queue string) (found bool, ready int, err error) {
	err = onChannel(conn, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		ready = q.Messages
		return err
	})
	if hasCode(err, amqp.NotFound) {
		return false, 0, nil
	}
	return err == nil, ready, err
}

func onChannel(conn *amqp.Connection, f func(*amqp.Channel) error) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	return f(ch)
}

func hasCode(err error, code int) bool {
	var e *amqp.Error
	return errors.As(err, &e) && e.Code == code
}
