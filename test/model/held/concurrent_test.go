package held

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/postgres"
)

// recentAge is the largest allowed age of the statistics of a concurrent history; they are always younger.
const recentAge = 60 * time.Millisecond

// broker simulates a broker in a history, with its messages, its recent statistics, and counters.
type broker struct {
	limit   int
	workers int

	m        sync.Mutex
	random   *rand.Rand
	messages map[string]*brokered
	ready    []string
	unacked  int
	past     []shown // of the last recentAge
	ended    int     // messages with a written end
	cuts     int     // disconnections of processes from the database
	wrong    []string
}

// brokered is a message.
type brokered struct {
	sent, lost int // number of publications, and of lost answers
	copies     int // ready or unacknowledged
	executed   bool
}

// shown is the statistics as of a moment.
type shown struct {
	figures
	at time.Time
}

func (b *broker) failed(format string, args ...any) {
	b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
}

// pause waits for a random time.
func (b *broker) pause(most time.Duration) {
	b.m.Lock()
	d := time.Duration(b.random.Int64N(int64(most)))
	b.m.Unlock()
	time.Sleep(d)
}

// show updates the statistics. b.m is held.
func (b *broker) show() {
	now := time.Now()
	b.past = append(b.past, shown{figures{len(b.ready), b.unacked, b.workers}, now})
	b.past = slices.DeleteFunc(b.past, func(s shown) bool { return now.Sub(s.at) > recentAge })
}

// arrive adds a message to the queue.
func (b *broker) arrive(id string) {
	b.m.Lock()
	defer b.m.Unlock()
	m := b.messages[id]
	m.copies++
	b.ready = append(b.ready, id)
	b.show()
	if n := len(b.held()); n > b.limit {
		b.failed("%d messages are in the queue, of %d", n, b.limit)
	}
}

// held returns the messages that are there and were sent once. b.m is held.
func (b *broker) held() map[string]bool {
	held := make(map[string]bool)
	for id, m := range b.messages {
		if m.copies > 0 && m.sent == 1 {
			held[id] = true
		}
	}
	return held
}

// answering is the broker for a process's deliveries.
type answering struct{ *broker }

func (a answering) DeclareQueue(context.Context, string) error { return nil }

// Publish accepts messages, and loses some answers, or some messages with them. Some answers are late.
func (a answering) Publish(_ context.Context, messages []celery.TaskMessage) []error {
	errs := make([]error, len(messages))
	for i, m := range messages {
		a.m.Lock()
		of := a.messages[m.ID]
		of.sent++
		lost := a.random.IntN(40) == 0
		gone := lost && a.random.IntN(2) == 0
		late := a.random.IntN(60) == 0
		if lost {
			of.lost++
		}
		if of.sent > 1+of.lost+a.cuts {
			a.failed("a message was sent %d times, with %d answers lost, %d cuts", of.sent, of.lost, a.cuts)
		}
		a.m.Unlock()
		if !gone {
			a.arrive(m.ID)
		}
		switch {
		case late:
			e, answer := celery.NewUnansweredError(celery.ErrUnconfirmed)
			errs[i] = e
			result := error(nil)
			if lost {
				result = celery.ErrUnconfirmed
			}
			time.AfterFunc(10*time.Millisecond, func() { answer(result) })
		case lost:
			errs[i] = celery.ErrUnconfirmed
		}
	}
	a.pause(4 * time.Millisecond)
	return errs
}

// observing is the broker for a process's claims.
type observing struct {
	*broker
	stats *statistics
}

func (o observing) Observe(ctx context.Context, now func() time.Time, _ []string, _ bool) map[string]celery.Observation {
	asked := now()
	o.m.Lock()
	o.show()
	past := o.past[o.random.IntN(len(o.past))]
	if time.Since(past.at) > recentAge/2 {
		past = o.past[len(o.past)-1]
	}
	o.m.Unlock()
	observed := celery.Observation{Figures: o.stats.ask(ctx, past.figures, asked), Exists: true}
	o.pause(3 * time.Millisecond)
	observed.Asked = now()
	o.m.Lock()
	observed.Ready, observed.Consumers = len(o.ready), o.workers
	o.m.Unlock()
	o.pause(3 * time.Millisecond)
	return map[string]celery.Observation{queue: observed}
}

// work is a worker that takes messages until ctx ends. It acknowledges each early, or once its end was written.
func (b *broker) work(ctx context.Context, outcomes settle.Store) {
	for ctx.Err() == nil {
		b.m.Lock()
		if len(b.ready) == 0 {
			b.m.Unlock()
			time.Sleep(time.Millisecond)
			continue
		}
		id := b.ready[0]
		b.ready = b.ready[1:]
		b.unacked++
		b.show()
		early := b.random.IntN(3) == 0
		b.m.Unlock()
		acknowledge := func() {
			b.m.Lock()
			defer b.m.Unlock()
			b.unacked--
			b.messages[id].copies--
			b.show()
		}
		if early {
			acknowledge()
		}
		b.pause(6 * time.Millisecond)
		b.m.Lock()
		b.messages[id].executed = true
		b.m.Unlock()
		end := settle.Outcome{BackendID: id, Received: time.Now(), End: &settle.End{Status: model.RunEventful}}
		if err := outcomes.ApplyOutcomes(context.WithoutCancel(ctx), []settle.Outcome{end, {BackendID: id, Received: time.Now(), Runtime: new(time.Second)}}); err != nil {
			b.m.Lock()
			b.failed("%v", err)
			b.m.Unlock()
		}
		b.m.Lock()
		b.ended++
		b.m.Unlock()
		if !early {
			b.pause(6 * time.Millisecond)
			acknowledge()
		}
	}
}

// waiting has the unclaimed messages of a history.
type waiting struct {
	m    sync.Mutex
	rows []ledger.Work
}

func (w *waiting) take(n int) []ledger.Work {
	w.m.Lock()
	defer w.m.Unlock()
	n = min(n, len(w.rows))
	taken := slices.Clone(w.rows[:n])
	w.rows = w.rows[n:]
	return taken
}

func (w *waiting) giveBack(rows []ledger.Work) {
	w.m.Lock()
	defer w.m.Unlock()
	w.rows = append(w.rows, rows...)
}

// historyBench has the shared parts of histories.
type historyBench struct {
	store  *db.Store
	stores [3]*db.Store
	stats  [3]*statistics
}

// claims claims until ctx ends, and checks under the lock of the queue that no more is claimed than fits.
func (h *historyBench) claims(ctx context.Context, b *broker, slots *dispatch.Slots, waits *waiting) {
	for ctx.Err() == nil {
		var taken []ledger.Work
		_, err := claimWith(context.WithoutCancel(ctx), slots, dispatch.Queue{Name: queue, Limit: new(int64(b.limit))}, func(ctx context.Context, tx *db.Tx, free int) ([]ledger.Work, error) {
			b.m.Lock()
			held := b.held()
			b.m.Unlock()
			rows, err := h.store.Pool().Query(ctx, "select task_id::text from scheduler_go.work where state = 'outgoing'")
			if err != nil {
				return nil, err
			}
			for rows.Next() {
				var id string
				_ = rows.Scan(&id)
				held[id] = true
			}
			if err := rows.Err(); err != nil {
				return nil, err
			}
			if _, err := tx.SentMessages(ctx, queue); err != nil {
				return nil, err // the lock may be lost
			}
			b.m.Lock()
			if free > 0 && len(held)+free > b.limit {
				b.failed("a claim found %d free slots of %d, while %d messages are held", free, b.limit, len(held))
			}
			b.m.Unlock()
			b.pause(2 * time.Millisecond)
			taken = waits.take(free)
			return taken, nil
		})
		if err != nil { // as after a cut
			committed := testenv.Column[string](quietly{}, h.store.Pool(), "select task_id::text from scheduler_go.work")
			waits.giveBack(slices.DeleteFunc(taken, func(w ledger.Work) bool { return slices.Contains(committed, w.TaskID.String()) }))
		}
		b.pause(3 * time.Millisecond)
	}
}

// quietly is a testenv.Test that panics.
type quietly struct{}

func (quietly) Helper()                           {}
func (quietly) Context() context.Context          { return context.Background() }
func (quietly) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// history runs three processes that claim and deliver, and workers, until all has ended.
func (h *historyBench) history(t *testing.T, random *rand.Rand) (repeats int) {
	limit, count := 1+random.IntN(8), 20+random.IntN(60)
	b := &broker{limit: limit, workers: 1 + random.IntN(4), random: random, messages: make(map[string]*brokered)}
	waits := &waiting{}
	shared, cuts := random.IntN(2) == 0, random.IntN(3)
	for range count {
		w := ledger.Work{TaskID: uuid.New(), Queue: queue, Home: queue, TaskName: "swh.test", Args: json.RawMessage("[]"), Kwargs: json.RawMessage("{}"), Urgent: random.IntN(2) == 0, Claimed: time.Now()}
		if shared {
			w.Share = ledger.Share{Shared: true, Group: "g", Cost: 1}
		}
		b.messages[w.TaskID.String()] = &brokered{}
		waits.rows = append(waits.rows, w)
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i, store := range h.stores {
		d := dispatch.NewDeliverer(store, answering{b}, quiet, nil)
		slots := dispatch.NewSlots(store, observing{b, h.stats[i]}, func() {})
		all.Go(func() { h.claims(ctx, b, slots, waits) })
		for range 2 {
			all.Go(func() {
				for ctx.Err() == nil {
					_, _ = d.Drain(context.WithoutCancel(ctx)) // after a lost answer or a cut it goes on
					b.pause(2 * time.Millisecond)
				}
			})
		}
	}
	for range b.workers {
		all.Go(func() { b.work(ctx, settle.Store{Store: h.store}) })
	}
	all.Go(func() {
		for range cuts {
			b.pause(100 * time.Millisecond)
			b.m.Lock()
			b.cuts++
			process := b.random.IntN(len(h.stores))
			b.m.Unlock()
			testenv.Exec(quietly{}, h.store.Pool(), "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = $1", fmt.Sprint("swh-scheduler process ", process))
			h.stores[process].Pool().Reset()
		}
	})
	began := time.Now()
	for {
		b.m.Lock()
		wrong := slices.Clone(b.wrong)
		over := len(slices.DeleteFunc(slices.Collect(maps.Values(b.messages)), func(m *brokered) bool { return m.executed })) == 0
		b.m.Unlock()
		if len(wrong) > 0 || over || time.Since(began) > 2*time.Minute {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	all.Wait()
	if len(b.wrong) > 0 {
		t.Fatalf("limit %d, %d workers, %d messages, %d cuts: %v", b.limit, b.workers, count, b.cuts, b.wrong)
	}
	for _, m := range b.messages {
		if !m.executed {
			t.Fatalf("a message was never executed: %+v, %d wait", *m, len(waits.rows))
		}
		repeats += max(0, m.sent-1)
	}
	if n := testenv.Value[int](t, h.store.Pool(), "select count(*) from scheduler_go.work where state in ('sent', 'backlog')"); n > 0 {
		t.Fatalf("%d messages are in the ledger after their ends", n)
	}
	testenv.Exec(t, h.store.Pool(), "delete from scheduler_go.work; delete from scheduler_go.deliveries; delete from scheduler_go.share_charges")
	return repeats
}

// Three processes claim and deliver at once. Answers are lost or late, connections are cut, statistics are old, and
// workers acknowledge early or late. No claim ever counts more slots than are free, and the queue never exceeds its
// limit. Nothing is lost, and only messages whose answer or database connection was lost are sent again.
func TestConcurrentHistories(t *testing.T) {
	dsn := testenv.Database(t)
	h := &historyBench{store: testenv.Open(t, dsn)}
	for i := range h.stores {
		h.stores[i], h.stats[i] = testenv.Open(t, dsn, postgres.Options{Command: fmt.Sprint("process ", i)}), newStatistics(t, recentAge)
	}
	random := seed.Rand(t)
	histories := 10
	if os.Getenv("SWH_MODEL") == "long" {
		histories = 500
	}
	if n, err := strconv.Atoi(os.Getenv("SWH_HELD")); err == nil {
		histories = n
	}
	began, repeats := time.Now(), 0
	for range histories {
		repeats += h.history(t, random)
	}
	t.Logf("%d histories, %d messages sent again, %s", histories, repeats, time.Since(began).Round(time.Second))
}
