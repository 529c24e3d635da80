package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/vmihailenco/msgpack/v5"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
)

// lanePlayer plays the workers of lanes. It takes messages from queues, holds some for a moment, and sends events and
// journal records of their ends. Every fourth message times out in the express lane.
type lanePlayer struct {
	t       *testing.T
	ch      *amqp.Channel
	journal *kgo.Client
	topic   string
	queues  map[string]*playedQueue
	tries   map[string][]playedTry // by URL; a message that is delivered again is one try
	sent    map[string]int         // how often each message ended, by id

	// keeps sets whether the player holds the last messages: in each queue as many as half its slots. An ended message
	// isn't sent again. If the player held all, nothing more would be sent.
	keeps bool

	note func(id, format string, args ...any) // called for each message that arrives or ends
}

type playedQueue struct {
	slots int // the largest allowed number of messages
	came  <-chan amqp.Delivery
	held  []amqp.Delivery
	kept  []amqp.Delivery // the last messages, while keeps is set
	most  int             // the largest number of messages at one time
	again int             // number of messages that were delivered again
}

type playedTry struct {
	id, root, queue string
	over            bool
}

// playedAtOnce is how many messages of a queue are held at one time: all of them.
const playedAtOnce = 200

// listen consumes queues with these numbers of slots.
func (p *lanePlayer) listen(slots map[string]int) {
	p.t.Helper()
	p.queues = map[string]*playedQueue{}
	if err := p.ch.Qos(playedAtOnce, 0, false); err != nil {
		p.t.Fatal(err)
	}
	for name, n := range slots {
		testenv.Declare(p.t, p.ch, name, nil)
		came, err := p.ch.Consume(name, "", false, false, false, false, nil)
		if err != nil {
			p.t.Fatal(err)
		}
		p.queues[name] = &playedQueue{slots: n, came: came}
	}
}

// turn takes new messages of each queue, ends the oldest one unless keeps holds it, and counts the messages. It reports
// whether there were any.
func (p *lanePlayer) turn() (busy bool) {
	for name, q := range p.queues {
		for more := true; more; {
			select {
			case d := <-q.came:
				q.kept = append(q.kept, d)
				p.note(d.CorrelationId, "came to %s", name)
			default:
				more = false
			}
		}
		keep := 0
		if p.keeps {
			keep = min(len(q.kept), q.slots/2)
		}
		older := len(q.kept) - keep
		q.held, q.kept = append(q.held, q.kept[:older]...), q.kept[older:]
		length, err := p.ch.QueueDeclarePassive(name, true, false, false, false, nil)
		if err != nil {
			p.t.Fatal(err)
		}
		q.most = max(q.most, length.Messages+len(q.held)+len(q.kept))
		if len(q.held) > 0 {
			p.end(name, q, q.held[0])
			q.held, busy = q.held[1:], true
		}
	}
	return busy
}

// end ends a message's work, as a worker and its child process do. The child's result comes first.
func (p *lanePlayer) end(queue string, q *playedQueue, d amqp.Delivery) {
	p.t.Helper()
	var body []json.RawMessage
	var kwargs struct{ URL string }
	if err := json.Unmarshal(d.Body, &body); err != nil || len(body) < 2 || json.Unmarshal(body[1], &kwargs) != nil || kwargs.URL == "" {
		p.t.Fatalf("not a piece of work: %s", d.Body)
	}
	var number int
	if _, err := fmt.Sscanf(kwargs.URL[strings.LastIndexByte(kwargs.URL, '/')+1:], "%d", &number); err != nil {
		p.t.Fatal(err)
	}
	try := playedTry{id: d.CorrelationId, root: d.Headers["root_id"].(string), queue: queue, over: strings.HasPrefix(queue, "express:") && number%4 == 0}
	p.note(try.id, "ended")
	if p.sent[try.id]++; p.sent[try.id] > 1 {
		q.again++
	} else {
		p.tries[kwargs.URL] = append(p.tries[kwargs.URL], try)
		p.visit(kwargs.URL, try.over)
	}
	event := func(kind string, fields map[string]any) map[string]any {
		all := map[string]any{"type": kind, "uuid": d.CorrelationId, "hostname": "player@lanes", "timestamp": float64(time.Now().UnixMicro()) / 1e6}
		for k, v := range fields {
			all[k] = v
		}
		return all
	}
	started := event("task-started", nil)
	switch {
	case !try.over:
		p.tell("task.result", event("task-result", map[string]any{"result": map[string]any{"status": "eventful"}}))
		p.tell("task.multi", []any{started, event("task-succeeded", map[string]any{"runtime": 0.5})})
	case number%3 == 0:
		p.tell("task.multi", []any{started, event("task-failed", map[string]any{"exception": "SoftTimeLimitExceeded()"})})
	case number%3 == 1:
		failed := event("task-failed", map[string]any{"exception": "ExceptionWithTraceback()", "traceback": "Traceback:\nbilliard.exceptions.TimeLimitExceeded: TimeLimitExceeded(66,)\n"})
		p.tell("task.multi", []any{started, failed, failed})
	default:
		p.tell("task.result", event("task-result", map[string]any{"result": map[string]any{"status": "failed", "error": "SoftTimeLimitExceeded()"}}))
		p.tell("task.multi", []any{started, event("task-succeeded", map[string]any{"runtime": 60.2})})
	}
	if err := d.Ack(false); err != nil {
		p.t.Fatal(err)
	}
}

func (p *lanePlayer) tell(key string, events any) {
	p.t.Helper()
	body, err := json.Marshal(events)
	if err == nil {
		err = p.ch.Publish("celeryev", key, false, false, amqp.Publishing{ContentType: "application/json", ContentEncoding: "utf-8", Body: body})
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// visit writes the outcome of a visit to the journal.
func (p *lanePlayer) visit(url string, over bool) {
	p.t.Helper()
	visit := map[string]any{"origin": url, "visit": 1, "date": time.Now(), "status": "full", "snapshot": make([]byte, 20), "type": "git", "metadata": nil}
	if over {
		visit["status"], visit["snapshot"] = "failed", nil
	}
	record, err := msgpack.Marshal(visit)
	if err != nil {
		p.t.Fatal(err)
	}
	p.journal.Produce(context.Background(), &kgo.Record{Topic: p.topic, Value: record}, nil)
}

// playedTwin is one of two daemons of a kind. Both share one proxy to the broker.
type playedTwin struct {
	config  string
	broker  *testenv.Toxic
	daemons []*process
}

// holdOne holds frames to the broker of the first twin that sends more than pass of them, and returns that twin. The
// other twin's proxy stays open: a daemon leaves a silent connection after some seconds and sends its messages again.
func holdOne(twins []*playedTwin, frame testenv.Frame, pass int) <-chan *playedTwin {
	reached := make(chan *playedTwin, 1)
	first, second := twins[0].broker.Hold(frame, pass), twins[1].broker.Hold(frame, pass)
	go func() {
		victim, other := twins[0], twins[1]
		select {
		case <-first:
		case <-second:
			victim, other = other, victim
		}
		other.broker.Release()
		reached <- victim
	}()
	return reached
}

// Two of each daemon send tasks, priority tasks, visits with shares, and a graph through lanes, while they are cut off
// and killed. Each task or visit ends once, and no lane's queue exceeds its slots plus its duplicates. Only messages in
// progress at a kill or cut were sent again. Tasks of a graph wait for the final end of their dependencies.
func TestKilledDaemonsAndLanes(t *testing.T) {
	t.Parallel()
	const loader, check, tasks, urgent, visits, graph, late = "swh.loader.git", "swh.test.check", 120, 40, 240, 12, 40
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	dsnThrough, database := testenv.Through(t, dsn, testenv.Proxy)
	section := journalSection(t, "")
	configOf := func(broker string) string {
		return configFile(t, fmt.Sprintf(`scheduler: {cls: postgresql, db: %q}
celery: {task_broker: %q}
rabbitmq: {management_url: %q}
queue_full_backoff: 0.1
no_origins_scheduled_backoff: 0.5
scheduling_policy: {git: [{policy: oldest_scheduled_first, weight: 1}]}
shares: {load-git: {by: lister, default: 1}}
lanes:
  load-git:
  - {name: express, queue: "express:{backend_name}", time_limit: 1 min, slots: 60}
  - {name: slow, time_limit: 15 min, slots: 30}
  save_code_now:load-git:
  - {name: express, queue: "express:{backend_name}", time_limit: 1 min, slots: 15}
  - {name: slow, time_limit: 1 h, slots: 8}
`, dsnThrough, broker, mq.ManagementURL)+section)
	}
	config := configOf(mq.URL)
	if r := ours(t, "-C", config, "migrate"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	conn := testenv.Connect(t, dsn)
	exec := func(statement string, args ...any) {
		t.Helper()
		testenv.Exec(t, conn, statement, args...)
	}
	count := func(from string) int {
		t.Helper()
		return testenv.Value[int](t, conn, "select count(*) from "+from)
	}
	exec(`insert into task_type (type, description, backend_name, max_queue_length, num_retries) values ('load-git', '', $1, 100, 2), ('check', '', $2, 100, 2)`, loader, check)
	exec(`insert into listers (name, instance_name, current_state, updated) select 'lister' || n, '', '{}', now() from generate_series(1, 4) n`)
	exec(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
		select l.id, 'https://visit/' || n, 'git', '{}', true, now() from generate_series(1, $1::int) n join listers l on l.name = 'lister' || 1 + n % 4`, visits)
	addTasks := func(kind string, n int) {
		t.Helper()
		exec(`insert into task (type, arguments, next_run, status, policy, retries_left, priority)
			select 'load-git', jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('url', 'https://' || $1::text || '/' || n)),
				now(), 'next_run_not_scheduled', 'oneshot', 2, case when $1 = 'urgent' then 'normal'::task_priority end from generate_series(1, $2::int) n`, kind, n)
	}
	addTasks("task", tasks)
	addTasks("urgent", urgent)
	var all strings.Builder
	all.WriteString("tasks:\n")
	for n := range graph {
		fmt.Fprintf(&all, "- {name: load%d, type: load-git, kwargs: {url: https://graph/%d}}\n- {name: check%d, type: check, kwargs: {url: https://check/%d}, depends_on: [load%d]}\n", n, n, n, n, n)
	}
	if r := ours(t, "-C", config, "task", "graph", "submit", configFile(t, all.String())); r.code != 0 {
		t.Fatal(r.stderr)
	}

	channel := testenv.ListenerQueue(t, mq.URL)
	journal, err := kgo.NewClient(kgo.SeedBrokers(testenv.Kafka(t)...))
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	_, rest, _ := strings.Cut(section, "prefix: ")
	prefix, _, _ := strings.Cut(rest, "\n")
	player := &lanePlayer{t: t, ch: channel, journal: journal, topic: prefix + ".origin_visit_status", tries: map[string][]playedTry{}, sent: map[string]int{}}
	player.listen(map[string]int{
		"express:" + loader: 60, loader: 30,
		"express:save_code_now:" + loader: 15, "save_code_now:" + loader: 8, check: 100,
	})
	start(t, "-C", config, "journal-client").logs(t, "partitions assigned")
	commands := [][]string{{"start-listener"}, {"start-runner", "--period", "1"}, {"start-runner", "--period", "1", "--with-priority"}, {"schedule-recurrent", "--visit-type", "git"}}
	again := newSentAgain(t, dsn)
	player.note = again.tell
	startTwin := func(twin *playedTwin) {
		t.Helper()
		twin.daemons = nil
		for _, command := range commands {
			twin.daemons = append(twin.daemons, again.start(append([]string{"-C", twin.config}, command...)...))
		}
	}
	twins := make([]*playedTwin, 2)
	for i := range twins {
		url, broker := testenv.Through(t, mq.URL, testenv.BrokerProxy)
		twins[i] = &playedTwin{config: configOf(url), broker: broker}
		startTwin(twins[i])
	}

	const kills, confirmsHeld = 8, 4
	inTwo, atKills := 0, 0
	ended := func() bool {
		return count("task where status <> 'completed'") == 0 && count("origin_visit_stats where last_visit is not null and url like 'https://visit/%'") == visits &&
			count("scheduler_go.work where state <> 'settled'") == 0
	}
	// play runs the player until a condition is true.
	play := func(until func() bool) {
		t.Helper()
		for deadline := time.Now().Add(2 * patience); !until(); {
			if !player.turn() {
				pause(20 * time.Millisecond)
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d tasks are not completed; %d of %d visits are known; in the ledger are %d", count("task where status <> 'completed'"),
					count("origin_visit_stats where last_visit is not null and url like 'https://visit/%'"), visits, count("scheduler_go.work"))
			}
		}
	}
	random := seed.Rand(t)
	for round := range kills {
		next := time.Now().Add(time.Second)
		play(func() bool { return time.Now().After(next) })
		inTwo += count("(select coalesce(root_id, task_id) from scheduler_go.work where state <> 'settled' group by 1 having count(*) > 1) twice")
		if round%3 > 0 {
			again.cut([]*testenv.Toxic{nil, database, twins[round%2].broker}[round%3], 100*time.Millisecond, slices.Concat(twins[0].daemons, twins[1].daemons)...)
		}
		// Each round has something to send.
		addTasks("late"+fmt.Sprint(round), late/kills)
		frame, pass := testenv.Confirms, 0
		if round%2 == 1 {
			frame, pass = testenv.Publishes, random.IntN(2)
		}
		player.keeps = true
		reached := holdOne(twins, frame, pass)
		play(func() bool { return len(reached) > 0 })
		victim := <-reached
		again.kill(victim.daemons...)
		victim.broker.Cut()
		victim.broker.Restore()
		startTwin(victim)
		play(func() bool { return again.waiting() == 0 }) // all messages in progress have been sent again
		player.keeps = false
	}
	atKills = len(player.tries)
	play(ended)

	for name, q := range player.queues {
		if q.most > q.slots+q.again {
			t.Errorf("queue %s held %d messages, %d of which came again; its slots are %d", name, q.most, q.again, q.slots)
		}
	}
	if inTwo > 0 {
		t.Errorf("%d pieces of work were in two lanes", inTwo)
	}
	if want := tasks + late + urgent + visits + 2*graph; len(player.tries) != want {
		t.Errorf("%d pieces of work were tried, want %d", len(player.tries), want)
	}
	overs := 0
	for url, tries := range player.tries {
		first, last := tries[0], tries[len(tries)-1]
		if last.over || len(tries) > 2 || first.root != first.id || len(tries) == 2 && (!first.over || last.root != first.id || "express:"+last.queue != first.queue) {
			t.Errorf("%s: %+v", url, tries)
		}
		overs += len(tries) - 1
	}
	if overs < 20 {
		t.Errorf("the time of %d pieces was over", overs)
	}
	if n := count("task_run where status = 'eventful'"); n != tasks+late+urgent+2*graph || count("task_run") != n || count("task where retries_left <> 2") != 0 {
		t.Errorf("%d of %d runs ended well, %d tasks used a retry", n, count("task_run"), count("task where retries_left <> 2"))
	}
	if n := count("origin_visit_stats where last_visit_status = 'successful' and successive_visits = 1 and next_position_offset = 4 and url like 'https://visit/%'"); n != visits || count("scheduler_go.held_visits") != 0 {
		t.Errorf("%d of %d visits are known as successful and nothing else; %d failures are kept back", n, visits, count("scheduler_go.held_visits"))
	}
	if n := count(`scheduler_go.graph_edges e join task_run r on r.task = e.task join task_run d on d.task = e.depends_on where r.scheduled < d.ended`); n > 0 {
		t.Errorf("%d tasks did not wait for the end of those they depend on", n)
	}
	sentAgain := again.check(player.sent, kills)
	if sentAgain < confirmsHeld {
		t.Errorf("%d messages were sent again, though the broker had some at each of %d kills", sentAgain, confirmsHeld)
	}
	t.Logf("%d pieces of work, %d of them moved; %d rounds of kills, after which %d had been begun; %d messages in hand, %d sent again", len(player.tries), overs, kills, atKills, len(again.rows), sentAgain)
}
