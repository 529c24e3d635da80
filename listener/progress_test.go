package listener

import (
	"context"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/sql/db"
)

// reader is a consumer of the queue of events whose deliveries the test takes, and its Progress.
type reader struct {
	t          *testing.T
	consumer   *celery.Consumer
	deliveries chan celery.Delivery
	progress   *Progress
	stop       func()
}

func newReader(t *testing.T, url string, store *db.Store) *reader {
	t.Helper()
	r := &reader{t: t, consumer: celery.NewConsumer(parsed.Broker(t, url), ConsumerOptions(testLog(t))), deliveries: make(chan celery.Delivery)}
	r.progress = &Progress{ProgressOptions: ProgressOptions{Consumer: r.consumer, Store: store, Log: testLog(t)}}
	r.stop = testenv.Run(t, func(ctx context.Context) error { return r.consumer.Run(ctx, r.deliveries) })
	t.Cleanup(func() { _ = r.consumer.Close() })
	return r
}

// take takes n deliveries.
func (r *reader) take(n int) (last celery.Delivery) {
	r.t.Helper()
	for range n {
		select {
		case last = <-r.deliveries:
		case <-time.After(time.Minute):
			r.t.Fatal("no delivery")
		}
	}
	return last
}

func (r *reader) acknowledge(d celery.Delivery) {
	r.t.Helper()
	if err := r.consumer.AckUpTo(d); err != nil {
		r.t.Fatal(err)
	}
}

// Events of a shared queue are known up to the last moment without a waiting message, once each listener has
// written what it had received then. Deliveries that a listener or an unknown consumer holds keep that moment
// back.
func TestProgressOfListenersThatShareAQueue(t *testing.T) {
	t.Parallel()
	pg, mq := newDatabase(t, testenv.Database(t)), testenv.RabbitMQ(t)
	store := testenv.Open(t, pg.dsn)
	events := testenv.ListenerQueue(t, mq.URL)
	var readers []*reader
	join := func() *reader {
		r := newReader(t, mq.URL, store)
		readers = append(readers, r)
		testenv.Becomes(t, "it reads", true, func() bool {
			_, err := r.consumer.CheckQueue(t.Context())
			return err == nil
		})
		return r
	}
	now := func() time.Time { return testenv.Value[time.Time](t, pg.pool, "select clock_timestamp()") }
	// passes reports whether the moment passes another one within some rounds.
	passes := func(moment time.Time) bool {
		t.Helper()
		for range 4 {
			for _, r := range readers {
				if err := r.progress.RunOnce(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		known, err := store.EndsKnown(t.Context(), now())
		if err != nil {
			t.Fatal(err)
		}
		return known.After(moment) && testenv.Value[int](t, pg.pool, "select count(*) from scheduler_go.event_queues") == 1
	}
	a := join()
	if !passes(now()) {
		t.Error("one listener with empty hands: what is known stands still")
	}
	b := join()
	if !passes(now()) {
		t.Error("two listeners with empty hands: what is known stands still")
	}

	came := now()
	testenv.Put(t, events, celery.EventsQueue, amqp.Publishing{Body: []byte("{}")}, amqp.Publishing{Body: []byte("{}")}, amqp.Publishing{Body: []byte("{}")}, amqp.Publishing{Body: []byte("{}")})
	ofA, ofB := a.take(2), b.take(2)
	a.acknowledge(ofA)
	if passes(came) {
		t.Error("what the other listener holds counts as written")
	}
	b.acknowledge(ofB)
	if !passes(came) {
		t.Error("when all is written, what is known stands still")
	}

	// A listener whose connection ends gives back what it holds, and reads on over another one.
	came = now()
	testenv.Put(t, events, celery.EventsQueue, amqp.Publishing{Body: []byte("{}")}, amqp.Publishing{Body: []byte("{}")})
	a.acknowledge(a.take(1))
	b.take(1)
	if passes(came) {
		t.Error("what the other listener holds counts as written")
	}
	b.stop()
	_ = b.consumer.Close()
	readers = readers[:1]
	back := a.take(1)
	if passes(came) {
		t.Error("what a listener gave back counts as written")
	}
	a.acknowledge(back)
	if !passes(came) {
		t.Error("when that is written, what is known stands still")
	}

	// A listener that stops reads no more, while its connection lasts for what is still to be acknowledged.
	b = join()
	if !passes(now()) {
		t.Error("two listeners with empty hands again: what is known stands still")
	}
	came = now()
	testenv.Put(t, events, celery.EventsQueue, amqp.Publishing{Body: []byte("{}")}, amqp.Publishing{Body: []byte("{}")})
	held := a.take(1)
	b.acknowledge(b.take(1))
	b.stop()
	if passes(came) {
		t.Error("what a listener holds counts as written while another one stops")
	}
	a.acknowledge(held)
	_ = b.consumer.Close()
	readers = readers[:1]
	if !passes(came) {
		t.Error("when that is written, what is known stands still")
	}

	// A consumer that reports nothing.
	foreign, err := events.Consume(celery.EventsQueue, "foreign", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	came = now()
	for range maxObservations/4 + 1 { // more looks than are kept
		if passes(came) {
			t.Fatal("a consumer that reports nothing counts as a listener")
		}
	}
	if err := events.Cancel("foreign", false); err != nil {
		t.Fatal(err)
	}
	for range foreign {
	}
	if !passes(came) {
		t.Error("once it has left, what is known stands still")
	}
}
