package dispatch_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

// held is a deliverer whose broker's answers are held.
type held struct {
	*bench
	t     *testing.T
	proxy *testenv.Toxic
	d     *dispatch.Deliverer
	clock atomic.Int64 // seconds that the deliverer's clock is ahead
	ids   []string     // of the messages that were sent
}

// holdAnswers has n messages, at most a batch, to send, and holds the broker's answers. after,
// if not nil, is called once some were sent.
func holdAnswers(t *testing.T, n int, after func(*held)) *held {
	h := &held{bench: newBench(t), t: t}
	var publisher *celery.Publisher
	publisher, h.proxy = h.slowPublisher(t)
	h.d = h.deliverer(t, &faultyPublisher{Publisher: publisher, after: func() {
		if after != nil {
			after(h)
		}
	}})
	h.d.SetNow(func() time.Time { return time.Now().Add(time.Duration(h.clock.Load()) * time.Second) })
	h.proxy.Hold(testenv.Confirms, 0)
	h.ids = h.enqueue(t, "q", n)
	return h
}

// newHeld is holdAnswers after the messages were sent: they are leased, as they were not
// answered for.
func newHeld(t *testing.T, n int) *held {
	h := holdAnswers(t, n, nil)
	if _, err := h.d.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := h.leased(); n != len(h.ids) {
		t.Fatalf("%d of %d messages are leased", n, len(h.ids))
	}
	return h
}

// slowPublisher returns a publisher with its own proxy to the broker.
func (b *bench) slowPublisher(t *testing.T) (*celery.Publisher, *testenv.Toxic) {
	through, proxy := testenv.Through(t, b.broker.URL, testenv.BrokerProxy)
	address := parsed.Broker(t, through+"?heartbeat=0") // the broker's, a minute: heartbeats are held, too
	p := celery.NewPublisher(address, celery.PublisherOptions{MaxWait: time.Second})
	t.Cleanup(func() { _ = p.Close() })
	return p, proxy
}

// sendAll runs a deliverer until nothing is outgoing; a try may fail.
func (b *bench) sendAll(t *testing.T, d *dispatch.Deliverer) {
	t.Helper()
	testenv.Becomes(t, "outgoing messages", 0, func() int {
		_, _ = d.Drain(t.Context())
		return b.outbox(t)
	})
}

// leased counts the messages whose lease lasts more than half a minute.
func (h *held) leased() int {
	h.t.Helper()
	return testenv.Value[int](h.t, h.store.Pool(), `select count(*) from scheduler_go.work
		where state = 'outgoing' and not_before > now() + interval '30 s'`)
}

// drainBoth makes this deliverer and another process send what they may.
func (h *held) drainBoth() {
	h.t.Helper()
	var all sync.WaitGroup
	for _, d := range []*dispatch.Deliverer{h.d, h.deliverer(h.t, h.publisher)} {
		all.Go(func() {
			if _, err := d.Drain(h.t.Context()); err != nil {
				h.t.Error(err)
			}
		})
	}
	all.Wait()
}

// No process sends a message again while its confirmation may still arrive, however long that takes. Other queues
// get theirs meanwhile. The late confirmation ends the message.
func TestUnansweredMessagesAreSentOnce(t *testing.T) {
	t.Parallel()
	h := newHeld(t, 200)
	for range 3 {
		h.drainBoth()
		h.exec(t, "update scheduler_go.work set not_before = now() + interval '1 s'") // the lease runs out
		h.clock.Add(20)
		h.drainBoth()
		if n := h.leased(); n != len(h.ids) {
			t.Fatalf("%d of %d leases were renewed", n, len(h.ids))
		}
	}
	h.proxy.Release()
	testenv.Becomes(t, "outgoing messages", 0, func() int {
		h.drainBoth()
		return h.outbox(t)
	})
	assertSame(t, h.received(t, "q"), h.ids)
}

// A late confirmation is written at once, although there is nothing else to deliver.
func TestLateAnswersAreWritten(t *testing.T) {
	t.Parallel()
	h := holdAnswers(t, 20, nil)
	done, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := h.d.DrainUntil(t.Context(), done)
		ended <- err
	}()
	testenv.Becomes(t, "leased messages", len(h.ids), h.leased)
	h.proxy.Release()
	testenv.Becomes(t, "outgoing messages", 0, func() int { return h.outbox(t) })
	close(done)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A queue that did not answer is tried once more, and then not until it answers: further messages would wait for
// it, with all that is sent beside them.
func TestSilentQueueIsLeftAlone(t *testing.T) {
	t.Parallel()
	h := newHeld(t, 1)
	for _, want := range []int{2, 2} {
		h.ids = append(h.ids, h.enqueue(t, "q", 1)...)
		if _, err := h.d.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := h.leased(); n != want {
			t.Errorf("of %d messages %d were sent, want %d", len(h.ids), n, want)
		}
	}
	h.proxy.Release()
	h.sendAll(t, h.d)
	assertSame(t, h.received(t, "q"), h.ids)
}

// A drain that is stopped waits for confirmations that may still arrive.
func TestDrainEndsWithItsAnswers(t *testing.T) {
	t.Parallel()
	h := newHeld(t, 20)
	time.AfterFunc(500*time.Millisecond, h.proxy.Release)
	done := make(chan struct{})
	close(done)
	if _, err := h.d.DrainUntil(t.Context(), done); err != nil {
		t.Error(err)
	}
	if n := h.outbox(t); n != 0 {
		t.Errorf("%d messages are outgoing", n)
	}
}

// A process doesn't send its unanswered messages again, even if it could not write their leases.
func TestUnansweredMessagesAreRememberedWithoutADatabase(t *testing.T) {
	t.Parallel()
	var once sync.Once
	h := holdAnswers(t, 20, func(h *held) { once.Do(func() { h.cutDatabase(t) }) })
	if _, err := h.d.Drain(t.Context()); err == nil || h.leased() > 0 {
		t.Fatalf("%v, %d messages are leased; want an error, and none", err, h.leased())
	}
	h.proxy.Release()
	h.sendAll(t, h.d)
	assertSame(t, h.received(t, "q"), h.ids)
}

// When the connection is lost, confirmations can't arrive. The messages are sent again at once with the same ids,
// each at most once more.
func TestUnansweredMessagesOfALostConnectionAreSentAgain(t *testing.T) {
	t.Parallel()
	h := newHeld(t, 200)
	h.proxy.Cut()
	h.proxy.Restore()
	testenv.Becomes(t, "unanswered messages", 0, func() int {
		_, _ = h.d.Drain(t.Context())
		return h.d.Unanswered()
	})
	if n := h.leased(); n > 0 {
		t.Errorf("%d messages of the lost connection are leased", n)
	}
	h.sendAll(t, h.d)
	got := h.received(t, "q")
	if len(set(got)) != len(h.ids) || len(got) > 2*len(h.ids) {
		t.Errorf("%d messages, %d different, want %d", len(got), len(set(got)), len(h.ids))
	}
	t.Logf("%d of %d repeated", len(got)-len(h.ids), len(h.ids))
}

// A process whose lease ended doesn't free or renew the lease of the process that sent the messages after it.
func TestLeaseOfAnotherProcessIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{
		"it ended":          "update scheduler_go.work set not_before = now()",
		"it wasn't written": "update scheduler_go.work set not_before = '-infinity'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHeld(t, 20)
			h.exec(t, end)
			slow, proxy := h.slowPublisher(t)
			proxy.Hold(testenv.Confirms, 0)
			if _, err := h.deliverer(t, slow).Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			ends := func() []time.Time {
				return testenv.Column[time.Time](t, h.store.Pool(), "select not_before from scheduler_go.work where not_before > now() order by place")
			}
			want := ends()
			if len(want) != len(h.ids) {
				t.Fatalf("the other process has %d leases, want %d", len(want), len(h.ids))
			}
			h.clock.Add(20)
			for _, do := range []func(){func() {}, h.proxy.Cut, h.proxy.Restore} {
				do()
				_, _ = h.d.Drain(t.Context())
			}
			testenv.Becomes(t, "messages that the first process waits for", 0, func() int {
				_, _ = h.d.Drain(t.Context())
				return h.d.Unanswered()
			})
			if got := ends(); !slices.EqualFunc(got, want, time.Time.Equal) {
				t.Errorf("%d leases, want the %d of the other process as they were", len(got), len(want))
			}
			if n := len(h.received(t, "q")); n > 2*len(h.ids) {
				t.Errorf("%d messages were sent %d times", len(h.ids), n)
			}
		})
	}
}

// A batch may lose its database connection unnoticed while it is sent. Another batch of the process then finds the
// rows unlocked, and skips the messages that the first has reserved.
func TestReservedMessagesAreNotSentByAnotherBatch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dsn, proxy := testenv.Through(t, b.dsn, testenv.Proxy)
	b.store = testenv.Open(t, dsn)
	want := b.enqueue(t, "q", 10)
	direct := testenv.Connect(t, b.dsn)
	lost := make(chan struct{})
	var once sync.Once
	d := b.deliverer(t, &faultyPublisher{Publisher: b.publisher, after: func() {
		once.Do(func() {
			proxy.Silence(false)
			testenv.Exec(t, direct, `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`)
			b.store.Pool().Reset()
			close(lost)
		})
	}})
	drained := make(chan error)
	go func() {
		_, err := d.Drain(t.Context())
		drained <- err
	}()
	<-lost
	// Again and again: another connection may have been on its way when the first ones were ended.
	testenv.Becomes(t, "backends of the batch", 0, func() int {
		return testenv.Value[int](t, direct, "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
	})
	if _, err := d.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	proxy.Cut()
	proxy.Restore()
	if err := <-drained; err == nil {
		t.Error("the batch did not lose its connection")
	}
	b.sendAll(t, d)
	assertSame(t, b.received(t, "q"), want)
}

// One batch writes confirmations that could not be written before. Concurrent batches don't send their messages
// again.
func TestConfirmedMessagesAreNotSentAgainWhileTheyAreWritten(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var once sync.Once
	d := b.deliverer(t, &faultyPublisher{Publisher: b.publisher, after: func() { once.Do(func() { b.cutDatabase(t) }) }})
	want := b.enqueue(t, "q", dispatch.DeliverBatch)
	if _, err := d.Drain(t.Context()); err == nil || b.outbox(t) != len(want) {
		t.Fatalf("%v, %d messages are outgoing; want an error, and all", err, b.outbox(t))
	}
	conn := testenv.Connect(t, b.dsn)
	testenv.Exec(t, conn, "begin")
	testenv.Exec(t, conn, "select from scheduler_go.work order by task_id limit 1 for update") // the first to be written
	want = append(want, b.enqueue(t, "q", 10)...)
	drain := func() {
		if _, err := d.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	}
	var writing sync.WaitGroup
	writing.Go(drain)
	testenv.Becomes(t, "transactions that wait for a row", 1, func() int {
		return testenv.Value[int](t, b.store.Pool(), "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and wait_event in ('transactionid', 'tuple')")
	})
	drain()
	// Another batch of the drain that waits may have taken the new ones.
	testenv.Becomes(t, "outgoing messages, those that were sent before only", dispatch.DeliverBatch, func() int { return b.outbox(t) })
	testenv.Exec(t, conn, "commit")
	writing.Wait()
	if n := b.outbox(t); n != 0 {
		t.Errorf("%d messages are outgoing", n)
	}
	assertSame(t, b.received(t, "q"), want)
}

func (b *bench) exec(t *testing.T, statement string) {
	t.Helper()
	testenv.Exec(t, b.store.Pool(), statement)
}

// During a memory alarm the broker blocks publishers, with messages in their sockets. After the alarm, each
// message is in its queue once.
func TestAlarmRepeatsNothing(t *testing.T) {
	t.Parallel()
	node := testenv.RabbitMQCluster(t, 1).Nodes[0]
	b := &bench{dsn: testenv.Database(t), broker: node.Broker}
	b.store = b.openStore(t)
	address := parsed.Broker(t, node.URL)
	b.publisher = celery.NewPublisher(address, celery.PublisherOptions{})
	t.Cleanup(func() { _ = b.publisher.Close() })
	d, stop := b.start(t)
	want := b.enqueue(t, "q", 2000)
	d.Wake()
	node.Ctl("set_vm_memory_high_watermark", "0.0001")
	want = append(want, b.enqueue(t, "q", 2000)...)
	d.Wake()
	testenv.Becomes(t, "some messages are unanswered", true, func() bool {
		return testenv.Value[bool](t, b.store.Pool(), `select count(*) > 0 from scheduler_go.work where not_before > now()`)
	})
	node.Ctl("set_vm_memory_high_watermark", "0.9")
	testenv.Becomes(t, "outgoing messages", 0, func() int { return b.outbox(t) })
	stop()
	got := b.received(t, "q")
	if len(got) != len(want) || len(set(got)) != len(want) {
		t.Errorf("%d messages, %d different, want %d", len(got), len(set(got)), len(want))
	}
}
