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
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/sql/db"
)

// hostClock is a host's clock that can be wrong.
type hostClock struct{ ahead time.Duration }

func (c *hostClock) now() time.Time { return time.Now().Add(c.ahead) }

// A host whose clock is wrong claims nothing, and says why; once the clock is right, it
// claims.
func TestWrongClocksClaimNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	host := &hostClock{}
	store := testenv.Open(t, b.dsn, db.Options{HostTime: host.now})
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
			_, err := slots.Claim(t.Context(), q,
				func(context.Context, *db.Tx, int) (dispatch.Claimed, error) {
					claims++
					return dispatch.Claimed{}, nil
				})
			_, wrong := errors.AsType[*db.ClockError](err)
			if wrong != (c.says != "") || !wrong && err != nil || claims != map[bool]int{false: 1}[wrong] || wrong && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s ahead, lanes %v: %d claims, %v", c.ahead, q.Lanes != nil, claims, err)
			}
		}
	}
}

// What a host with a wrong clock has delivered a moment ago counts for the others, whose
// management API doesn't show it yet.
func TestDeliveriesOfWrongClocksCount(t *testing.T) {
	t.Parallel()
	const limit = 20
	for _, ahead := range []time.Duration{-time.Hour, -time.Minute, time.Minute, time.Hour} {
		b := newBench(t)
		host := &hostClock{ahead}
		store := testenv.Open(t, b.dsn, db.Options{HostTime: host.now})
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
		if _, err := dispatch.NewSlots(b.store, inspector, func() {}).Claim(t.Context(), dispatch.Queue{Name: "q", Limit: new(int64(limit))},
			func(_ context.Context, _ *db.Tx, n int) (dispatch.Claimed, error) {
				free = n
				return dispatch.Claimed{}, nil
			}); err != nil || free != 0 {
			t.Errorf("%s ahead: %d slots are free in a full queue, %v", ahead, free, err)
		}
	}
}
