package listener

import (
	"context"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

// exchange publishes as workers do. The queue is declared as the Python scheduler does it,
// so that messages are kept before a listener is there. It has to be made before
// a listener starts: of two that make the same binding at once, RabbitMQ 4
// answers the second before the binding is in effect, and drops what is then
// published.
type exchange struct {
	url     string
	channel *amqp.Channel
}

func newExchange(t testing.TB, url string) *exchange {
	t.Helper()
	ch := testenv.ListenerQueue(t, url)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return &exchange{url: url, channel: ch}
}

// publish returns when the broker has confirmed all bodies.
func (x *exchange) publish(t testing.TB, bodies ...[]byte) {
	t.Helper()
	var last *amqp.DeferredConfirmation
	for _, body := range bodies {
		c, err := x.channel.PublishWithDeferredConfirm("celeryev", "task.multi", false, false, amqp.Publishing{
			ContentType: "application/json", ContentEncoding: "utf-8", DeliveryMode: amqp.Transient, Body: body,
			Headers: amqp.Table{"hostname": "worker@host"},
		})
		if err != nil {
			t.Fatal(err)
		}
		last = c
	}
	if ok, err := last.WaitContext(t.Context()); !ok || err != nil {
		t.Fatalf("not confirmed: %v", err)
	}
}

// ready counts the messages that wait in the queue, without unacknowledged ones.
func (x *exchange) ready(t testing.TB) int {
	t.Helper()
	return testenv.Ready(t, x.channel, "celeryev.listener")
}

// consumer returns the real source with a short timeout and a short back-off.
func consumer(t testing.TB, url string) *celery.Consumer {
	t.Helper()
	broker := parsed.Broker(t, url)
	o := ConsumerOptions(testLog(t))
	o.MaxBackoff = 200 * time.Millisecond
	return celery.NewConsumer(broker, o)
}

// start runs a listener until stop is called, or the test ends.
func start(t testing.TB, l *Listener) (stop func()) {
	t.Helper()
	group := service.Group{Log: testLog(t), Grace: testenv.Patience}
	return testenv.Run(t, func(ctx context.Context) error {
		return group.Run(ctx, service.Component{Name: "listener", Run: l.Run})
	})
}
