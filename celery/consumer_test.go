package celery_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

// fill puts messages numbered from 0 into a queue.
func fill(t testing.TB, ch *amqp.Channel, queue string, n int) {
	t.Helper()
	for i := range n {
		put(t, ch, queue, fmt.Append(nil, i))
	}
}

func put(t testing.TB, ch *amqp.Channel, queue string, body []byte) {
	t.Helper()
	testenv.Put(t, ch, queue, amqp.Publishing{Body: body, ContentType: "text/plain"})
}

func next(t testing.TB, deliveries <-chan celery.Delivery) celery.Delivery {
	t.Helper()
	select {
	case d := <-deliveries:
		return d
	case <-deadline(t).Done():
		t.Fatal("no delivery")
		return celery.Delivery{}
	}
}

// Prefetch bounds the deliveries without an acknowledgement. Acknowledging n of them makes room for n.
func TestPrefetchAndRanges(t *testing.T) {
	t.Parallel()
	env, ch := withQueue(t)
	fill(t, ch, "queue", 10)
	deliveries := make(chan celery.Delivery)
	c := runConsumer(t, parsed.Broker(t, env.URL), celery.ConsumerOptions{Queue: "queue", Prefetch: 4}, deliveries)
	var last celery.Delivery
	for i := range 4 {
		last = next(t, deliveries)
		if string(last.Body) != fmt.Sprint(i) || last.Redelivered {
			t.Errorf("delivery %d: %s", i, last.Body)
		}
	}
	if q, err := ch.QueueDeclarePassive("queue", true, false, false, false, nil); err != nil || q.Messages != 6 {
		t.Errorf("%d messages are ready: %v", q.Messages, err)
	}
	if err := c.AckUpTo(last); err != nil {
		t.Fatal(err)
	}
	if d := next(t, deliveries); string(d.Body) != "4" {
		t.Errorf("after acknowledging: %s", d.Body)
	}
}

// A check of a quorum queue whose leader doesn't answer is an error, not an empty queue: see TestLengthWithASilentLeader.
func TestCheckingAQueueWithASilentLeader(t *testing.T) {
	t.Parallel()
	node := testenv.RabbitMQCluster(t, 1).Nodes[0]
	ch := testenv.Channel(t, node.URL)
	testenv.Declare(t, ch, "queue", amqp.Table{"x-queue-type": "quorum"})
	fill(t, ch, "queue", 10)
	deliveries := make(chan celery.Delivery)
	c := runConsumer(t, parsed.Broker(t, node.URL), celery.ConsumerOptions{Queue: "queue", Prefetch: 4}, deliveries)
	next(t, deliveries)
	if found, err := c.CheckQueue(t.Context()); err != nil || found.Ready != 6 || found.Consumers != 1 {
		t.Fatalf("%d ready, %d consumers: %v", found.Ready, found.Consumers, err)
	}
	leader := func(do string) { node.Ctl("eval", "sys:"+do+"({'%2F_queue', node()}).") }
	leader("suspend")
	found, err := c.CheckQueue(t.Context())
	leader("resume")
	if err == nil || !strings.Contains(err.Error(), "leader doesn't answer") {
		t.Errorf("%d ready, %d consumers: %v", found.Ready, found.Consumers, err)
	}
}

// When its context ends, Run takes no more messages. Deliveries can still be acknowledged, and the broker requeues the
// others.
func TestStoppingTheConsumer(t *testing.T) {
	t.Parallel()
	env, ch := withQueue(t)
	fill(t, ch, "queue", 10)
	deliveries := make(chan celery.Delivery)
	c := celery.NewConsumer(parsed.Broker(t, env.URL), celery.ConsumerOptions{Queue: "queue", Logger: logger(t)})
	ctx, cancel := context.WithCancel(deadline(t))
	ended := make(chan error)
	go func() { ended <- c.Run(ctx, deliveries) }()
	next(t, deliveries)
	last := next(t, deliveries)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := c.AckUpTo(last); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	testenv.Becomes(t, "messages", 8, func() int { return testenv.Ready(t, ch, "queue") })
}

// After a lost connection the broker delivers unacknowledged messages again, marked as redelivered. Acknowledging the
// earlier deliveries has no effect.
func TestRedeliveryAfterLostConnection(t *testing.T) {
	t.Parallel()
	env, ch := withQueue(t)
	fill(t, ch, "queue", 3)
	proxy, url := proxied(t, env.URL)
	deliveries := make(chan celery.Delivery)
	c := runConsumer(t, parsed.Broker(t, url), celery.ConsumerOptions{Queue: "queue"}, deliveries)
	stale := next(t, deliveries)
	proxy.Cut()
	proxy.Restore()
	seen := map[string]bool{}
	for len(seen) < 3 {
		d := next(t, deliveries)
		if d.Redelivered {
			seen[string(d.Body)] = true
			if err := c.AckUpTo(stale); err != nil {
				t.Errorf("acknowledging a delivery of the connection before: %v", err)
			}
		}
	}
	var held int
	testenv.Becomes(t, "all are still there", nil, func() error {
		_ = c.Close()
		q, err := ch.QueueDeclarePassive("queue", true, false, false, false, nil)
		if held = q.Messages; err == nil && held != 3 {
			err = fmt.Errorf("%d messages", held)
		}
		return err
	})
}

// The consumer declares a deleted queue again and reads it.
func TestDeletedQueue(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	ch := testenv.Channel(t, env.URL)
	deliveries := make(chan celery.Delivery)
	runConsumer(t, parsed.Broker(t, env.URL), celery.ConsumerOptions{Queue: "queue", Bindings: []celery.Binding{celery.EventsBinding}}, deliveries)
	returns := ch.NotifyReturn(make(chan amqp.Return, 1))
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	if err := ch.ExchangeDeclare("celeryev", amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	publish := func(body string) {
		testenv.Becomes(t, "the queue is bound", nil, func() error {
			confirm, err := ch.PublishWithDeferredConfirm("celeryev", "task.multi", true, false, amqp.Publishing{Body: []byte(body)})
			if err != nil {
				return err
			}
			confirm.Wait()
			select {
			case <-returns:
				return errors.New("no queue is bound")
			default:
				return nil
			}
		})
	}
	publish("before")
	if d := next(t, deliveries); string(d.Body) != "before" {
		t.Errorf("%+v", d)
	}
	if _, err := ch.QueueDelete("queue", false, false, false); err != nil {
		t.Fatal(err)
	}
	publish("after")
	if d := next(t, deliveries); string(d.Body) != "after" {
		t.Errorf("%s", d.Body)
	}
}

// The consumer cuts and marks a message above the limit, whatever its size. The next message is whole.
func TestOversizedMessages(t *testing.T) {
	t.Parallel()
	env, ch := withQueue(t)
	const limit = 300_000 // longer than two frames
	bodies := [][]byte{}
	for _, size := range []int{0, 1, limit - 1, limit, limit + 1, limit + 2, 3 * limit, 8_000_000, 131_064, 131_065, 262_128, 10} {
		bodies = append(bodies, bytes.Repeat([]byte{'a' + byte(len(bodies))}, size))
		put(t, ch, "queue", bodies[len(bodies)-1])
	}
	deliveries := make(chan celery.Delivery)
	runConsumer(t, parsed.Broker(t, env.URL), celery.ConsumerOptions{Queue: "queue", MaxMessageSize: limit}, deliveries)
	for _, body := range bodies {
		d := next(t, deliveries)
		if d.Oversized != (len(body) > limit) || !bytes.Equal(d.Body, body[:min(limit, len(body))]) {
			t.Errorf("%d bytes became %d, oversized: %v", len(body), len(d.Body), d.Oversized)
		}
		if d.ContentType != "text/plain" {
			t.Errorf("content type %q", d.ContentType)
		}
	}
}

// A consumer waits for a broker that can't be reached at the start, and logs that once.
func TestConsumerWaitsForTheBroker(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	proxy, url := proxied(t, env.URL)
	proxy.Cut()
	ch := testenv.Channel(t, env.URL)
	testenv.Declare(t, ch, "queue", nil)
	fill(t, ch, "queue", 1)
	var log testenv.Buffer
	deliveries := make(chan celery.Delivery)
	c := celery.NewConsumer(parsed.Broker(t, url), celery.ConsumerOptions{
		Queue: "queue", Logger: textLogger(&log),
	})
	ctx, cancel := context.WithCancel(deadline(t))
	ended := make(chan error)
	go func() { ended <- c.Run(ctx, deliveries) }()
	testenv.Shows(t, "level=WARN", log.String)
	time.AfterFunc(100*time.Millisecond, proxy.Restore)
	next(t, deliveries)
	cancel()
	if err := errors.Join(<-ended, c.Close()); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, &log)
	}
}
