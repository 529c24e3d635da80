package main

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
)

// through replaces the host and port of a URL by those of a proxy to them.
func through(t *testing.T, address string) (proxied string, proxy *testenv.Toxic) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy = testenv.Proxy(t, u.Host)
	u.Host = proxy.Addr
	return u.String(), proxy
}

// Runners killed at random instants, and cut off from PostgreSQL or the broker
// at others, for some seconds while tasks keep coming: in the end every task has
// one run and its message is in the queue, and what is there twice has the same
// task id.
func TestKilledRunnersLoseNothingAndSendNothingTwice(t *testing.T) {
	t.Parallel()
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	dsnThrough, database := through(t, dsn)
	urlThrough, broker := through(t, mq.URL)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n",
		dsnThrough, urlThrough, mq.ManagementURL))

	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	exec := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.load', null)")

	random := seed.Rand(t)
	kills, tasks := 0, 0
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); kills++ {
		// Arguments of some size, so that a batch takes a moment.
		exec(`insert into task (type, arguments, next_run, current_interval, status, priority)
			select 'load-git', jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('x', repeat('x', 3000))), now(), '1 day', 'next_run_not_scheduled',
			       case when n % 4 = 0 then 'normal'::task_priority end
			from generate_series(1, 400) n`)
		tasks += 400
		normal := start(t, "-C", config, "start-runner", "--period", "1")
		priority := start(t, "-C", config, "start-runner", "--period", "1", "--with-priority")
		pause(time.Duration(random.IntN(700)) * time.Millisecond)
		switch kills % 3 {
		case 1:
			database.Cut()
			pause(time.Duration(random.IntN(200)) * time.Millisecond)
			database.Restore()
		case 2:
			broker.Cut()
			pause(time.Duration(random.IntN(200)) * time.Millisecond)
			broker.Restore()
		}
		for _, p := range []*process{normal, priority} {
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-p.done
		}
	}
	for _, option := range []string{"--without-priority", "--with-priority"} {
		if r := ours(t, "-C", config, "start-runner", option); r.code != 0 {
			t.Fatalf("start-runner %s: exit code %d\n%s", option, r.code, r.stderr)
		}
	}

	rows, err := conn.Query(t.Context(), "select backend_id from task_run")
	if err != nil {
		t.Fatal(err)
	}
	runs, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	sent := map[string]int{}
	for _, queue := range []string{"swh.load", "save_code_now:swh.load"} {
		for id, n := range taskIDs(t, mq.URL, queue) {
			sent[id] += n
		}
	}
	messages := 0
	for _, n := range sent {
		messages += n
	}
	var left, unscheduled, tasksWithRuns int
	if err := conn.QueryRow(t.Context(), `select (select count(*) from scheduler_go.outbox), (select count(*) from task where status <> 'next_run_scheduled'), count(distinct task) from task_run`).
		Scan(&left, &unscheduled, &tasksWithRuns); err != nil {
		t.Fatal(err)
	}
	if len(runs) != tasks || tasksWithRuns != tasks || unscheduled != 0 || left != 0 {
		t.Errorf("%d tasks have %d runs of %d tasks; %d tasks are not scheduled, %d messages in the outbox", tasks, len(runs), tasksWithRuns, unscheduled, left)
	}
	for _, id := range runs {
		if sent[id] == 0 {
			t.Errorf("run %s was never sent", id)
		}
		delete(sent, id)
	}
	for id := range sent {
		t.Errorf("message %s belongs to no run", id)
	}
	// Two batches were in hand at most when a runner was killed.
	if again := messages - tasks; again > 2*kills*500 {
		t.Errorf("%d messages were sent again after %d kills", again, 2*kills)
	}
	t.Logf("%d tasks, %d messages, %d rounds with two kills each", tasks, messages, kills)
}

// pause lets the daemons work until they are disturbed: at a random moment, which
// is what this test is about.
func pause(d time.Duration) { <-time.After(d) }

// taskIDs empties a queue and counts its messages by task id.
func taskIDs(t *testing.T, brokerURL, queue string) map[string]int {
	t.Helper()
	conn, err := amqp.Dial(brokerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]int{}
	for {
		d, ok, err := ch.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return ids
		}
		ids[d.CorrelationId]++
	}
}
