package dispatch_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// bench is a database, a broker, and what connects them.
type bench struct {
	dsn       string
	broker    testenv.Broker
	store     *db.Store
	publisher *celery.Publisher
	inspector *celery.QueueInspector
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{dsn: testenv.Database(t), broker: testenv.RabbitMQ(t)}
	b.store = b.openStore(t)
	address := parsed.Broker(t, b.broker.URL)
	b.publisher = celery.NewPublisher(address, celery.PublisherOptions{})
	t.Cleanup(func() { _ = b.publisher.Close() })
	b.inspector = celery.NewQueueInspector(address, b.broker.ManagementURL, celery.InspectorOptions{})
	t.Cleanup(func() { _ = b.inspector.Close() })
	return b
}

func (b *bench) openStore(t *testing.T) *db.Store {
	t.Helper()
	return testenv.Open(t, b.dsn)
}

func (b *bench) deliverer(t *testing.T, p dispatch.Publisher) *dispatch.Deliverer {
	return dispatch.NewDeliverer(b.store, p, slog.New(slog.NewTextHandler(t.Output(), nil)), prometheus.NewRegistry())
}

// enqueue writes n outgoing messages and returns their ids in order.
func (b *bench) enqueue(t *testing.T, queue string, n int) []string {
	t.Helper()
	rows, ids := messages(queue, n)
	if err := b.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		return tx.AddWork(ctx, rows)
	}); err != nil {
		t.Fatal(err)
	}
	return ids
}

func messages(queue string, n int) ([]ledger.Work, []string) {
	rows, ids := make([]ledger.Work, n), make([]string, n)
	for i := range rows {
		rows[i] = ledger.Work{
			Queue: queue, TaskID: uuid.New(), TaskName: "swh.test",
			Args: json.RawMessage("[]"), Kwargs: json.RawMessage("{}"),
		}
		ids[i] = rows[i].TaskID.String()
	}
	return rows, ids
}

func (b *bench) outbox(t *testing.T) int {
	t.Helper()
	return testenv.Value[int](t, b.store.Pool(), "select count(*) from scheduler_go.work where state = 'outgoing'")
}

func (b *bench) channel(t *testing.T) *amqp.Channel {
	t.Helper()
	return testenv.Channel(t, b.broker.URL)
}

// received empties a queue and returns its task ids in order.
func (b *bench) received(t *testing.T, queue string) (ids []string) {
	t.Helper()
	for _, d := range testenv.Take(t, b.channel(t), queue) {
		ids = append(ids, d.CorrelationId)
	}
	return ids
}

// faultyPublisher wraps the real publisher: before a batch is sent or after it
// is confirmed it can do harm.
type faultyPublisher struct {
	*celery.Publisher
	before, after func()
	undeclared    bool // leaves queues alone
}

func (p *faultyPublisher) DeclareQueue(ctx context.Context, queue string) error {
	if p.undeclared {
		return nil
	}
	return p.Publisher.DeclareQueue(ctx, queue)
}

func (p *faultyPublisher) Publish(ctx context.Context, m []celery.TaskMessage) []error {
	if p.before != nil {
		p.before()
	}
	errs := p.Publisher.Publish(ctx, m)
	if p.after != nil {
		p.after()
	}
	return errs
}

// cutDatabase ends every connection to the test's database, as a crash of this process or of PostgreSQL would.
func (b *bench) cutDatabase(t *testing.T) {
	t.Helper()
	other := b.openStore(t)
	testenv.Exec(t, other.Pool(), `select pg_terminate_backend(pid)
		from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`)
	b.store.Pool().Reset() // also of what nobody used
}

// Every row is sent once, in order, over several batches, and then deleted.
func TestDrainSendsEachRowOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	want := b.enqueue(t, "q", 2500)
	done, err := b.deliverer(t, b.publisher).Drain(t.Context())
	if err != nil || done.Confirmed != 2500 || done.Refused != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	assertSame(t, b.received(t, "q"), want)
	if n := b.outbox(t); n != 0 {
		t.Errorf("%d rows left in the outbox", n)
	}
}

// Concurrent deliverers send each row once.
func TestDeliverersAtOnceSendEachRowOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	want := b.enqueue(t, "q", 5000)
	var all sync.WaitGroup
	for range 4 {
		d := b.deliverer(t, b.publisher)
		all.Go(func() {
			if _, err := d.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got := b.received(t, "q")
	if len(got) != len(want) || len(set(got)) != len(want) {
		t.Errorf("%d messages, %d of them different, want %d", len(got), len(set(got)), len(want))
	}
}

// After a kill between the broker's confirmation and the commit, the rows are sent again with the same task ids.
// None is lost.
func TestCrashAfterConfirmSendsTheSameIdsAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	want := b.enqueue(t, "q", 100)
	crash := &faultyPublisher{Publisher: b.publisher, after: func() { b.cutDatabase(t) }}
	if _, err := b.deliverer(t, crash).Drain(t.Context()); err == nil {
		t.Fatal("the crash went unnoticed")
	}
	if n := b.outbox(t); n != 100 {
		t.Fatalf("%d rows in the outbox after the crash, want all 100", n)
	}
	if _, err := b.deliverer(t, b.publisher).Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The deliverer's other lane may have taken them up before it ended as well.
	got := b.received(t, "q")
	again := append(slices.Clone(want), want...)
	if len(got) > len(again) {
		again = append(again, want...)
	}
	assertSame(t, got, again)
}

// After a kill before the first message was sent, the rows are still outgoing.
func TestCrashBeforePublishLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	want := b.enqueue(t, "q", 100)
	ctx, cancel := context.WithCancel(t.Context())
	crash := &faultyPublisher{Publisher: b.publisher, before: func() { cancel(); b.cutDatabase(t) }}
	if _, err := b.deliverer(t, crash).Drain(ctx); err == nil {
		t.Fatal("the crash went unnoticed")
	}
	if _, err := b.deliverer(t, b.publisher).Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	assertSame(t, b.received(t, "q"), want)
}

// A message without a queue at the broker is backed off with its reason, and the others are sent.
func TestUnroutableMessageIsBackedOff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	testenv.Declare(t, b.channel(t), "good", nil)
	b.enqueue(t, "missing", 1)
	want := b.enqueue(t, "good", 10)
	d := b.deliverer(t, &faultyPublisher{Publisher: b.publisher, undeclared: true})
	done, err := d.Drain(t.Context())
	if err != nil || done.Confirmed != 10 || done.Refused != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	assertSame(t, b.received(t, "good"), want)
	var attempts int
	var reason string
	var later bool
	if err := b.store.Pool().QueryRow(t.Context(), `select attempts, last_error, not_before > now() from scheduler_go.work where queue = 'missing'`).
		Scan(&attempts, &reason, &later); err != nil {
		t.Fatal(err)
	}
	if attempts != 1 || reason == "" || !later {
		t.Errorf("attempts %d, reason %q, backed off %v", attempts, reason, later)
	}
}

// Run continues through an outage of the broker and sends afterwards what was claimed meanwhile. When it is
// stopped, it first sends what is left.
func TestRunOutlivesAnOutageAndStopsClean(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	through, proxy := testenv.Through(t, b.broker.URL, testenv.Proxy)
	publisher := celery.NewPublisher(parsed.Broker(t, through), celery.PublisherOptions{MaxWait: time.Second})
	t.Cleanup(func() { _ = publisher.Close() })
	d := b.deliverer(t, publisher)
	stop := testenv.Run(t, d.Run)

	want := b.enqueue(t, "q", 10)
	d.Wake()
	testenv.Becomes(t, "outgoing messages", 0, func() int { return b.outbox(t) })
	proxy.Cut()
	want = append(want, b.enqueue(t, "q", 10)...)
	d.Wake()
	proxy.Restore()
	testenv.Becomes(t, "outgoing messages", 0, func() int { return b.outbox(t) })
	want = append(want, b.enqueue(t, "q", 10)...)
	stop()
	assertSame(t, b.received(t, "q"), want)
}

// While dispatchers claim and deliver concurrently and workers acknowledge, the broker never holds more than the
// limit, and the queue is refilled steadily.
func TestQueueIsNeverOverfilled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const limit, dispatchers, enough = 200, 4, 2000
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()

	var confirmed, acknowledged atomic.Int64
	var all sync.WaitGroup
	for range dispatchers {
		d := b.deliverer(t, &countingPublisher{Publisher: b.publisher, confirmed: &confirmed})
		slots := dispatch.NewSlots(b.store, b.inspector, d.Wake)
		all.Go(func() { _ = d.Run(ctx) })
		all.Go(func() {
			for ctx.Err() == nil {
				_, err := claimWith(ctx, slots, dispatch.Queue{Name: "q", Limit: new(int64(limit))}, func(_ context.Context, _ *db.Tx, free int) ([]ledger.Work, error) {
					rows, _ := messages("q", free)
					return rows, nil
				})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	testenv.Becomes(t, "confirmed messages", limit, confirmed.Load) // nobody consumes yet
	all.Go(func() { b.work(t, ctx, "q", &acknowledged) })
	var most int64
	for acknowledged.Load() < enough && ctx.Err() == nil {
		gone := acknowledged.Load() // first, so that the difference is never too large
		most = max(most, confirmed.Load()-gone)
		runtime.Gosched()
	}
	if acknowledged.Load() < enough {
		t.Errorf("only %d of %d messages went through in time", acknowledged.Load(), enough)
	}
	stop()
	all.Wait()
	// An acknowledgement may be counted here a moment after the broker has it.
	if most > limit+prefetch {
		t.Errorf("the queue held %d messages, its limit is %d", most, limit)
	}
	t.Logf("at most %d messages in the queue, limit %d", most, limit)
}
