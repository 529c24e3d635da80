package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/vmihailenco/msgpack/v5"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
)

// soakTime returns how long the soak lasts: SWH_SOAK, such as 5m, or some seconds.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("SWH_SOAK")
	if text == "" {
		return 25 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SWH_SOAK: %v", err)
	}
	return d
}

// visitor plays a loader and the archive. It takes visits from a queue, holds each for a moment, and writes its outcome
// to the journal.
type visitor struct {
	t       *testing.T
	queue   string
	topic   string
	ch      *amqp.Channel
	journal *kgo.Client
	random  *rand.Rand

	held    []amqp.Delivery
	taken   int
	visits  map[string]int // by Celery's task id
	origins map[string]int // by URL
}

// turn takes a message, if there is one, and ends the oldest one once ten are held.
func (v *visitor) turn() {
	v.t.Helper()
	d, ok, err := v.ch.Get(v.queue, false)
	if err != nil {
		v.t.Fatal(err)
	}
	if ok {
		v.taken++
		v.held = append(v.held, d)
	}
	if len(v.held) > 10 || !ok && len(v.held) > 0 {
		v.end(v.held[0])
		v.held = v.held[1:]
	}
}

func (v *visitor) end(d amqp.Delivery) {
	v.t.Helper()
	var body []json.RawMessage
	var kwargs struct{ URL string }
	if err := json.Unmarshal(d.Body, &body); err != nil || len(body) < 2 || json.Unmarshal(body[1], &kwargs) != nil || kwargs.URL == "" {
		v.t.Fatalf("not a visit: %s", d.Body)
	}
	record, err := msgpack.Marshal(map[string]any{
		"origin": kwargs.URL, "visit": 1, "date": time.Now(), "status": []string{"full", "failed", "not_found"}[v.random.IntN(3)],
		"snapshot": make([]byte, 20), "type": "git", "metadata": nil,
	})
	if err != nil {
		v.t.Fatal(err)
	}
	v.journal.Produce(context.Background(), &kgo.Record{Topic: v.topic, Value: record}, nil)
	v.visits[d.CorrelationId]++
	v.origins[kwargs.URL]++
	if err := d.Ack(false); err != nil {
		v.t.Fatal(err)
	}
}

// length returns how many messages the queue holds, ready and unacknowledged.
func (v *visitor) length() int {
	v.t.Helper()
	q, err := v.ch.QueueDeclarePassive(v.queue, true, false, false, false, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	return q.Messages + len(v.held)
}

// soakedDaemon is a slot for a daemon, with its own proxy to the broker.
type soakedDaemon struct {
	*process
	config string
	broker *testenv.Toxic
}

// Two daemons send visits, a worker consumes them, and the journal client records the outcomes, while the daemons are
// killed and started again. The queue never exceeds its limit plus its duplicates. Each marked origin has a message, and
// each message an origin. Only messages in progress at a kill were sent again.
func TestSoakOfRecurrentVisits(t *testing.T) {
	t.Parallel()
	const limit, queue = 200, "swh.loader.git"
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	section := journalSection(t, "")
	config := func(broker string) string {
		return configFile(t, fmt.Sprintf(`scheduler: {cls: postgresql, db: %q}
celery: {task_broker: %q}
rabbitmq: {management_url: %q}
queue_full_backoff: 0.1
no_origins_scheduled_backoff: 0.1
scheduling_policy:
  git:
  - {policy: oldest_scheduled_first, weight: 60}
  - {policy: never_visited_oldest_update_first, weight: 40}
`, dsn, broker, mq.ManagementURL)+section)
	}
	conn := testenv.Connect(t, dsn)
	testenv.Exec(t, conn, fmt.Sprintf(`insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', '%s', %d);
		insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'github', '', '{}', now());
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
		select '00000000-0000-0000-0000-000000000001', 'https://example.org/' || n, 'git', '{}', true, now(), now() - n * interval '1 second'
		from generate_series(1, 100000) n;
		analyze`, queue, limit))

	ch := testenv.Channel(t, mq.URL)
	testenv.Declare(t, ch, queue, nil)
	journal, err := kgo.NewClient(kgo.SeedBrokers(testenv.Kafka(t)...))
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	_, rest, _ := strings.Cut(section, "prefix: ")
	prefix, _, _ := strings.Cut(rest, "\n")
	v := &visitor{t: t, queue: queue, topic: prefix + ".origin_visit_status", ch: ch, journal: journal, random: seed.Rand(t),
		visits: map[string]int{}, origins: map[string]int{}}

	direct := config(mq.URL)
	start(t, "-C", direct, "journal-client")
	s := newSentAgain(t, dsn)
	schedule := func(d *soakedDaemon) {
		d.process = s.start("-C", d.config, "schedule-recurrent", "--visit-type", "git")
	}
	daemons := make([]*soakedDaemon, 2)
	for i := range daemons {
		url, broker := testenv.Through(t, mq.URL, testenv.BrokerProxy)
		daemons[i] = &soakedDaemon{config: config(url), broker: broker}
		schedule(daemons[i])
	}
	kills, most, samples := 0, 0, 0
	// A repeated message is in the queue beside its first copy until a worker takes it. So after a kill the queue may
	// hold that many more. This ends once all messages are taken that were in the queue at the last repeat. Then the
	// next kill follows.
	again, againUntil := 0, 0
	turn := func() {
		t.Helper()
		v.turn()
		n := v.length()
		samples++
		if again > 0 && againUntil == 0 && s.waiting() == 0 {
			againUntil = v.taken + limit + again
		}
		if againUntil > 0 && v.taken > againUntil+len(v.held) {
			again, againUntil = 0, 0
		}
		if most = max(most, n-again); n > limit+again {
			t.Fatalf("the queue holds %d messages, its limit is %d and %d may be there twice", n, limit, again)
		}
	}
	next, end := time.Now().Add(3*time.Second), time.Now().Add(soakTime(t))
	for time.Now().Before(end) || kills < 2 {
		turn()
		if time.Now().After(end.Add(2 * patience)) {
			t.Fatalf("%d kills; %d messages may be in the queue twice", kills, again)
		}
		if again > 0 || time.Now().Before(next) {
			continue
		}
		frame, pass := testenv.Confirms, 0
		if kills%2 == 1 {
			frame, pass = testenv.Publishes, v.random.IntN(5)
		}
		first, second := daemons[0].broker.Hold(frame, pass), daemons[1].broker.Hold(frame, pass)
		for deadline := time.Now().Add(patience); !closed(first) && !closed(second); turn() {
			if time.Now().After(deadline) {
				t.Fatal("nothing is sent")
			}
		}
		d, other := daemons[0], daemons[1]
		if !closed(first) {
			d, other = other, d
		}
		again = s.kill(d.process)
		d.broker.Cut()
		d.broker.Restore()
		other.broker.Release()
		schedule(d)
		kills++
		next = time.Now().Add(3 * time.Second)
	}
	for _, d := range daemons {
		d.logs(t, "msg=started") // from here on it handles signals
		d.stop(t, syscall.SIGTERM)
	}
	// After the kills, the next deliverer sends all outgoing messages.
	if r := ours(t, "-C", direct, "start-runner"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	testenv.Becomes(t, "messages", 0, func() int {
		v.turn()
		return v.length()
	})
	marked := testenv.Column[string](t, conn, "select url from origin_visit_stats where last_scheduled is not null")
	var outbox int
	if err := conn.QueryRow(t.Context(), "select count(*) from scheduler_go.work where state = 'outgoing'").Scan(&outbox); err != nil || outbox > 0 {
		t.Errorf("%d messages in the outbox, %v", outbox, err)
	}
	for _, url := range marked {
		if v.origins[url] == 0 {
			t.Errorf("%s is marked as scheduled and was never sent", url)
		}
	}
	if len(marked) != len(v.origins) || len(marked) < limit {
		t.Errorf("%d origins are marked, %d were sent", len(marked), len(v.origins))
	}
	// With the usual cooldowns no origin is sent twice, so each has one task id.
	if len(v.visits) != len(v.origins) {
		t.Errorf("%d task ids for %d origins", len(v.visits), len(v.origins))
	}
	sentAgain := s.check(v.visits, kills)
	if sentAgain == 0 {
		t.Error("no message was sent again, though the broker had some at a kill")
	}
	if err := journal.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	testenv.Becomes(t, "origins whose results were recorded", len(v.origins), func() int {
		return testenv.Value[int](t, conn, "select count(*) from origin_visit_stats where last_visit is not null")
	})
	t.Logf("%d visits of %d origins, %d kills, %d messages in hand, %d sent again; at most %d messages in %d samples, the limit is %d",
		len(v.visits), len(v.origins), kills, len(s.rows), sentAgain, most, samples, limit)
}
