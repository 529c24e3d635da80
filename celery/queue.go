package celery

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// DeclareQueue makes sure that a queue exists. A queue that exists is used as it is, whatever its type and
// arguments. Otherwise DeclareQueue creates it as Celery does: a durable direct exchange of the same name, a durable
// queue with the arguments of SendSettings, and a binding with that name as its key. A QueueDownError or QueueAccessError
// is of this queue alone.
func (p *Publisher) DeclareQueue(ctx context.Context, queue string) error {
	if err := p.declareQueue(ctx, queue); err != nil {
		return fmt.Errorf("declaring queue %q: %w", queue, err)
	}
	return nil
}

func (p *Publisher) declareQueue(ctx context.Context, queue string) error {
	ctx, end, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	s, err := p.connected(ctx)
	if err != nil {
		return err
	}
	return p.questions.ask(ctx, queue, func() error { return declareQueue(s.conn.Connection, queue, p.forms.sending.arguments(queue)) })
}

// declareQueue first declares the queue passively, because other arguments than the queue's are an error. Each step
// has its own channel, because an error closes it.
func declareQueue(conn *amqp.Connection, queue string, arguments amqp.Table) error {
	found, err := hasQueue(conn, queue)
	if err != nil || found {
		return err
	}
	var refusal error
	for _, declare := range []func(*amqp.Channel) error{
		func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare(queue, amqp.ExchangeDirect, true, false, false, false, nil)
		},
		durableQueue(queue, arguments),
		func(ch *amqp.Channel) error { return ch.QueueBind(queue, queue, queue, false, nil) },
	} {
		// An exchange of another type is usable, and so is a queue that another client has created since. A queue
		// whose arguments are refused can't be bound.
		switch err := onChannel(conn, declare); {
		case hasCode(err, amqp.PreconditionFailed):
			refusal = err
		case isMissing(err) && refusal != nil:
			return refusal
		case err != nil:
			return err
		}
	}
	return nil
}

func durableQueue(queue string, arguments amqp.Table) func(*amqp.Channel) error {
	return func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, arguments)
		return err
	}
}

// hasQueue reports whether a queue exists.
func hasQueue(conn *amqp.Connection, queue string) (bool, error) {
	err := onChannel(conn, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	})
	if isMissing(err) {
		return false, nil
	}
	return err == nil, err
}

func onChannel(conn *amqp.Connection, f func(*amqp.Channel) error) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	return f(ch)
}
