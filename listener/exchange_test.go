package listener

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/testenv"
)

// An exchange that is deleted takes its bindings with it. The listener binds its queue to the next one, whoever makes that.
func TestExchangeOfEventsIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]bool{"by a worker": true, "by the listener": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg, broker := ownDatabase(t), testenv.RabbitMQ(t)
			pg.addTasks(t, 1, "run")
			x := newExchange(t, broker.URL)
			source, store := consumer(t, broker.URL), openStore(t, pg.dsn)
			start(t, newTestListener(t, source, store))
			progress := &Progress{ProgressOptions: ProgressOptions{Consumer: source, Store: store.Store, Log: testLog(t)}}
			testenv.Becomes(t, "consumers", 1, func() int {
				q, err := x.channel.QueueDeclarePassive("celeryev.listener", true, false, false, false, nil)
				if err != nil {
					t.Fatal(err)
				}
				return q.Consumers
			})
			if err := x.channel.ExchangeDelete("celeryev", false, false); err != nil {
				t.Fatal(err)
			}
			if made {
				if err := x.channel.ExchangeDeclare("celeryev", amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
					t.Fatal(err)
				}
			}
			body := message(t, resultEvent("run-0", map[string]any{"status": "eventful"}))
			testenv.Becomes(t, "the run has ended", 1, func() int {
				if err := progress.RunOnce(t.Context()); err != nil {
					t.Log(err)
				}
				ch := testenv.Channel(t, broker.URL) // a missing exchange closes it
				if err := ch.Publish("celeryev", "task.result", false, false, amqp.Publishing{ContentType: "application/json", Body: body}); err != nil {
					t.Log(err)
				}
				return pg.count(t, "run-0", "eventful")
			})
		})
	}
}
