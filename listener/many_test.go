package listener

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
)

// manyStarts returns a message with one event more than the bound for redelivered messages.
func manyStarts(t *testing.T) (body []byte, n int) {
	t.Helper()
	n = maxMessageEvents + 1
	events := make([]event, n)
	for i := range events {
		events[i] = event{"type": "task-started", "uuid": name("run", i)}
	}
	return message(t, events...), n
}

// A message with any number of events is applied in transactions of bounded size. It is acknowledged once, after
// all of them.
func TestAllEventsOfAMessageAreApplied(t *testing.T) {
	t.Parallel()
	body, n := manyStarts(t)
	store := &notebook{}
	source := &script{bodies: [][]byte{body, []byte("[]")}}
	l := newTestListener(t, source, store)
	stop := testenv.Run(t, l.Run)
	testenv.Becomes(t, "acknowledged", true, func() bool { return source.acks.Load() > 0 })
	stop()
	applied := 0
	for _, c := range store.calls {
		if applied += c.Outcomes; c.Outcomes > maxEvents {
			t.Errorf("%d outcomes in a transaction", c.Outcomes)
		}
	}
	if applied != n || source.acks.Load() > 2 {
		t.Errorf("%d of %d outcomes applied, %d acknowledgements", applied, n, source.acks.Load())
	}
}

// A redelivered message with too many events is set aside, because it may have killed a listener. Later messages
// are applied.
func TestManyEventsThatComeAgainAreSetAside(t *testing.T) {
	t.Parallel()
	pg, broker := ownDatabase(t), testenv.RabbitMQ(t)
	pg.addTasks(t, 2, "run")
	body, _ := manyStarts(t)
	x := newExchange(t, broker.URL)
	x.publish(t, body, message(t, resultEvent("run-1", true)))
	first := consumer(t, broker.URL)
	taken := make(chan celery.Delivery)
	stop := testenv.Run(t, func(ctx context.Context) error { return first.Run(ctx, taken) })
	if d := <-taken; d.Redelivered {
		t.Error("it has come before")
	}
	stop()
	_ = first.Close() // as a process that dies

	l := newTestListener(t, consumer(t, broker.URL), openStore(t, pg.dsn))
	start(t, l)
	testenv.Becomes(t, "runs that have ended", 1, func() int { return pg.count(t, "run-1", "eventful") })
	testenv.Becomes(t, "messages that are set aside", 1, func() int { return len(pg.rejections(t)) })
	got := pg.rejections(t)
	if len(got) != 1 || !strings.HasPrefix(got[0], `|[{"type":"task-started","uuid":"run-0"}`) || !strings.Contains(got[0], "more than 10000 events, delivered again") {
		t.Errorf("set aside: %.300q", got)
	}
	if n := testutil.ToFloat64(l.metrics.malformed.WithLabelValues(string(TooMany))); n != 1 || pg.count(t, "run-0", "scheduled") != 1 {
		t.Errorf("%v such messages are counted", n)
	}
}
