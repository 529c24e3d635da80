package dispatch_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/testenv"
)

// held waits until the broker's figures show that a queue holds so many messages, ready or unacknowledged.
func (b *bench) held(t *testing.T, queue string, want int) {
	t.Helper()
	testenv.Becomes(t, "messages of "+queue, want, func() int {
		length, err := b.inspector.Length(t.Context(), queue, 0)
		if err != nil {
			t.Fatal(err)
		}
		if length.Unknown {
			return -1
		}
		return length.Messages()
	})
}

// giveUp gives up the work that is silent some time after now.
func (l *laned) giveUp(after time.Duration) {
	l.t.Helper()
	m := maintenance.GiveUpWork{Store: l.store, Broker: l.inspector, Log: slog.New(slog.NewTextHandler(l.t.Output(), nil))}
	if _, err := m.GiveUp(l.t.Context(), l.now.Add(after)); err != nil {
		l.t.Fatal(err)
	}
}

// A worker receives a message that waited long in its queue, after the moment up to which events are known. It
// times out, and the event is unread: the message is not given up, and goes on in the next lane. Another message
// left the queue long ago, and its events are lost. It is given up ten minutes after an observation found it out
// of the queue.
func TestNothingIsGivenUpThatHasJustLeftItsQueue(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(30, 30)...)
	express := "express:" + lanedQueue
	l.claim(2)
	pieces := l.outboxOf(express)
	lost, waits := pieces[0].id, pieces[1].id
	l.sent()
	l.exec("update scheduler_go.work set since = since - case when task_id = $1 then interval '13 minutes' else '12 minutes' end", lost)
	queue, events := testenv.Channel(t, l.broker.URL), testenv.ListenerQueue(t, l.broker.URL)
	testenv.Declare(t, queue, express, nil)
	testenv.Put(t, queue, express, amqp.Publishing{})
	left := func(id uuid.UUID) int { return l.count("scheduler_go.work where state = 'sent' and task_id = $1", id) }
	known := func(after time.Duration) {
		l.exec("insert into scheduler_go.event_queues as q values ('celeryev.listener', $1) on conflict (queue) do update set complete = excluded.complete", l.now.Add(after))
	}
	known(0)
	l.held(t, express, 1)
	l.giveUp(0)

	testenv.Take(t, queue, express)
	l.held(t, express, 0)
	for minute := range 15 { // while no listener goes on
		l.giveUp(time.Duration(minute) * time.Minute)
		if left(waits) != 1 {
			t.Fatalf("after %d minutes it is given up, while its events are unread", minute)
		}
	}
	testenv.Put(t, events, "celeryev.listener", timeOut(t, waits, l.now))
	stop := l.listen()
	testenv.Becomes(t, "work in the next lane", 1, func() int {
		return l.count("scheduler_go.work where timed_out = 1 and state = 'backlog'")
	})
	stop()
	known(9 * time.Minute)
	if l.giveUp(15 * time.Minute); left(lost) != 1 {
		t.Error("what left its queue nine minutes before the moment is given up")
	}
	known(11 * time.Minute)
	if l.giveUp(15 * time.Minute); left(lost) != 0 {
		t.Error("what left its queue eleven minutes before the moment is not given up")
	}
}

// The silence of a message that was refused for an hour begins when it was sent. It doesn't prevent that messages
// sent meanwhile are given up.
func TestRefusedMessageIsSilentSinceItWasSent(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(30, 30)...)
	express := "express:" + lanedQueue
	l.claim(2)
	pieces := l.outboxOf(express)
	lost, refused := pieces[0].id, pieces[1].id
	l.exec("update scheduler_go.work set since = since - interval '1 hour', attempts = 5, not_before = 'infinity' where task_id = $1", refused)
	l.exec("update scheduler_go.work set since = since - interval '13 minutes', state = 'sent' where task_id = $1", lost)
	left := func(id uuid.UUID, after time.Duration) int {
		t.Helper()
		l.giveUp(after)
		return l.count("scheduler_go.work where task_id = $1", id)
	}
	left(lost, 0)
	if left(lost, 11*time.Minute) != 0 {
		t.Error("what is out of its queue is not given up while another message is on its way there")
	}
	l.exec("update scheduler_go.work set not_before = '-infinity'")
	stop := testenv.Run(t, l.deliverer.Run)
	testenv.Becomes(t, "messages sent", 1, func() int { return l.count("scheduler_go.work where state = 'sent'") })
	stop()
	testenv.Take(t, testenv.Channel(t, l.broker.URL), express)
	l.held(t, express, 0)
	if left(refused, 12*time.Minute) != 1 {
		t.Error("a message is given up that a worker has just taken: it was not in its queue before it was sent")
	}
}

// Claims run while a queue's messages are counted and compared with the ledger. No message that waits in the queue
// is given up.
func TestNothingIsGivenUpThatWaitsDuringClaims(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(1000, 30)...)
	express := "express:" + lanedQueue
	l.claim(10)
	l.sent()
	l.exec("update scheduler_go.work set since = since - interval '12 minutes'")
	queue := testenv.Channel(t, l.broker.URL)
	testenv.Declare(t, queue, express, nil)
	testenv.Put(t, queue, express, make([]amqp.Publishing, 10)...)
	l.held(t, express, 10)
	ctx, stop := context.WithCancel(t.Context())
	var claims sync.WaitGroup
	claims.Go(func() {
		for ctx.Err() == nil {
			l.claim(1)
		}
	})
	defer claims.Wait()
	defer stop()
	for hour := range 500 {
		l.giveUp(time.Duration(hour) * 10 * time.Minute)
		if n := l.count("scheduler_go.work where state = 'sent'"); n != 10 {
			t.Fatalf("%d of 10 messages are left after %d looks, all of which wait", n, hour+1)
		}
	}
}

// A message may return to its queue long after an observation found it out of it: a worker that acknowledges late
// died. It is not given up while the queue can hold it.
func TestNothingIsGivenUpThatReturnedToItsQueue(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(30, 30)...)
	express := "express:" + lanedQueue
	l.claim(2)
	pieces := l.outboxOf(express)
	returned, started := pieces[0].id, pieces[1].id
	l.sent()
	l.exec("update scheduler_go.work set since = since - interval '13 minutes' where task_id = $1", returned)
	l.apply(l.start(started)) // it is newer, and in no queue: it leaves the other one its place
	queue := testenv.Channel(t, l.broker.URL)
	testenv.Declare(t, queue, express, nil)
	left := func(after time.Duration) int {
		t.Helper()
		l.giveUp(after)
		return l.count("scheduler_go.work where task_id = $1", returned)
	}
	l.held(t, express, 0)
	left(0)
	testenv.Put(t, queue, express, amqp.Publishing{})
	l.held(t, express, 1)
	if left(11*time.Minute) != 1 {
		t.Error("it is given up while it waits in its queue again")
	}
	testenv.Take(t, queue, express)
	l.held(t, express, 0)
	if left(12*time.Minute) != 0 {
		t.Error("it is not given up once it is out of its queue")
	}
}

// A deliverer marks a message as sent with the moment of its statement, and commits after an observation. That doesn't
// count as an observation that the message left its queue.
func TestNothingIsGivenUpThatIsMarkedDuringAnObservation(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(30, 30)...)
	express := "express:" + lanedQueue
	l.claim(2)
	pieces := l.outboxOf(express)
	lost, marked := pieces[0].id, pieces[1].id
	l.exec("update scheduler_go.work set since = since - interval '13 minutes', state = 'sent' where task_id = $1", lost)
	left := func(after time.Duration) (n int) {
		t.Helper()
		l.giveUp(after)
		return l.count("scheduler_go.work where task_id = $1", marked)
	}
	left(0)
	l.exec("update scheduler_go.work set since = $2::timestamptz - interval '5 seconds', state = 'sent' where task_id = $1", marked, l.now)
	if left(11*time.Minute) != 1 {
		t.Error("a message is given up that the observation found on its way to the queue")
	}
	if left(23*time.Minute) != 0 {
		t.Error("it is not given up after an observation that it left its queue")
	}
}

// Work with a time limit of days is not given up before that.
func TestStartedWorkWithALongLimitIsNotGivenUp(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(1, 1)...)
	l.claim(1)
	l.sent()
	l.exec("update scheduler_go.work set since = since - interval '30 hours', started = extract(epoch from now() - interval '30 hours'), hard_limit = 2 * 86400")
	for _, c := range []struct {
		after time.Duration
		left  int
	}{{0, 1}, {19 * time.Hour, 0}} {
		l.giveUp(c.after)
		if n := l.count("scheduler_go.work"); n != c.left {
			t.Errorf("%d are underway %s after the start, want %d", n, 30*time.Hour+c.after, c.left)
		}
	}
}
