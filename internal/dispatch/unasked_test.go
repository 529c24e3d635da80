package dispatch_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// lock declares a queue as exclusive to another connection, so that it can't be observed. unlock deletes it.
func (b *bench) lock(t *testing.T, queue string) (unlock func()) {
	t.Helper()
	ch := b.channel(t)
	if _, err := ch.QueueDeclare(queue, true, false, true, false, nil); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
			t.Error(err)
		}
	}
}

// Nothing is claimed for a queue that can't be observed, with or without a limit. Other queues continue, and so
// does this one when it answers.
func TestNothingIsClaimedForAQueueThatCannotBeObserved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	unlock := b.lock(t, "locked")
	slots := dispatch.NewSlots(b.store, b.inspector, func() {})
	claim := func(q dispatch.Queue) (int, error) {
		return claimWith(t.Context(), slots, q, func(_ context.Context, _ *db.Tx, free int) ([]ledger.Work, error) {
			rows, _ := messages(q.Name, min(free, 5))
			return rows, nil
		})
	}
	limited, unlimited := dispatch.Queue{Name: "locked", Limit: new(int64(10))}, dispatch.Queue{Name: "locked"}
	for _, q := range []dispatch.Queue{limited, unlimited} {
		if n, err := claim(q); n != 0 || !celery.IsOfQueue(err) {
			t.Errorf("%d claimed, %v", n, err)
		}
	}
	if n, err := claim(dispatch.Queue{Name: "other", Limit: new(int64(10))}); n != 5 || err != nil {
		t.Errorf("%d claimed for the other queue, %v", n, err)
	}
	unlock()
	for _, q := range []dispatch.Queue{limited, unlimited} {
		if n, err := claim(q); n != 5 || err != nil {
			t.Errorf("%d claimed, %v", n, err)
		}
	}
}

// A lane whose queue can't be observed gets nothing. The other lane continues with its own work and the backlog
// before it.
func TestLaneThatCannotBeObservedHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for _, locked := range []string{"express:" + lanedQueue, lanedQueue} {
		l := newLaned(t, two(20, 10)...)
		unlock := l.lock(t, locked)
		l.claim(100)
		express, slow := len(l.outboxOf("express:"+lanedQueue)), len(l.outboxOf(lanedQueue))
		switch {
		case locked == lanedQueue && (express != 20 || slow != 0):
			t.Errorf("without the slow lane: %d and %d sent, want 20 and 0", express, slow)
		case locked != lanedQueue && (express != 0 || slow != 10):
			t.Errorf("without the express lane: %d and %d sent, want 0 and 10", express, slow)
		}
		unlock()
	}
	l := newLaned(t, two(20, 10)...)
	l.lock(t, lanedQueue)
	l.lock(t, "express:"+lanedQueue)
	if n, err := claimWith(t.Context(), l.slots, l.q, func(context.Context, *db.Tx, int) ([]ledger.Work, error) {
		t.Error("claimed")
		return nil, nil
	}); n != 0 || !celery.IsOfQueue(err) {
		t.Errorf("%d, %v", n, err)
	}
}

// Work of a queue that can't be observed is not given up, however old it is. That of other queues is, and its own
// when the queue answers.
func TestNothingIsGivenUpOfAQueueThatCannotBeObserved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	unlock := b.lock(t, "a locked one") // the first in order
	const each = 3
	sent(t, b, "a locked one", each)
	sent(t, b, "other", each)
	m := maintenance.GiveUpWork{Store: b.store, Broker: b.inspector, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	left := func() (locked, other int) {
		t.Helper()
		if err := b.store.Pool().QueryRow(t.Context(), `select count(*) filter (where queue <> 'other'), count(*) filter (where queue = 'other')
			from scheduler_go.work where state = 'sent'`).Scan(&locked, &other); err != nil {
			t.Fatal(err)
		}
		return locked, other
	}
	later := time.Now().Add(30 * 24 * time.Hour)
	if _, err := m.GiveUp(t.Context(), later); !celery.IsOfQueue(err) {
		t.Error(err)
	}
	if locked, other := left(); locked != each || other != 0 {
		t.Errorf("%d and %d left, want %d and 0", locked, other, each)
	}
	unlock()
	if _, err := m.GiveUp(t.Context(), later); err != nil {
		t.Error(err)
	}
	if locked, _ := left(); locked != 0 {
		t.Errorf("%d left", locked)
	}
}

// A claim that waits for a silent management API holds no lock: other claims for the queue continue.
func TestWaitingForFiguresHoldsNoLock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-answer
	}))
	defer silent.Close()
	release := sync.OnceFunc(func() { close(answer) })
	defer release()
	address := parsed.Broker(t, b.broker.URL)
	waiting := celery.NewQueueInspector(address, silent.URL, celery.InspectorOptions{Timeout: time.Minute})
	t.Cleanup(func() { _ = waiting.Close() })
	claim := func(lengths dispatch.Observer) (int, error) {
		return claimWith(t.Context(), dispatch.NewSlots(b.store, lengths, func() {}), dispatch.Queue{Name: "q", Limit: new(int64(10))},
			func(_ context.Context, _ *db.Tx, free int) ([]ledger.Work, error) {
				rows, _ := messages("q", min(free, 5))
				return rows, nil
			})
	}
	var first sync.WaitGroup
	first.Go(func() {
		if n, err := claim(waiting); n != 5 || err != nil {
			t.Errorf("%d claimed without figures, %v", n, err)
		}
	})
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if n, err := claim(b.inspector); n != 5 || err != nil {
			t.Errorf("%d claimed, %v", n, err)
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.Error("a claim waits for another one's figures")
	}
	release()
	first.Wait()
	<-done
}

// sent writes work of a group that was sent to a queue.
func sent(t *testing.T, b *bench, queue string, n int) {
	t.Helper()
	rows, _ := messages(queue, n)
	for i := range rows {
		rows[i].Home, rows[i].Claimed, rows[i].Share = queue, time.Now(), ledger.Share{Shared: true, Group: "g", Cost: 1}
	}
	if err := b.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error { return tx.AddWork(ctx, rows) }); err != nil {
		t.Fatal(err)
	}
	testenv.Exec(t, b.store.Pool(), "update scheduler_go.work set state = 'sent' where queue = $1", queue)
}
