package maintenance

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/sql/db"
)

// storeAfter returns the store of a new database after a statement.
func storeAfter(t *testing.T, statement string) *db.Store {
	t.Helper()
	store := testenv.Open(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), statement)
	return store
}

// aYearOld makes a run of task type a that started a year ago.
const aYearOld = `
	with tt as (insert into task_type (type, description, backend_name) values ('a', '', 'swh.a') returning type),
	     t as (insert into task (type, arguments, next_run, status, policy) select type, '{}', now(), 'next_run_scheduled', 'oneshot' from tt returning id)
	insert into task_run (task, backend_id, scheduled, started, status) select id, 'x', now() - interval '1 year', now() - interval '1 year', 'started' from t`

func inspectorOf(t *testing.T, broker testenv.Broker) *celery.QueueInspector {
	t.Helper()
	inspector := celery.NewQueueInspector(parsed.Broker(t, broker.URL), broker.ManagementURL, celery.InspectorOptions{})
	t.Cleanup(func() { _ = inspector.Close() })
	return inspector
}

func lostRuns(t *testing.T, o LostOptions) *LostRuns {
	o.Log, o.Reg = slog.New(slog.NewTextHandler(t.Output(), nil)), prometheus.NewRegistry()
	return NewLostRuns(o)
}

// A run is given up if it was silent for its type's time and no worker can find it: it was started, or it left its
// queue, which is empty. Its task is retried, or not, by its type's rules for a failure. Every other run is left
// alone.
func TestSilentRunsAreLostOnce(t *testing.T) {
	t.Parallel()
	store := storeAfter(t, `
		insert into task_type (type, description, backend_name) values
			('quick', '', 'swh.quick'), ('slow', '', 'swh.slow'), ('kept', '', 'swh.kept'), ('queued', '', 'swh.queued');
		-- Runs by task: what they are, of which type, how old, with how many retries.
		with cases(id, type, status, age, retries, policy, priority) as (values
			(1, 'quick', 'started', interval '2 hours', 1, 'oneshot', null),
			(2, 'quick', 'started', interval '2 hours', 0, 'oneshot', null),
			(3, 'quick', 'scheduled', interval '2 hours', 0, 'recurring', null),
			(4, 'quick', 'started', interval '30 min', 0, 'oneshot', null),
			(5, 'quick', 'eventful', interval '2 hours', 0, 'oneshot', null),
			(6, 'slow', 'started', interval '2 hours', 0, 'oneshot', null),
			(7, 'slow', 'started', interval '11 hours', 0, 'oneshot', null),
			(8, 'queued', 'scheduled', interval '11 hours', 0, 'oneshot', null),
			(9, 'queued', 'started', interval '11 hours', 0, 'oneshot', null),
			(10, 'queued', 'scheduled', interval '11 hours', 0, 'oneshot', 'high'),
			(11, 'quick', 'scheduled', interval '2 hours', 0, 'oneshot', null),
			(12, 'quick', 'scheduled', interval '2 hours', 0, 'oneshot', null),
			(13, 'quick', 'scheduled', interval '2 hours', 0, 'oneshot', null),
			(14, 'quick', 'started', interval '2 hours', 0, 'oneshot', null),
			(15, 'quick', 'started', interval '2 hours', 0, 'recurring', null)
		), tasks as (
			insert into task (id, type, arguments, next_run, current_interval, status, policy, retries_left, priority)
			select id, type, '{}', now(), '1 day', 'next_run_scheduled', policy::task_policy, retries, priority::task_priority from cases
		)
		insert into task_run (task, backend_id, scheduled, started, status)
		select id, '00000000-0000-0000-0000-0000000000' || lpad(id::text, 2, '0'), now() - age,
		       case when status <> 'scheduled' then now() - age end, status::task_run_status from cases;
		-- One was claimed and never sent.
		insert into scheduler_go.work (queue, task_id, task_name, args, kwargs)
			values ('swh.quick', '00000000-0000-0000-0000-000000000011', 'swh.quick', '[]', '{}');
		-- One waits for a slot of its lane, and one in its lane's queue.
		insert into scheduler_go.work (queue, home, task_id, state, task_name, args, kwargs, since, lane_set, lane, lane_name, memory, lister, first, behind) values
			('swh.quick', 'swh.quick', '00000000-0000-0000-0000-000000000012', 'backlog', 'swh.quick', '[]', '{}', now() - interval '2 hours', 'quick', 1, 'slow', 0, '', false, 0),
			('express:swh.quick', 'swh.quick', '00000000-0000-0000-0000-000000000013', 'sent', 'swh.quick', '[]', '{}', now() - interval '2 hours', 'quick', 0, 'express', 0, '', false, 0);
		-- One waited long in its queue, and started lately.
		update task_run set started = now() - interval '30 min' where task = 14;
		-- One's task was disabled meanwhile; the end of its run would enable it.
		update task set status = 'disabled' where id = 15`)
	mq := testenv.RabbitMQ(t)
	// Any run's message may be in a queue that isn't empty.
	ch := testenv.Channel(t, mq.URL)
	testenv.Declare(t, ch, "swh.queued", nil)
	testenv.Put(t, ch, "swh.queued", amqp.Publishing{})
	l := lostRuns(t, LostOptions{
		Store: store, Broker: inspectorOf(t, mq),
		After: map[string]time.Duration{"quick": time.Hour, "default": 10 * time.Hour},
	})
	want := []string{
		"1 lost next_run_not_scheduled 0", // the retry is used
		"10 lost disabled 0",              // its own queue is empty
		"11 scheduled next_run_scheduled 0",
		"12 scheduled next_run_scheduled 0",
		"13 scheduled next_run_scheduled 0",
		"14 started next_run_scheduled 0",
		"15 started disabled 0",
		"2 lost disabled 0",
		"3 lost next_run_not_scheduled 0",
		"4 started next_run_scheduled 0",
		"5 eventful next_run_scheduled 0",
		"6 started next_run_scheduled 0",
		"7 lost disabled 0",
		"8 scheduled next_run_scheduled 0",
		"9 lost disabled 0",
	}
	for sweep, lost := range []int{4, 2, 0} { // the second sweep gives up runs that the first one found out of their queue
		sweepAgain(t, store)
		n, err := l.RunOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if sweep == 0 {
			if n != lost {
				t.Errorf("%d runs lost, want %d, those that started", n, lost)
			}
			continue
		}
		got := testenv.Column[string](t, store.Pool(), `select t.id || ' ' || r.status || ' ' || t.status || ' ' || t.retries_left
			from task t join task_run r on r.task = t.id order by t.id::text`)
		if diff := cmp.Diff(want, got); diff != "" || n != lost {
			t.Errorf("%d runs lost, want %d (-want +got):\n%s", n, lost, diff)
		}
	}
}

// An old run of a task that was respawned is no reason to move the task on: its newer run is under way. So a purged
// message's run doesn't disable the task, and the task isn't sent a third time.
func TestRunsBeforeARespawnAreLeftAlone(t *testing.T) {
	t.Parallel()
	store := storeAfter(t, `
		insert into task_type (type, description, backend_name, num_retries) values ('a', '', 'swh.a', 1);
		insert into task (id, type, arguments, next_run, status, policy, retries_left) values
			(1, 'a', '{}', now(), 'next_run_scheduled', 'oneshot', 0), (2, 'a', '{}', now(), 'next_run_scheduled', 'oneshot', 1);
		insert into task_run (task, backend_id, scheduled, started, status)
		select id, gen_random_uuid()::text, now() - age, case when age < '1 hour' then now() - age end, (case when age < '1 hour' then 'started' else 'scheduled' end)::task_run_status
		from task, unnest(array['2 hours', '1 minute']::interval[]) age order by age desc`)
	l := lostRuns(t, LostOptions{
		Store: store, Broker: inspectorOf(t, testenv.RabbitMQ(t)), After: map[string]time.Duration{"a": time.Hour},
	})
	for range 3 {
		sweepAgain(t, store)
		if _, err := l.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := testenv.Column[string](t, store.Pool(), "select id || ' ' || status || ' ' || retries_left from task order by id")
	if diff := cmp.Diff([]string{"1 next_run_scheduled 0", "2 next_run_scheduled 1"}, got); diff != "" {
		t.Errorf("the tasks whose second run is under way (-want +got):\n%s", diff)
	}
}

// While a queue can't be observed, its runs are not lost, however old, started or not. Runs of other types are. While
// the number of messages that workers hold is unknown, no run without a start is lost.
func TestRunsOfAnUnobservableQueueAreNotLost(t *testing.T) {
	t.Parallel()
	store := storeAfter(t, `
		with tt as (insert into task_type (type, description, backend_name) values ('a', '', 'swh.a'), ('b', '', 'swh.b') returning type),
		     t as (insert into task (type, arguments, next_run, status, policy)
		           select type, '{}', now(), 'next_run_scheduled', 'oneshot' from tt, generate_series(1, 2) returning id, type)
		insert into task_run (task, backend_id, scheduled, started, status)
		select id, gen_random_uuid()::text, now() - interval '1 year', case when started then now() - interval '1 year' end, (case when started then 'started' else 'scheduled' end)::task_run_status
		from (select id, row_number() over (partition by type order by id) = 1 as started from t) x`)
	mq := testenv.RabbitMQ(t)
	ch := testenv.Channel(t, mq.URL)
	if _, err := ch.QueueDeclare("swh.a", true, false, true, false, nil); err != nil { // for this connection only
		t.Fatal(err)
	}
	lost := func(managementURL string) (int, error) {
		inspector := inspectorOf(t, testenv.Broker{URL: mq.URL, ManagementURL: managementURL})
		defer inspector.Close()
		l := lostRuns(t, LostOptions{
			Store: store, Broker: inspector, After: map[string]time.Duration{"default": time.Hour},
		})
		sweepAgain(t, store)
		first, err := l.RunOnce(t.Context())
		sweepAgain(t, store)
		n, again := l.RunOnce(t.Context())
		return first + n, errors.Join(err, again)
	}
	if n, err := lost(mq.ManagementURL); n != 2 || !celery.IsOfQueue(err) {
		t.Errorf("%d runs lost, %v, want the two of the other queue", n, err)
	}
	if _, err := ch.QueueDelete("swh.a", false, false, false); err != nil {
		t.Fatal(err)
	}
	testenv.Declare(t, ch, "swh.a", nil)
	if n, err := lost("http://127.0.0.1:1"); n != 1 || err != nil {
		t.Errorf("%d runs lost without the management API, %v, want the started one", n, err)
	}
	// The management API has no counts of a new queue.
	testenv.Becomes(t, "lost runs", 1, func() int {
		n, err := lost(mq.ManagementURL)
		if err != nil {
			t.Fatal(err)
		}
		return n
	})
}

// unreachableLengths fails for every queue, as if the broker were down.
type unreachableLengths struct{}

func (unreachableLengths) Length(context.Context, string, int) (celery.QueueLength, error) {
	return celery.QueueLength{}, errors.New("the broker is unreachable")
}

// A sweep that an outage of the broker ended continues where it stopped.
func TestSweepGoesOnAfterAnOutage(t *testing.T) {
	t.Parallel()
	store := storeAfter(t, aYearOld)
	l := lostRuns(t, LostOptions{
		Store: store, Broker: unreachableLengths{},
		After: map[string]time.Duration{"default": time.Hour},
	})
	if n, err := l.RunOnce(t.Context()); n != 0 || err == nil {
		t.Errorf("%d runs lost, %v, while the broker is unreachable", n, err)
	}
	l.Broker = inspectorOf(t, testenv.RabbitMQ(t))
	if n, err := l.RunOnce(t.Context()); n != 1 || err != nil {
		t.Errorf("%d runs lost, %v, once it is back", n, err)
	}
}

// Without lost_after nothing is given up.
func TestNoRunIsLostUnlessAskedFor(t *testing.T) {
	t.Parallel()
	l := lostRuns(t, LostOptions{Store: storeAfter(t, aYearOld), After: map[string]time.Duration{"b": time.Hour}})
	if n, err := l.RunOnce(t.Context()); n != 0 || err != nil {
		t.Errorf("%d runs lost, %v", n, err)
	}
}

// Runs of the Python runner are counted and left alone. Runs that were sent before our runner began are given up only
// if they were sent before LostOptions.Before. If another scheduler sends in between, our start moves. The first
// sweep by changed rules comes at once, and the log has the number of runs left alone once.
func TestRunsOfAnotherSchedulerAreLeftAlone(t *testing.T) {
	t.Parallel()
	store := storeAfter(t, `
		insert into task_type (type, description, backend_name) values ('a', '', 'swh.a');
		insert into task (id, type, arguments, next_run, status, policy, priority)
			select id, 'a', '{}', now(), 'next_run_scheduled', 'oneshot', case when id > 5 then 'high'::task_priority end from generate_series(1, 7) id;
		insert into task_run (task, backend_id, scheduled, started, status)
			select id, id::text, now() - age, now() - age, 'started' from (values (1, interval '1 year'), (2, '10 days'), (3, '2 days'), (6, '10 days')) r(id, age)`)
	var log testenv.Buffer
	l := lostRuns(t, LostOptions{Store: store, Broker: inspectorOf(t, testenv.RabbitMQ(t)), After: map[string]time.Duration{"default": time.Hour}})
	l.Log = slog.New(slog.NewTextHandler(&log, nil))
	exec := func(statement string) { testenv.Exec(t, store.Pool(), statement) }
	note := func(withPriority bool) {
		t.Helper()
		if err := store.NoteSending(t.Context(), withPriority); err != nil {
			t.Fatal(err)
		}
	}
	sweep := func(what string, lost, left int) {
		t.Helper()
		n, err := l.RunOnce(t.Context())
		found, foundErr := store.SilentRuns(t.Context())
		if n != lost || found.Left != left || errors.Join(err, foundErr) != nil {
			t.Errorf("%s: %d runs lost and %d left alone, want %d and %d: %v, %v", what, n, found.Left, lost, left, err, foundErr)
		}
	}
	note(false)
	exec("update scheduler_go.sending set since = now() - interval '3 days'") // it has sent run 3
	sweep("first", 1, 3)
	if said := log.String(); !strings.Contains(said, "silent runs are left alone") || !strings.Contains(said, "runs=3") {
		t.Error(said)
	}
	sweepAgain(t, store)
	sweep("again", 0, 3)
	if n := strings.Count(log.String(), "left alone"); n != 1 {
		t.Errorf("said %d times, want once", n)
	}
	l.Before = time.Now().Add(-30 * 24 * time.Hour)
	sweep("also those of a month ago", 1, 2)

	// Our runner was down for an hour, first without another scheduler, then with one.
	exec("insert into task_run (task, backend_id, scheduled, started, status) values (4, '4', now() - interval '3 hours', now() - interval '2 hours', 'started')")
	exec("update scheduler_go.sending set seen = now() - interval '2 hours', last_run = (select max(id) from task_run)")
	note(false)
	sweepAgain(t, store)
	sweep("after an absence", 1, 2)
	exec("update scheduler_go.sending set seen = now() - interval '2 hours', last_run = (select max(id) from task_run)")
	exec("insert into task_run (task, backend_id, scheduled, started, status) values (5, '5', now() - interval '70 minutes', now() - interval '70 minutes', 'started'), (7, '7', now() - interval '70 minutes', null, 'scheduled')")
	note(false)
	sweep("after another scheduler", 0, 4)
	if since, err := store.SendingSince(t.Context()); err != nil || len(since) != 1 || time.Since(since[false]) > time.Hour {
		t.Error(since, err)
	}
	l.Before = time.Now()
	sweep("all", 4, 0)
}

// sweepAgain makes the next sweep due, eleven minutes after the last one.
func sweepAgain(t *testing.T, store *db.Store) {
	t.Helper()
	testenv.Exec(t, store.Pool(), "update scheduler_go.walks set began = 'epoch'")
	testenv.Exec(t, store.Pool(), "update scheduler_go.queue_looks set looked = looked - interval '11 minutes', sent_before = sent_before - interval '11 minutes'")
}

// What a runner of ours claimed between its last note and its end is no sign of another scheduler, and neither are runs
// of the other kind of runner. Otherwise its runs would be left alone.
func TestSendingGoesOnWithoutAnotherScheduler(t *testing.T) {
	t.Parallel()
	store := storeAfter(t, `
		insert into task_type (type, description, backend_name) values ('a', '', 'swh.a');
		insert into task (id, type, arguments, next_run, status, policy, priority)
			select id, 'a', '{}', now(), 'next_run_scheduled', 'oneshot', case id when 2 then 'high'::task_priority end from generate_series(1, 3) id`)
	note := func() time.Time {
		t.Helper()
		if err := store.NoteSending(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		since, err := store.SendingSince(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return since[false]
	}
	began := note()
	testenv.Exec(t, store.Pool(), "update scheduler_go.sending set seen = now() - interval '1 hour'")
	testenv.Exec(t, store.Pool(), "insert into task_run (task, scheduled, status) values (1, now() - interval '59 minutes', 'scheduled'), (2, now() - interval '30 minutes', 'scheduled')")
	if since := note(); !since.Equal(began) {
		t.Error("without another scheduler, sending began anew")
	}
	testenv.Exec(t, store.Pool(), "update scheduler_go.sending set seen = now() - interval '1 hour'")
	testenv.Exec(t, store.Pool(), "insert into task_run (task, scheduled, status) values (3, now() - interval '57 minutes', 'scheduled')")
	if since := note(); since.Equal(began) {
		t.Error("after another scheduler, sending didn't begin anew")
	}
}

// Runs whose events are unread are not lost, however long ago they ended.
func TestRunsWhoseEventsAreUnreadAreNotLost(t *testing.T) {
	t.Parallel()
	store := storeAfter(t, strings.ReplaceAll(aYearOld, "1 year", "61 minutes"))
	mq := testenv.RabbitMQ(t)
	queue := testenv.ListenerQueue(t, mq.URL)
	testenv.Put(t, queue, "celeryev.listener", amqp.Publishing{Body: []byte("{}")})
	inspector := inspectorOf(t, mq)
	events := Events(store, inspector)
	l := lostRuns(t, LostOptions{Store: store, Broker: inspector, After: map[string]time.Duration{"default": time.Hour}})
	lost := func() int {
		if _, err := events.Do(t.Context()); err != nil {
			t.Fatal(err)
		}
		sweepAgain(t, store)
		n, err := l.RunOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 2 {
		if n := lost(); n != 0 {
			t.Fatalf("%d runs are lost, whose events are unread", n)
		}
	}
	testenv.Take(t, queue, "celeryev.listener")
	testenv.Becomes(t, "lost runs once all events are read", 1, lost)
}

// A lost run's message leaves the ledger. It leaves its group's ceiling, and the group is charged.
func TestMessagesOfLostRunsLeaveTheLedger(t *testing.T) {
	t.Parallel()
	store := storeAfter(t, strings.ReplaceAll(aYearOld, "'x'", "'00000000-0000-0000-0000-000000000001'"))
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, since, started, share_group, cost)
		select id, 'sent', 'swh.a', 'swh.a', 'swh.a', '[]', '{}', now() - interval '1 hour', extract(epoch from now()) - 3600, 'g', 7
		from unnest('{00000000-0000-0000-0000-000000000001, 00000000-0000-0000-0000-000000000002}'::uuid[]) id`)
	l := lostRuns(t, LostOptions{
		Store: store, Broker: inspectorOf(t, testenv.RabbitMQ(t)), After: map[string]time.Duration{"default": time.Hour},
	})
	if n, err := l.RunOnce(t.Context()); n != 1 || err != nil {
		t.Fatalf("%d runs lost, %v", n, err)
	}
	got := testenv.Column[string](t, store.Pool(), `select task_id::text from scheduler_go.work
		union all select queue || ' ' || share_group || ' ' || seconds || ' ' || pieces from scheduler_go.share_charges`)
	if diff := cmp.Diff([]string{"00000000-0000-0000-0000-000000000002", "swh.a g 7 1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A run whose message was queued for long is not lost when a worker has just taken it: the event of its start may be
// unread. It is lost ten minutes after a sweep found the queue empty, when the start would be known.
func TestRunsThatHaveJustLeftTheirQueueAreNotLost(t *testing.T) {
	t.Parallel()
	store := storeAfter(t, strings.NewReplacer("now() - interval '1 year', 'started'", "null, 'scheduled'", "1 year", "2 hours").Replace(aYearOld))
	known := func(at string) {
		testenv.Exec(t, store.Pool(), "insert into scheduler_go.event_queues as q values ('celeryev.listener', "+at+") on conflict (queue) do update set complete = excluded.complete")
	}
	mq := testenv.RabbitMQ(t)
	inspector := inspectorOf(t, mq)
	ch := testenv.Channel(t, mq.URL)
	testenv.Declare(t, ch, "swh.a", nil)
	testenv.Put(t, ch, "swh.a", amqp.Publishing{})
	l := lostRuns(t, LostOptions{Store: store, Broker: inspector, After: map[string]time.Duration{"default": time.Hour}})
	sweep := func(what string, want int) {
		t.Helper()
		sweepAgain(t, store)
		if n, err := l.RunOnce(t.Context()); n != want || err != nil {
			t.Fatalf("%s: %d runs lost, %v, want %d", what, n, err, want)
		}
	}
	empty := func(queue string) {
		testenv.Becomes(t, "whether it is known that "+queue+" is empty", true, func() bool {
			length, err := inspector.Length(t.Context(), queue, 0)
			return err == nil && !length.Unknown && length.Messages() == 0
		})
	}
	known("clock_timestamp()")
	sweep("while the message waits", 0)
	testenv.Take(t, ch, "swh.a")
	empty("swh.a")
	sweep("when a worker has taken it", 0)
	known("(select max(looked) - interval '2 minutes' from scheduler_go.queue_looks)")
	sweep("while no listener goes on", 0)
	known("clock_timestamp()")
	// The next message may be in the queue or outgoing.
	testenv.Put(t, ch, "swh.a", amqp.Publishing{})
	sweep("while there are messages again", 0)
	testenv.Take(t, ch, "swh.a")
	empty("swh.a")
	sweep("once all is known", 1)
}

// A run is not lost while a worker holds its message, as one that prefetches does: no message is ready, and the run has not
// started.
func TestRunsWhoseMessagesWorkersHoldAreNotLost(t *testing.T) {
	t.Parallel()
	store := storeAfter(t, strings.NewReplacer("now() - interval '1 year', 'started'", "null, 'scheduled'", "1 year", "2 hours").Replace(aYearOld))
	mq := testenv.RabbitMQ(t)
	inspector := inspectorOf(t, mq)
	ch := testenv.Channel(t, mq.URL)
	testenv.Declare(t, ch, "swh.a", nil)
	testenv.Put(t, ch, "swh.a", amqp.Publishing{})
	held, ok, err := ch.Get("swh.a", false)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	holds := func(want int) {
		t.Helper()
		testenv.Becomes(t, "messages that workers hold", want, func() int {
			length, err := inspector.Length(t.Context(), "swh.a", 0)
			if err != nil || length.Unknown {
				return -1
			}
			return length.Messages()
		})
	}
	holds(1)
	l := lostRuns(t, LostOptions{Store: store, Broker: inspector, After: map[string]time.Duration{"default": time.Hour}})
	sweeps := func() (lost int) {
		t.Helper()
		for range 2 {
			sweepAgain(t, store)
			n, err := l.RunOnce(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			lost += n
		}
		return lost
	}
	if n := sweeps(); n != 0 {
		t.Errorf("%d runs are lost while a worker holds the message", n)
	}
	if err := held.Ack(false); err != nil {
		t.Fatal(err)
	}
	holds(0)
	if n := sweeps(); n != 1 {
		t.Errorf("%d runs are lost once no worker holds the message, want 1", n)
	}
}

// An observation of an empty queue proves nothing about messages that were on their way to it: they were claimed shortly
// before, or the broker refused one for hours. When a worker takes them from the queue later, their runs are not lost.
func TestRunsOnTheirWayToAnEmptyQueueAreNotLost(t *testing.T) {
	t.Parallel()
	const runs = `insert into task_type (type, description, backend_name) values ('a', '', 'swh.a');
		insert into task (id, type, arguments, next_run, status, policy) select n, 'a', '{}', now(), 'next_run_scheduled', 'oneshot' from generate_series(1, 2) n;
		insert into task_run (task, backend_id, scheduled, status) values
			(1, '00000000-0000-0000-0000-000000000001', now() - interval '3 hours', 'scheduled'),
			(2, '00000000-0000-0000-0000-000000000002', now() - interval '`
	for name, c := range map[string]struct{ before, after string }{
		"claimed shortly before": {runs + "5 minutes', 'scheduled')", "select"},
		"refused for hours": {runs + `2 hours', 'scheduled');
			insert into scheduler_go.work (task_id, queue, task_name, args, kwargs, claimed)
				values ('00000000-0000-0000-0000-000000000002', 'swh.a', 'swh.a', '[]', '{}', now() - interval '2 hours')`, "delete from scheduler_go.work"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := storeAfter(t, c.before)
			l := lostRuns(t, LostOptions{Store: store, Broker: inspectorOf(t, testenv.RabbitMQ(t)), After: map[string]time.Duration{"default": time.Minute}})
			for sweep, want := range []int{0, 1, 1} { // the first run, and eleven minutes later the second one
				if sweep > 0 {
					sweepAgain(t, store)
					testenv.Exec(t, store.Pool(), "update task_run set scheduled = scheduled - interval '11 minutes'")
				}
				n, err := l.RunOnce(t.Context())
				if n != want || err != nil {
					t.Errorf("sweep %d: %d runs are lost, want %d: %v", sweep, n, want, err)
				}
				if sweep == 0 { // the message is delivered, and a worker takes it
					testenv.Exec(t, store.Pool(), c.after)
				}
			}
		})
	}
}

// A run that PostgreSQL refuses to end, as its type's delay exceeds the range of dates, doesn't stop the others.
func TestRefusedRunDoesNotStopLostRuns(t *testing.T) {
	t.Parallel()
	store := storeAfter(t, "insert into task_type (type, description, backend_name, num_retries, retry_delay) values ('a', '', 'swh.a', 3, '1 hour'), ('odd', '', 'swh.odd', 3, '293000 years')")
	testenv.Exec(t, store.Pool(), `insert into task (id, type, arguments, next_run, current_interval, status, retries_left)
		select n, case n when 3 then 'odd' else 'a' end, '{}', now(), '1 day', 'next_run_scheduled', 3 from generate_series(1, 6) n`)
	testenv.Exec(t, store.Pool(), `insert into task_run (task, backend_id, scheduled, started, status)
		select n, 'run ' || n, now() - interval '3 days', now() - interval '3 days', 'started' from generate_series(1, 6) n`)
	l := lostRuns(t, LostOptions{Store: store, Broker: noLengths{}, After: map[string]time.Duration{"default": time.Hour}})
	n, err := l.RunOnce(t.Context())
	if n != 5 || err != nil {
		t.Errorf("%d of 5 runs were given up: %v", n, err)
	}
}

type noLengths struct{}

func (noLengths) Length(context.Context, string, int) (celery.QueueLength, error) {
	return celery.QueueLength{}, nil
}

// A batch of lost runs that times out is split.
func TestLostRunsAreSplitAfterATimeout(t *testing.T) {
	t.Parallel()
	store := storeAfter(t, "insert into task_type (type, description, backend_name, num_retries, retry_delay) values ('a', '', 'swh.a', 3, '1 hour')")
	exec := func(statement string) { testenv.Exec(t, store.Pool(), statement) }
	exec(`insert into task (id, type, arguments, next_run, current_interval, status, retries_left)
		select n, 'a', '{}', now(), '1 day', 'next_run_scheduled', 3 from generate_series(1, 100) n`)
	exec(`insert into task_run (task, backend_id, scheduled, started, status)
		select n, 'run ' || n, now() - interval '3 days', now() - interval '3 days', 'started' from generate_series(1, 100) n`)
	exec(`create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.02); return new; end $$`)
	exec("create trigger slow before insert or update on task_run for each row execute function slow()")
	exec(`do $$ begin execute format('alter database %I set statement_timeout = ''1s''', current_database()); end $$`)
	store.Pool().Reset() // new connections
	l := lostRuns(t, LostOptions{Store: store, Broker: noLengths{}, After: map[string]time.Duration{"default": time.Hour}})
	given := 0
	testenv.Becomes(t, "runs given up", 100, func() int {
		n, err := l.RunOnce(t.Context())
		if given += n; err != nil {
			t.Log(err)
		}
		return given
	})
}
