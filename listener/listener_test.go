package listener

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/daemon"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql"
)

// deadline bounds every wait for something that should happen soon; only a
// failing test takes that long.
const deadline = 2 * time.Minute

// eventually polls until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	timeout := time.After(deadline)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-timeout:
			t.Fatalf("timed out waiting until %s", what)
		case <-tick.C:
		}
	}
}

// exchange publishes as workers do. The queue is declared as the peer does it,
// so that messages are kept before a listener is there.
type exchange struct {
	url     string
	channel *amqp.Channel
}

func newExchange(t testing.TB, url string) *exchange {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err == nil {
		err = ch.ExchangeDeclare("celeryev", "topic", true, false, false, false, nil)
	}
	if err == nil {
		_, err = ch.QueueDeclare("celeryev.listener", true, false, false, false, nil)
	}
	if err == nil {
		err = ch.QueueBind("celeryev.listener", "#", "celeryev", false, nil)
	}
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &exchange{url: url, channel: ch}
}

// publish returns when the broker has all bodies.
func (x *exchange) publish(t testing.TB, bodies ...[]byte) {
	t.Helper()
	var last *amqp.DeferredConfirmation
	for _, body := range bodies {
		c, err := x.channel.PublishWithDeferredConfirm("celeryev", "task.multi", false, false, amqp.Publishing{
			ContentType: "application/json", ContentEncoding: "utf-8", DeliveryMode: amqp.Transient, Body: body,
			Headers: amqp.Table{"hostname": "worker@host"},
		})
		if err != nil {
			t.Fatal(err)
		}
		last = c
	}
	if ok, err := last.WaitContext(t.Context()); !ok || err != nil {
		t.Fatalf("not confirmed: %v", err)
	}
}

// ready is how many messages wait in the queue, not those under way.
func (x *exchange) ready(t testing.TB) int {
	t.Helper()
	q, err := x.channel.QueueDeclarePassive("celeryev.listener", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Messages
}

// consumer is the real source, which gives up its connection fast and comes
// back fast.
func consumer(t testing.TB, url string) *celery.Consumer {
	t.Helper()
	broker, err := celery.ParseBroker(url)
	if err != nil {
		t.Fatal(err)
	}
	o := ConsumerOptions(testLog(t))
	o.MaxBackoff = 200 * time.Millisecond
	return celery.NewConsumer(broker, o)
}

// start runs a listener until stop is called, or the test ends.
func start(t testing.TB, l *Listener) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	group := daemon.Group{Log: testLog(t), Grace: deadline}
	go func() { ended <- group.Run(ctx, daemon.Component{Name: "listener", Run: l.Run}) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the listener ended with: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func through(t testing.TB, service, proxy string) string {
	t.Helper()
	u, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = proxy
	return u.String()
}

func host(t testing.TB, service string) string {
	t.Helper()
	u, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// count is how many runs with a prefix have a status.
func (db *database) count(t testing.TB, prefix, status string) (n int) {
	t.Helper()
	err := db.pool.QueryRow(t.Context(),
		`select count(*) from task_run where starts_with(backend_id, $1) and status::text = $2`, prefix, status).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// addTasks makes tasks with a run each, named by prefix and number from 0.
func (db *database) addTasks(t testing.TB, n int, prefix string) {
	t.Helper()
	db.exec(t, `
		with t as (
			insert into task (type, arguments, next_run, current_interval, status, retries_left)
			select 'good', '{}', now(), '64 days', 'next_run_scheduled', 1 from generate_series(1, $1::int) returning id)
		insert into task_run (task, backend_id, scheduled)
		select id, $2::text || '-' || (row_number() over () - 1), now() from t`, n, prefix)
}

// streams are the messages about n runs, each of which starts and ends well; a
// message has ten events, as busy workers batch them.
func streams(t testing.TB, prefix string, n int) (bodies [][]byte) {
	t.Helper()
	var events []event
	for i := range n {
		id := name(prefix, i)
		events = append(events, startedEvent(id), resultEvent(id, map[string]any{"status": "eventful"}))
	}
	for chunk := range slices.Chunk(events, 10) {
		bodies = append(bodies, message(t, chunk...))
	}
	return bodies
}

// In light traffic an event is visible in the database within 250 ms.
func TestEventsAreVisibleSoon(t *testing.T) {
	t.Parallel()
	db, broker := ownDatabase(t), testenv.RabbitMQ(t)
	db.addTasks(t, 10, "run")
	start(t, newTestListener(t, consumer(t, broker.URL), openStore(t, db.dsn)))
	x := newExchange(t, broker.URL)
	var times []time.Duration
	for i := range 10 {
		id, sent := name("run", i), time.Now()
		x.publish(t, message(t, startedEvent(id)))
		eventually(t, "the run is started", func() bool { return db.count(t, id, "started") == 1 })
		times = append(times, time.Since(sent))
	}
	slices.Sort(times)
	// The median: other tests share the machine.
	if got := times[len(times)/2]; got > 250*time.Millisecond {
		t.Errorf("visible after %v", times)
	}
}

// Asked to stop, the listener commits and acknowledges what it has in hand, and
// leaves the rest in the queue for the next one.
func TestStop(t *testing.T) {
	t.Parallel()
	db, broker := ownDatabase(t), testenv.RabbitMQ(t)
	const n = 5000
	db.addTasks(t, n, "run")
	x := newExchange(t, broker.URL)
	x.publish(t, streams(t, "run", n)...)
	stop := start(t, newTestListener(t, consumer(t, broker.URL), openStore(t, db.dsn)))
	eventually(t, "some runs have ended", func() bool { return db.count(t, "run", "eventful") > 0 })
	stop()
	// Of the two events of each run, ten a message, what isn't in the queue is
	// in the database.
	ended := db.count(t, "run", "eventful")
	eventually(t, "the rest is back in the queue", func() bool { return x.ready(t) == (n-ended)/5 })
	start(t, newTestListener(t, consumer(t, broker.URL), openStore(t, db.dsn)))
	eventually(t, "all runs have ended", func() bool { return db.count(t, "run", "eventful") == n })
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

// Messages that come again, because a listener died between commit and
// acknowledgement, change nothing.
func TestRedelivery(t *testing.T) {
	t.Parallel()
	db, broker := ownDatabase(t), testenv.RabbitMQ(t)
	const n = 100
	db.addTasks(t, n, "run")
	x := newExchange(t, broker.URL)
	x.publish(t, streams(t, "run", n)...)
	x.publish(t, message(t, taskEvent("task-failed", "run-0", 1)), message(t, taskEvent("task-failed", "run-1", 1)))

	source := &deaf{Source: consumer(t, broker.URL)}
	stop := start(t, newTestListener(t, source, openStore(t, db.dsn)))
	eventually(t, "all runs have ended", func() bool { return db.count(t, "run", "eventful") == n && source.lost.Load() > 0 })
	stop()
	eventually(t, "everything is back in the queue", func() bool { return x.ready(t) == n/5+2 })
	want := db.rows(t)

	stop = start(t, newTestListener(t, consumer(t, broker.URL), openStore(t, db.dsn)))
	db.addTasks(t, 1, "last")
	x.publish(t, streams(t, "last", 1)...)
	eventually(t, "the last run has ended", func() bool { return db.count(t, "last", "eventful") == 1 })
	stop()
	if left := x.ready(t); left != 0 {
		t.Errorf("%d messages left", left)
	}
	if got := db.rows(t); !slices.Equal(got, want) {
		t.Errorf("redelivery changed the database:\n%s\nwas\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// rows is everything about the runs called "run-…" and their tasks.
func (db *database) rows(t testing.TB) []string {
	t.Helper()
	rows, _ := db.pool.Query(t.Context(), `
		select r::text || t::text from task_run r join task t on t.id = r.task
		where starts_with(r.backend_id, 'run-') order by r.id`)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Several listeners share the queue, each getting a part of what is about a run,
// and leave the state of one.
func TestSeveralListeners(t *testing.T) {
	t.Parallel()
	db, broker := ownDatabase(t), testenv.RabbitMQ(t)
	const n = 2000
	db.addTasks(t, n, "run")
	x := newExchange(t, broker.URL)
	for range 3 {
		start(t, newTestListener(t, consumer(t, broker.URL), openStore(t, db.dsn)))
	}
	// Each message three times: as likely as not at different listeners.
	var bodies [][]byte
	for _, body := range streams(t, "run", n) {
		bodies = append(bodies, body, body, body)
	}
	x.publish(t, bodies...)
	eventually(t, "all runs have ended", func() bool { return db.count(t, "run", "eventful") == n })
	eventually(t, "the queue is empty", func() bool { return x.ready(t) == 0 })
	db.addTasks(t, 50, "last")
	x.publish(t, streams(t, "last", 50)...)
	eventually(t, "the last runs have ended", func() bool { return db.count(t, "last", "eventful") == 50 })
	const want = `eventful {"worker": "worker@host"} started=true ended=true in order=true next_run_not_scheduled 32 days 3 next=32 days`
	for _, got := range db.state(t, "run-") {
		if _, got, _ = strings.Cut(got, " "); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

// While the database or the broker is away nothing is lost, and once it is back
// the backlog is worked off.
func TestOutages(t *testing.T) {
	t.Parallel()
	for _, away := range []string{"database", "broker", "both"} {
		t.Run(away, func(t *testing.T) {
			t.Parallel()
			db, broker := ownDatabase(t), testenv.RabbitMQ(t)
			const n = 2500
			db.addTasks(t, n, "run")
			x := newExchange(t, broker.URL)
			dbProxy, brokerProxy := testenv.Proxy(t, host(t, db.dsn)), testenv.Proxy(t, host(t, broker.URL))
			l := newTestListener(t, consumer(t, through(t, broker.URL, brokerProxy.Addr)),
				openStore(t, through(t, db.dsn, dbProxy.Addr)))
			start(t, l)

			bodies := streams(t, "run", n)
			publish := func(part int) { x.publish(t, bodies[part*n/25:(part+1)*n/25]...) }
			publish(0)
			eventually(t, "some runs have ended", func() bool { return db.count(t, "run", "eventful") > 0 })
			if away != "broker" {
				dbProxy.Cut()
			}
			publish(1)
			if away != "broker" {
				eventually(t, "the listener has noticed", func() bool { return testutil.ToFloat64(l.metrics.databaseErrors) > 0 })
			}
			if away != "database" {
				brokerProxy.Cut()
			}
			publish(2)
			dbProxy.Restore()
			brokerProxy.Restore()
			publish(3)
			publish(4)
			eventually(t, "all runs have ended", func() bool { return db.count(t, "run", "eventful") == n })
			eventually(t, "the queue is empty", func() bool { return x.ready(t) == 0 })
		})
	}
}

// Whatever comes, the events beside it are applied, and each is counted by what
// is wrong with it.
func TestBadMessages(t *testing.T) {
	t.Parallel()
	db, broker := ownDatabase(t), testenv.RabbitMQ(t)
	l := newTestListener(t, consumer(t, broker.URL), openStore(t, db.dsn))
	x := newExchange(t, broker.URL)
	bad := []struct {
		body    string
		problem Problem // none: it is merely ignored
	}{
		{``, BadBody},
		{`nonsense`, BadBody},
		{"\xff\xfe\x00", BadBody},
		{`[`, BadBody},
		{`[{"type": "task-started"`, BadBody},
		{strings.Repeat("[", 100_000), BadBody},
		{`null`, BadEvent},
		{`1`, BadEvent},
		{`"task-started"`, BadEvent},
		{`[1, 2]`, BadEvent},
		{`[[{"type": "task-started", "uuid": "run-0"}]]`, BadEvent},
		{`{"uuid": "x"}`, BadEvent},
		{`{"type": null, "uuid": "x"}`, BadEvent},
		{`{"type": ["task-started"], "uuid": "x"}`, BadEvent},
		{`{"type": "task-started", "uuid": 5}`, BadUUID},
		{`{"type": "task-started", "uuid": ["run-0"]}`, BadUUID},
		{`{"type": "task-started", "uuid": "run-0\u0000"}`, BadUUID},
		{`{"type": "task-started", "uuid": "` + strings.Repeat("x", 10_000) + `"}`, BadUUID},
		{`{"type": "task-result", "uuid": "run-0"}`, BadResult},
		{`{"type": "task-result", "uuid": "run-0", "result": {"status": "excellent"}}`, BadStatus},
		{`{"type": "task-result", "uuid": "run-0", "result": {"status": "\u0000"}}`, BadStatus},
		{`{"type": "task-result", "uuid": "other", "result": {"status": {}}}`, BadStatus},
		{strings.Repeat("x", 5<<20), TooLarge},
		{`[]`, ""},
		{`{"type": "worker-heartbeat", "hostname": "worker@host", "freq": 2.0}`, ""},
		{`{"type": "task-started"}`, ""},
		{`{"type": "task-started", "uuid": null}`, ""},
		{`{"type": "task-\ud800", "uuid": "run-0"}`, ""},
		{`{"type": "task-started", "uuid": "run-\udfff"}`, ""},
	}
	want := map[Problem]int{}
	var bodies [][]byte
	for i, b := range bad {
		db.addTask(t, "good", "recurring", name("run", i))
		good := startedEvent(name("run", i))
		bodies = append(bodies, []byte(b.body), message(t, good))
		if b.problem != "" {
			want[b.problem]++
			if b.problem == BadEvent && b.body == "[1, 2]" {
				want[b.problem]++ // two events
			}
		}
	}
	x.publish(t, bodies...)
	stop := start(t, l)
	eventually(t, "all good events are applied", func() bool { return db.count(t, "run", "started") == len(bad) })
	stop()
	if left := x.ready(t); left != 0 {
		t.Errorf("%d messages left", left)
	}
	for _, p := range problems {
		if got := testutil.ToFloat64(l.metrics.malformed.WithLabelValues(string(p))); got != float64(want[p]) {
			t.Errorf("problem %s counted %v times, want %d", p, got, want[p])
		}
	}
	// Those that should have ended a run of ours can be looked at.
	if got := db.rejections(t); len(got) != 3 {
		t.Errorf("rejected events: %q", got)
	}
}

func (db *database) rejections(t testing.TB) []string {
	t.Helper()
	rows, _ := db.pool.Query(t.Context(),
		`select concat_ws('|', backend_id, event, sqlstate, reason) from scheduler_go.rejected_events order by id`)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Texts that are hard on PostgreSQL or on the log end a run like any other.
func TestHardTexts(t *testing.T) {
	t.Parallel()
	db := ownDatabase(t)
	l := newTestListener(t, nil, openStore(t, db.dsn))
	long := strings.Repeat("long ", 500_000)
	for i, c := range []struct{ traceback, want string }{
		{`"a\nb\u0000c"`, "bc"},
		{`"\ud83d\ude00"`, "😀"},
		{`"half \ud83d pair"`, "half \ufffd pair"},
		{`"` + strings.Repeat(`frame\n`, 300_000) + `E: no"`, "E: no"},
		{`"` + long + `"`, strings.TrimSpace(long)},
	} {
		id := name("run", i)
		db.addTask(t, "good", "recurring", id)
		feed(t, l, fmt.Appendf(nil, `{"type": "task-failed", "uuid": %q, "traceback": %s}`, id, c.traceback))
		var got string
		if err := db.pool.QueryRow(t.Context(), `select metadata->>'error' from task_run where backend_id = $1`, id).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("error %.80q (%d bytes), want %.80q", got, len(got), c.want)
		}
	}
}

// Of a batch that PostgreSQL refuses, all is applied but the guilty events, and
// those are kept with the reason.
func TestRefusedEvents(t *testing.T) {
	t.Parallel()
	db := ownDatabase(t)
	l := newTestListener(t, nil, openStore(t, db.dsn))
	const n = 50
	db.addTasks(t, n, "run")
	guilty := []int{3, 20, 21, n - 1}
	for _, i := range guilty {
		db.exec(t, `update task set type = 'broken' where id = (select task from task_run where backend_id = $1)`, name("run", i))
	}
	feed(t, l, streams(t, "run", n)...)
	if got := db.count(t, "run", "eventful"); got != n-len(guilty) {
		t.Errorf("%d runs ended, want %d", got, n-len(guilty))
	}
	if got := db.count(t, "run", "started"); got != len(guilty) {
		t.Errorf("%d runs only started, want %d", got, len(guilty))
	}
	got := db.rejections(t)
	for i := range got {
		if want := name("run", guilty[i]) + "|ended as eventful|22012|"; !strings.HasPrefix(got[i], want) || !strings.Contains(got[i], "division by zero") {
			t.Errorf("rejected event %q, want %q and a division by zero", got[i], want)
		}
	}
	if len(got) != len(guilty) || testutil.ToFloat64(l.metrics.rejected) != float64(len(guilty)) {
		t.Errorf("%d rejected events kept, %v counted", len(got), testutil.ToFloat64(l.metrics.rejected))
	}
}

// nothing is a store that takes everything.
type nothing struct{ outcomes int }

func (n *nothing) ApplyOutcomes(_ context.Context, o []sql.Outcome) error {
	n.outcomes += len(o)
	return nil
}
func (*nothing) RejectEvents(context.Context, []sql.RejectedEvent) error { return nil }
func (*nothing) ForgetRuns(context.Context, time.Time, time.Time) error  { return nil }

// No message, whatever its bytes, stops the listener, and none yields more
// outcomes than it has events.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`[{"type": "task-started", "uuid": "u", "hostname": "h", "timestamp": 1.5}]`,
		`{"type": "task-result", "uuid": "u", "result": {"status": "failed", "error": "x"}}`,
		`{"type": "task-failed", "uuid": "u", "traceback": "a\nb"}`,
		`{"type": "task-succeeded", "uuid": "u", "runtime": 1e9}`,
		`[1, {"uuid": 0}]`, `{"type": "task-result", "uuid": "u", "result": [NaN]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		l := newTestListener(t, nil, &nothing{})
		b := &batch{}
		l.read(b, delivery(body))
		if len(b.outcomes)+len(b.rejected) > b.events {
			t.Errorf("%d outcomes and %d rejections of %d events", len(b.outcomes), len(b.rejected), b.events)
		}
		for _, o := range b.outcomes {
			tells := 0
			for _, set := range []bool{o.Start != nil, o.End != nil, o.Runtime != nil} {
				if set {
					tells++
				}
			}
			if o.BackendID == "" || tells != 1 {
				t.Errorf("outcome %+v", o)
			}
		}
	})
}
