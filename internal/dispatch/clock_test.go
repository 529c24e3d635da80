package dispatch_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/postgres"
)

// hostClock is a host's clock that can be wrong.
type hostClock struct{ ahead time.Duration }

func (c *hostClock) now() time.Time { return time.Now().Add(c.ahead) }

// A host with a wrong clock claims nothing and logs the reason. Once the clock is right, it claims.
func TestWrongClocksClaimNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	host := &hostClock{}
	store := testenv.Open(t, b.dsn, postgres.Options{HostTime: host.now})
	slots := dispatch.NewSlots(store, b.inspector, func() {})
	for _, c := range []struct {
		ahead time.Duration
		says  string // "" if it claims
	}{
		{ahead: 0},
		{ahead: 3 * time.Minute, says: "the clock of this host is 3m0s ahead of"},
		{ahead: 4 * time.Second}, {ahead: -4 * time.Second},
		{ahead: -time.Hour, says: "behind the database's"},
		{ahead: 0},
	} {
		host.ahead = c.ahead
		plain := dispatch.Queue{Name: "q", Limit: new(int64(10))}
		for _, q := range []dispatch.Queue{plain, plain.WithLanes("load", model.TaskType{Type: "load", BackendName: "q"}, map[string][]model.Lane{"load": two(2, 2)})} {
			claims := 0
			_, err := claimWith(t.Context(), slots, q,
				func(context.Context, *db.Tx, int) ([]ledger.Work, error) {
					claims++
					return nil, nil
				})
			_, wrong := errors.AsType[*postgres.ClockError](err)
			if wrong != (c.says != "") || !wrong && err != nil || claims != map[bool]int{false: 1}[wrong] || wrong && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s ahead, lanes %v: %d claims, %v", c.ahead, q.Lanes != nil, claims, err)
			}
		}
	}
}

// Recent deliveries of a host with a wrong clock count for the others, although the management API doesn't show
// them yet.
func TestDeliveriesOfWrongClocksCount(t *testing.T) {
	t.Parallel()
	const limit = 20
	for _, ahead := range []time.Duration{-time.Hour, -time.Minute, time.Minute, time.Hour} {
		b := newBench(t)
		host := &hostClock{ahead}
		store := testenv.Open(t, b.dsn, postgres.Options{HostTime: host.now})
		if err := store.CheckVersion(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, managementURL := newStaleManagement(t, b.broker.ManagementURL)
		address := parsed.Broker(t, b.broker.URL)
		inspector := celery.NewQueueInspector(address, managementURL, celery.InspectorOptions{Timeout: time.Minute})
		t.Cleanup(func() { _ = inspector.Close() })

		if _, err := inspector.Length(t.Context(), "q", 0); err != nil { // which the management API repeats
			t.Fatal(err)
		}
		b.enqueue(t, "q", limit)
		d := dispatch.NewDeliverer(store, b.publisher, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		if done, err := d.Drain(t.Context()); err != nil || done.Confirmed != limit {
			t.Fatal(done, err)
		}
		b.hold(t, "q", limit).take(t, limit)
		free := -1
		if _, err := claimWith(t.Context(), dispatch.NewSlots(b.store, inspector, func() {}), dispatch.Queue{Name: "q", Limit: new(int64(limit))},
			func(_ context.Context, _ *db.Tx, n int) ([]ledger.Work, error) {
				free = n
				return nil, nil
			}); err != nil || free != 0 {
			t.Errorf("%s ahead: %d slots are free in a full queue, %v", ahead, free, err)
		}
	}
}

// staleInspector returns an inspector whose management API repeats that the queue is empty.
func staleInspector(t *testing.T, b *bench, queue string) *celery.QueueInspector {
	t.Helper()
	_, managementURL := newStaleManagement(t, b.broker.ManagementURL)
	inspector := celery.NewQueueInspector(parsed.Broker(t, b.broker.URL), managementURL, celery.InspectorOptions{Timeout: time.Minute})
	t.Cleanup(func() { _ = inspector.Close() })
	if _, err := inspector.Length(t.Context(), queue, 0); err != nil { // which the management API repeats
		t.Fatal(err)
	}
	return inspector
}

// freeIn returns how many slots a claim finds in a queue with a limit.
func freeIn(t *testing.T, slots *dispatch.Slots, queue string, limit int64) int {
	t.Helper()
	free := -1
	if _, err := claimWith(t.Context(), slots, dispatch.Queue{Name: queue, Limit: &limit}, func(_ context.Context, _ *db.Tx, n int) ([]ledger.Work, error) {
		free = n
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	return free
}

// A host whose clock is ahead, within the tolerance for claims, still counts the deliveries that old statistics
// may lack.
func TestClocksThatAreAheadOverlookNoDelivery(t *testing.T) {
	t.Parallel()
	const limit = 5
	b := newBench(t)
	inspector := staleInspector(t, b, "q")
	b.enqueue(t, "q", limit)
	d := dispatch.NewDeliverer(b.store, b.publisher, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if done, err := d.Drain(t.Context()); err != nil || done.Confirmed != limit {
		t.Fatal(done, err)
	}
	b.hold(t, "q", limit).take(t, limit)
	// It is three seconds until the statistics must show that.
	testenv.Exec(t, b.store.Pool(), "update scheduler_go.deliveries set delivered_at = clock_timestamp() - interval '9 s'")
	host := &hostClock{ahead: 4 * time.Second}
	slots := dispatch.NewSlots(testenv.Open(t, b.dsn, postgres.Options{HostTime: host.now}), inspector, func() {})
	if free := freeIn(t, slots, "q", limit); free != 0 {
		t.Errorf("%d slots are free in a full queue", free)
	}
}

// A message whose end is received before its confirmation is written still counts, because its worker may
// acknowledge it later. It counts whether or not the confirmation is written in the end.
func TestEndsBeforeConfirmationsLeaveNoSlot(t *testing.T) {
	t.Parallel()
	const limit = 5
	for name, kept := range map[string]bool{"plain": false, "of a group": true, "timed out on a lane": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			testenv.Declare(t, b.channel(t), "q", nil)
			inspector := staleInspector(t, b, "q")
			end := settle.End{Status: model.RunEventful}
			slots := dispatch.NewSlots(b.store, inspector, func() {})
			rows, ids := messages("q", limit)
			for i := range rows {
				if kept {
					rows[i].Home, rows[i].Claimed, rows[i].Share = "q", time.Now(), ledger.Share{Shared: true, Group: "g", Cost: 1}
				}
				if name == "timed out on a lane" {
					rows[i].Lane = ledger.WorkLane{Set: "load-git", Name: "express", Left: 1, SoftLimit: time.Minute, HardLimit: 2 * time.Minute}
					end = settle.End{Status: model.RunFailed, TimedOut: true}
				}
			}
			if err := b.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error { return tx.AddWork(ctx, rows) }); err != nil {
				t.Fatal(err)
			}
			// Sent, but that isn't written: the process died, say.
			var sent []celery.TaskMessage
			for i, row := range rows {
				sent = append(sent, celery.TaskMessage{ID: ids[i], Name: row.TaskName, Queue: "q", Args: row.Args, Kwargs: row.Kwargs})
			}
			if err := errors.Join(b.publisher.Publish(t.Context(), sent)...); err != nil {
				t.Fatal(err)
			}
			b.hold(t, "q", limit).take(t, limit)
			if free := freeIn(t, slots, "q", limit); free != 0 {
				t.Errorf("%d slots are free while all messages are outgoing", free)
			}
			var outcomes []settle.Outcome
			for _, id := range ids {
				outcomes = append(outcomes, settle.Outcome{BackendID: id, Received: time.Now(), End: &end})
			}
			if err := (settle.Store{Store: b.store}).ApplyOutcomes(t.Context(), outcomes); err != nil {
				t.Fatal(err)
			}
			if n := b.outbox(t); n != 0 {
				t.Fatalf("%d messages are outgoing after their ends were heard", n)
			}
			if free := freeIn(t, slots, "q", limit); free != 0 {
				t.Errorf("%d slots are free while workers hold all messages", free)
			}
			testenv.Exec(t, b.store.Pool(), "delete from scheduler_go.deliveries")
			var late []ledger.Outgoing
			for _, row := range rows {
				late = append(late, ledger.Outgoing{Work: row, StaysInLedger: kept})
			}
			if err := b.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error { return tx.Confirm(ctx, late) }); err != nil {
				t.Fatal(err)
			}
			if free := freeIn(t, slots, "q", limit); free != 0 {
				t.Errorf("%d slots are free after a confirmation that came late", free)
			}
		})
	}
}
