package dispatch_test

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/listener"
)

// timeOut is the event by which a worker reports that a task reached its soft limit.
func timeOut(t *testing.T, id uuid.UUID, at time.Time) amqp.Publishing {
	t.Helper()
	body, err := json.Marshal([]map[string]any{{
		"type": "task-failed", "uuid": id, "hostname": "w@h", "timestamp": model.UnixSeconds(at),
		"exception": "SoftTimeLimitExceeded()", "traceback": "SoftTimeLimitExceeded()",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return amqp.Publishing{ContentType: "application/json", Body: body}
}

// maintenance runs each maintenance job once.
func (l *laned) maintenance() {
	l.t.Helper()
	l.exec("insert into scheduler_go.configured_lanes (lane_set, seen) values ('load-git', now()) on conflict (lane_set) do update set seen = now()")
	log := slog.New(slog.NewTextHandler(l.t.Output(), nil))
	unheard := maintenance.GiveUpWork{Store: l.store, Broker: l.inspector, Log: log}
	removed := maintenance.RemovedLanes{Store: l.store, Slots: l.slots, Log: log}
	for _, job := range []maintenance.Job{
		maintenance.Events(l.store, l.inspector), unheard.Job(), removed.Job(), maintenance.LowWater(l.store), maintenance.BelowLowWater(l.store, log),
	} {
		if _, err := job.Do(l.t.Context()); err != nil {
			l.t.Errorf("%s: %v", job.Name, err)
		}
	}
}

// begun claims n visits that workers begin, and dates all of that back. It returns their ids.
func (l *laned) begun(n int, ago time.Duration) []uuid.UUID {
	l.t.Helper()
	l.claim(n)
	var ids []uuid.UUID
	for _, p := range l.outboxOf("express:" + lanedQueue) {
		l.apply(l.start(p.id))
		ids = append(ids, p.id)
	}
	l.sent()
	l.exec("update scheduler_go.work set claimed = claimed - $1::interval, since = since - $1::interval, started = started - extract(epoch from $1::interval)", ago)
	return ids
}

// listen runs a listener on the queue of events.
func (l *laned) listen() (stop func()) {
	l.t.Helper()
	log, broker := slog.New(slog.NewTextHandler(l.t.Output(), nil)), parsed.Broker(l.t, l.broker.URL)
	consumer := celery.NewConsumer(broker, listener.ConsumerOptions(log))
	n := listener.New(listener.Options{
		Source: consumer, Store: settle.Store{Store: l.store}, Log: log, Registerer: prometheus.NewRegistry(),
	})
	progress := listener.Progress{ProgressOptions: listener.ProgressOptions{Consumer: consumer, Store: l.store, Log: log}}
	ends, stopProgress := testenv.Run(l.t, n.Run), testenv.Run(l.t, progress.Run)
	return func() { stopProgress(); ends() }
}

// While no listener runs, work whose time-outs are unread is not given up, however long ago it ended. Once a
// listener has read them, it goes on in the next lane. Work whose events are lost is given up then.
func TestNothingIsGivenUpWhileItsEventsAreUnread(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(30, 30)...)
	ids := l.begun(21, 12*time.Minute)
	events := testenv.ListenerQueue(t, l.broker.URL)
	for _, id := range ids[:20] {
		testenv.Put(t, events, "celeryev.listener", timeOut(t, id, l.now.Add(-11*time.Minute)))
	}
	for range 2 {
		l.maintenance()
	}
	if n := l.count("scheduler_go.work where state = 'sent'"); n != 21 {
		t.Errorf("%d of 21 messages are left, while the events of their ends are unread", n)
	}
	stop := l.listen()
	testenv.Becomes(t, "work in the next lane", 20, func() int {
		return l.count("scheduler_go.work where timed_out = 1 and state = 'backlog'")
	})
	stop()
	testenv.Becomes(t, "work whose events are lost", 0, func() int {
		l.maintenance()
		return l.count("scheduler_go.work where task_id = $1", ids[20])
	})
}

// The ceiling of a hoster stays closed while the events of its visits are unread.
func TestCeilingsStayClosedWhileEventsAreUnread(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(30, 30)...)
	l.begun(3, 25*time.Hour)
	l.exec("update scheduler_go.work set hosters = '{forge.example}', soft_limit = null, hard_limit = null")
	limits := model.Hosters{LostAfter: 24 * time.Hour}
	inFlight := func() int {
		l.maintenance()
		loads, err := l.store.HosterLoads(t.Context(), limits, nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return loads["forge.example"].InFlight
	}
	events := testenv.ListenerQueue(t, l.broker.URL)
	testenv.Put(t, events, "celeryev.listener", amqp.Publishing{Body: []byte("{}")})
	// An hour ago all was known.
	l.exec("insert into scheduler_go.event_queues (queue, complete) values ('celeryev.listener', now() - interval '2 hours')")
	if n := inFlight(); n != 3 {
		t.Errorf("%d visits are in flight, want 3", n)
	}
	testenv.Take(t, events, "celeryev.listener")
	testenv.Becomes(t, "visits in flight once all events are read", 0, inFlight)
}
