package main

import (
	"fmt"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
)

// Runners are killed or disconnected during deliveries, at random moments and with a full window of confirmed messages.
// In the end each task has one run and one message. Only messages in progress at a kill or disconnection were sent
// again.
func TestKilledRunnersRepeatOnlyMessagesInProgress(t *testing.T) {
	t.Parallel()
	const rounds, tasksARound = 10, 800
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	dsnThrough, database := testenv.Through(t, dsn, testenv.Proxy)
	urlThrough, broker := testenv.Through(t, mq.URL, testenv.BrokerProxy)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n",
		dsnThrough, urlThrough, mq.ManagementURL))

	conn := testenv.Connect(t, dsn)
	exec := func(statement string, args ...any) {
		t.Helper()
		testenv.Exec(t, conn, statement, args...)
	}
	exec("insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.load', null)")

	s := newSentAgain(t, dsn)
	random := seed.Rand(t)
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	hits, fullHands := 0, 0
	for round := range rounds {
		exec(`insert into task (type, arguments, next_run, current_interval, status, priority)
			select 'load-git', '{"args": [], "kwargs": {}}', now(), '1 day', 'next_run_not_scheduled',
			       case when n % 4 = 0 then 'normal'::task_priority end
			from generate_series(1, $1::int) n`, tasksARound)
		var reached <-chan struct{}
		switch round % 5 {
		case 2, 3:
			reached = broker.Hold(testenv.Publishes, random.IntN(tasksARound/4))
		case 4:
			exec("begin; lock table scheduler_go.deliveries in exclusive mode") // each commit of a batch writes to this table
		}
		normal := s.start("-C", config, "start-runner", "--period", "1")
		priority := s.start("-C", config, "start-runner", "--period", "1", "--with-priority")
		switch round % 5 {
		case 0, 1:
			normal.logs(t, "msg=started")
			priority.logs(t, "msg=started")
			pause(upTo(700 * time.Millisecond))
			if round%5 == 1 {
				s.cut(database, upTo(200*time.Millisecond), normal, priority)
				pause(upTo(300 * time.Millisecond))
			}
		case 2, 3:
			hits++
			s.await("a message is sent", func() bool { return closed(reached) })
			if round%5 == 3 {
				pause(500 * time.Millisecond) // meanwhile the runner must not record unsent messages as sent
				break
			}
			s.cut(broker, upTo(200*time.Millisecond), normal, priority)
			s.await("what was cut off is sent", func() bool { return s.waiting() == 0 })
		case 4:
			hits++
			s.await("both batches of both are confirmed", func() (all bool) {
				if err := conn.QueryRow(t.Context(), `select count(*) >= 4 from pg_locks where not granted and relation = 'scheduler_go.deliveries'::regclass
					and database = (select oid from pg_database where datname = current_database())`).Scan(&all); err != nil {
					t.Fatal(err)
				}
				return all
			})
			pause(200 * time.Millisecond) // meanwhile the runners must not claim more
		}
		inHand := s.kill(normal, priority)
		// Messages on their way in either direction are lost with the connections.
		broker.Cut()
		broker.Restore()
		if round%5 == 4 {
			exec("rollback")
			fullHands += inHand
		}
	}
	for _, option := range []string{"--without-priority", "--with-priority"} {
		if r := ours(t, "-C", config, "start-runner", option); r.code != 0 {
			t.Fatalf("start-runner %s: exit code %d\n%s", option, r.code, r.stderr)
		}
	}

	runs := testenv.Column[string](t, conn, "select backend_id from task_run")
	sent := map[string]int{}
	for _, queue := range []string{"swh.load", "save_code_now:swh.load"} {
		for id, n := range taskIDs(t, mq.URL, queue) {
			sent[id] += n
		}
	}
	again := s.check(sent, hits)
	if again < fullHands {
		t.Errorf("%d messages were sent again, though the broker had confirmed %d that were in hand at kills", again, fullHands)
	}
	const tasks = rounds * tasksARound
	var left, unscheduled, tasksWithRuns int
	if err := conn.QueryRow(t.Context(), `select (select count(*) from scheduler_go.work where state = 'outgoing'), (select count(*) from task where status <> 'next_run_scheduled'), count(distinct task) from task_run`).
		Scan(&left, &unscheduled, &tasksWithRuns); err != nil {
		t.Fatal(err)
	}
	if len(runs) != tasks || tasksWithRuns != tasks || unscheduled != 0 || left != 0 {
		t.Errorf("%d tasks have %d runs of %d tasks; %d tasks are not scheduled, %d messages in the outbox", tasks, len(runs), tasksWithRuns, unscheduled, left)
	}
	lost := 0
	for _, id := range runs {
		if sent[id] == 0 {
			lost++
		}
		delete(sent, id)
	}
	if lost > 0 || len(sent) > 0 {
		t.Errorf("the messages of %d runs were never sent; %d messages belong to no run", lost, len(sent))
	}
	t.Logf("%d tasks; %d rounds, in %d of which kills or cuts hit %d messages in hand; %d were sent again", tasks, rounds, s.hits, len(s.rows), again)
}

// pause lets the daemons work for a time, after which the test disturbs them. The random moment is part of the test.
func pause(d time.Duration) { <-time.After(d) }

// taskIDs empties a queue and counts its messages by task id.
func taskIDs(t *testing.T, brokerURL, queue string) map[string]int {
	t.Helper()
	ids := map[string]int{}
	for _, d := range testenv.Take(t, testenv.Channel(t, brokerURL), queue) {
		ids[d.CorrelationId]++
	}
	return ids
}
