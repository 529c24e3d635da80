package dispatch_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// In a queue with x-max-priority, a group's messages with priority overtake those of other groups. Without ageing
// they always do. With ageing, messages that have waited that long are not overtaken by later ones.
func TestPriorityOfAGroup(t *testing.T) {
	t.Parallel()
	for name, ageing := range map[string]time.Duration{"strict": 0, "ageing": 20 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSharing(t, map[string]float64{"urgent": 1000}, 1)
			s.now = time.Now() // messages are marked as sent by the database's clock
			s.q.Shares.Priorities = map[string]uint8{"urgent": 7}
			ch := s.channel(t)
			testenv.Declare(t, ch, s.q.Name, amqp.Table{"x-max-priority": 10})
			reg := prometheus.NewRegistry()
			d := dispatch.NewDeliverer(s.store, s.publisher, slog.New(slog.NewTextHandler(t.Output(), nil)), reg)
			d.Ageing = ageing
			d.SetNow(func() time.Time { return s.now })
			send := func(free int) {
				t.Helper()
				s.pass(free)
				if done, err := d.Drain(t.Context()); err != nil || done.Confirmed != free {
					t.Fatalf("%+v, %v", done, err)
				}
			}
			s.waiting = map[string]int{"bulk": 3}
			send(3)
			s.waiting["urgent"] = -1
			send(3)
			var served []string // a minute each, by one worker
			ids := make(map[string]bool)
			for range 40 {
				m, ok, err := ch.Get(s.q.Name, true)
				if err != nil || !ok || ids[m.CorrelationId] {
					t.Fatalf("a message that was not served before: %v, %v", ok, err)
				}
				ids[m.CorrelationId] = true
				group := "bulk"
				for _, id := range s.sent["urgent"] {
					if id.String() == m.CorrelationId {
						group = "urgent"
					}
				}
				if want := uint8(7); group == "urgent" && ageing == 0 && m.Priority != want || group == "bulk" && m.Priority != 0 {
					t.Errorf("priority %d of %s", m.Priority, group)
				}
				served = append(served, group)
				runtime := time.Minute
				s.now = s.now.Add(runtime)
				outcome := settle.Outcome{BackendID: m.CorrelationId, Received: s.now, Runtime: &runtime}
				if err := (settle.Store{Store: s.store}).ApplyOutcomes(t.Context(), []settle.Outcome{outcome}); err != nil {
					t.Fatal(err)
				}
				send(1)
			}
			first := slices.Index(served, "bulk")
			if ageing == 0 {
				if first >= 0 {
					t.Errorf("a message without priority was served: %v", served)
				}
				return
			}
			// Three urgent ones were before it when it was passed last.
			if first < 20 || first > 24 || slices.Contains(served[first+3:], "bulk") {
				t.Errorf("served: %v", served)
			}
			// Once they are served, the others pass again.
			n, err := testutil.GatherAndCount(reg, "swh_scheduler_dispatch_lowered_total")
			if err != nil || n != 1 || served[39] != "urgent" {
				t.Errorf("%d series of lowered messages, %v", n, err)
			}
		})
	}
}

// Work that has waited long lowers the priority of later messages to its own. It raises none, and has no effect in
// other queues.
func TestPrioritiesAreLoweredOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec(t, `insert into scheduler_go.work (task_id, state, queue, home, since, task_name, args, kwargs, share_group, cost, priority)
		values (gen_random_uuid(), 'sent', 'q', 'home', now() - interval '1 hour', 't', '[]', '{}', 'g', 1, 5)`)
	var got []uint8
	lowered := 0
	if err := b.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		var rows []ledger.Outgoing
		for _, w := range []ledger.Work{{Queue: "q", Share: ledger.Share{Priority: 3}}, {Queue: "q", Share: ledger.Share{Priority: 7}}, {Queue: "other", Share: ledger.Share{Priority: 7}}} {
			w.Home = "home"
			rows = append(rows, ledger.Outgoing{Work: w})
		}
		err := dispatch.LowerPriorities(ctx, tx, time.Now(), time.Minute, rows, func(string) { lowered++ })
		for _, row := range rows {
			got = append(got, row.Share.Priority)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if want := []uint8{3, 5, 7}; !slices.Equal(got, want) || lowered != 1 {
		t.Errorf("priorities %v, %d lowered; want %v, 1", got, lowered, want)
	}
}
