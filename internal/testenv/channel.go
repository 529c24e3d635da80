package testenv

import (
	"context"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Channel returns a channel of a new connection to a broker, closed when the test ends.
func Channel(t testing.TB, url string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatalf("testenv: connect to RabbitMQ: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatalf("testenv: open a channel: %v", err)
	}
	return ch
}

// Put publishes messages to a queue, and returns when the broker has confirmed them, as other connections may miss
// them before. It sets the channel to confirm mode.
func Put(t testing.TB, ch *amqp.Channel, queue string, messages ...amqp.Publishing) {
	t.Helper()
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), setupTimeout)
	defer cancel()
	for _, m := range messages {
		c, err := ch.PublishWithDeferredConfirm("", queue, false, false, m)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := c.WaitContext(ctx); !ok || err != nil {
			t.Fatalf("queue %q: a message is not confirmed: %v", queue, err)
		}
	}
}

// Take empties a queue, and returns its messages in order.
func Take(t testing.TB, ch *amqp.Channel, queue string) (all []amqp.Delivery) {
	t.Helper()
	for {
		d, ok, err := ch.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return all
		}
		all = append(all, d)
	}
}

// ListenerQueue declares the queue of workers' events, as the Python scheduler does, and returns a channel. Without
// the queue, an event before the listener's start would be lost.
func ListenerQueue(t testing.TB, url string) *amqp.Channel {
	t.Helper()
	const exchange, queue = "celeryev", "celeryev.listener"
	ch := Channel(t, url)
	err := ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil)
	if err == nil {
		_, err = ch.QueueDeclare(queue, true, false, false, false, nil)
	}
	if err == nil {
		err = ch.QueueBind(queue, "#", exchange, false, nil)
	}
	if err != nil {
		t.Fatalf("testenv: make the listener's queue: %v", err)
	}
	return ch
}

// Ready returns the number of ready messages of a queue.
func Ready(t testing.TB, ch *amqp.Channel, queue string) int {
	t.Helper()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Messages
}

// Declare declares a durable queue.
func Declare(t testing.TB, ch *amqp.Channel, queue string, arguments amqp.Table) {
	t.Helper()
	if _, err := ch.QueueDeclare(queue, true, false, false, false, arguments); err != nil {
		t.Fatal(err)
	}
}
