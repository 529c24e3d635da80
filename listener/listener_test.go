package listener

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
)

// In light traffic most events are in the database within 250 ms. Not all, as other tests share the machine.
func TestEventsAreVisibleSoon(t *testing.T) {
	t.Parallel()
	pg, broker := ownDatabase(t), testenv.RabbitMQ(t)
	const n = 200
	pg.addTasks(t, n, "run")
	x := newExchange(t, broker.URL)
	start(t, newTestListener(t, consumer(t, broker.URL), openStore(t, pg.dsn)))
	var times []time.Duration
	for i := range n {
		id, sent := name("run", i), time.Now()
		x.publish(t, message(t, startedEvent(id)))
		testenv.Becomes(t, "the run is started", true, func() bool { return pg.count(t, id, "started") == 1 })
		if times = append(times, time.Since(sent)); i > 0 && slices.Min(times) <= 250*time.Millisecond {
			return
		}
	}
	t.Errorf("visible after %v", times)
}

// A stopped listener commits and acknowledges its batch, and leaves the rest in the queue for the next listener.
func TestStop(t *testing.T) {
	t.Parallel()
	pg, broker := ownDatabase(t), testenv.RabbitMQ(t)
	const n = 5000
	pg.addTasks(t, n, "run")
	x := newExchange(t, broker.URL)
	x.publish(t, streams(t, "run", n)...)
	stop := start(t, newTestListener(t, consumer(t, broker.URL), openStore(t, pg.dsn)))
	testenv.Becomes(t, "some runs have ended", true, func() bool { return pg.count(t, "run", "eventful") > 0 })
	stop()
	// Of the two events of each run, ten a message, what isn't in the queue is
	// in the database.
	ended := pg.count(t, "run", "eventful")
	testenv.Becomes(t, "messages in the queue", (n-ended)/5, func() int { return x.ready(t) })
	start(t, newTestListener(t, consumer(t, broker.URL), openStore(t, pg.dsn)))
	testenv.Becomes(t, "eventful runs", n, func() int { return pg.count(t, "run", "eventful") })
}

// deaf is a source whose acknowledgements are lost, as when the process dies
// after the commit.
type deaf struct {
	Source
	lost atomic.Int64
}

func (d *deaf) AckUpTo(celery.Delivery) error {
	d.lost.Add(1)
	return nil
}

// Redelivered messages change nothing. A listener that dies between commit and acknowledgement causes them.
func TestRedelivery(t *testing.T) {
	t.Parallel()
	pg, broker := ownDatabase(t), testenv.RabbitMQ(t)
	const n = 100
	pg.addTasks(t, n, "run")
	x := newExchange(t, broker.URL)
	x.publish(t, streams(t, "run", n)...)
	x.publish(t, message(t, taskEvent("task-failed", "run-0", 1)), message(t, taskEvent("task-failed", "run-1", 1)))

	source := &deaf{Source: consumer(t, broker.URL)}
	stop := start(t, newTestListener(t, source, openStore(t, pg.dsn)))
	testenv.Becomes(t, "all runs have ended", true, func() bool { return pg.count(t, "run", "eventful") == n && source.lost.Load() > 0 })
	stop()
	testenv.Becomes(t, "messages in the queue", n/5+2, func() int { return x.ready(t) })
	want := pg.rows(t)

	stop = start(t, newTestListener(t, consumer(t, broker.URL), openStore(t, pg.dsn)))
	pg.addTasks(t, 1, "last")
	x.publish(t, streams(t, "last", 1)...)
	testenv.Becomes(t, "eventful runs", 1, func() int { return pg.count(t, "last", "eventful") })
	stop()
	if left := x.ready(t); left != 0 {
		t.Errorf("%d messages left", left)
	}
	if got := pg.rows(t); !slices.Equal(got, want) {
		t.Errorf("redelivery changed the database:\n%s\nwas\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Several listeners share the queue and the events of each run. They leave the same state as one listener.
func TestSeveralListeners(t *testing.T) {
	t.Parallel()
	pg, broker := ownDatabase(t), testenv.RabbitMQ(t)
	const n = 2000
	pg.addTasks(t, n, "run")
	x := newExchange(t, broker.URL)
	for range 3 {
		start(t, newTestListener(t, consumer(t, broker.URL), openStore(t, pg.dsn)))
	}
	// Each message three times: as likely as not at different listeners.
	var bodies [][]byte
	for _, body := range streams(t, "run", n) {
		bodies = append(bodies, body, body, body)
	}
	x.publish(t, bodies...)
	testenv.Becomes(t, "eventful runs", n, func() int { return pg.count(t, "run", "eventful") })
	testenv.Becomes(t, "messages in the queue", 0, func() int { return x.ready(t) })
	pg.addTasks(t, 50, "last")
	x.publish(t, streams(t, "last", 50)...)
	testenv.Becomes(t, "eventful runs", 50, func() int { return pg.count(t, "last", "eventful") })
	const want = `eventful {"worker": "worker@host"} started=true ended=true in order=true next_run_not_scheduled 32 days 3 next=32 days`
	for _, got := range pg.state(t, "run-") {
		if _, got, _ = strings.Cut(got, " "); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

// No event is lost while the database or the broker is unreachable. The backlog is processed afterwards.
func TestOutages(t *testing.T) {
	t.Parallel()
	for _, away := range []string{"database", "broker", "both"} {
		t.Run(away, func(t *testing.T) {
			t.Parallel()
			pg, broker := ownDatabase(t), testenv.RabbitMQ(t)
			const n = 2500
			pg.addTasks(t, n, "run")
			x := newExchange(t, broker.URL)
			throughDB, dbProxy := testenv.Through(t, pg.dsn, testenv.Proxy)
			throughBroker, brokerProxy := testenv.Through(t, broker.URL, testenv.Proxy)
			l := newTestListener(t, consumer(t, throughBroker), openStore(t, throughDB))
			start(t, l)

			bodies := streams(t, "run", n)
			publish := func(part int) { x.publish(t, bodies[part*n/25:(part+1)*n/25]...) }
			publish(0)
			testenv.Becomes(t, "some runs have ended", true, func() bool { return pg.count(t, "run", "eventful") > 0 })
			if away != "broker" {
				dbProxy.Cut()
			}
			publish(1)
			if away != "broker" {
				testenv.Becomes(t, "the listener has noticed", true, func() bool { return testutil.ToFloat64(l.metrics.databaseErrors) > 0 })
			}
			if away != "database" {
				brokerProxy.Cut()
			}
			publish(2)
			dbProxy.Restore()
			brokerProxy.Restore()
			publish(3)
			publish(4)
			testenv.Becomes(t, "eventful runs", n, func() int { return pg.count(t, "run", "eventful") })
			testenv.Becomes(t, "messages in the queue", 0, func() int { return x.ready(t) })
		})
	}
}
