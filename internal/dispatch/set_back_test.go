package dispatch_test

import (
	"context"
	"testing"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// After the database's clock was set back, what was delivered and claimed before has dates in the future. It holds no slots of a
// queue, and no visits of a hoster, until that time comes.
func TestSlotsAfterTheDatabasesClockIsSetBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for queue, by := range map[string]string{"an hour": "1 hour", "a year": "1 year"} {
		testenv.Exec(t, b.store.Pool(), "insert into scheduler_go.deliveries (queue, delivered_at, messages) values ($1, now() + $2::text::interval, 10)", queue, by)
		testenv.Exec(t, b.store.Pool(), "insert into scheduler_go.hoster_claims (hoster, claimed, visits, paced) values ($1, now() + $2::text::interval, 60, now() + $2::text::interval)", queue, by)
		free := 0
		if _, err := claimWith(t.Context(), dispatch.NewSlots(b.store, b.inspector, func() {}), dispatch.Queue{Name: queue, Limit: new(int64(10))}, func(_ context.Context, _ *db.Tx, n int) ([]ledger.Work, error) {
			free = n
			return nil, nil
		}); err != nil || free != 10 {
			t.Errorf("set back by %s: %d slots are free, want 10: %v", by, free, err)
		}
		for _, of := range [][]string{nil, {queue}} {
			loads, err := b.store.HosterLoads(t.Context(), model.Hosters{}, of, time.Now())
			if n := loads[queue].LastMinute; err != nil || n != 0 {
				t.Errorf("set back by %s: %d visits count as claimed in the last minute, want 0: %v", by, n, err)
			}
		}
	}
	if err := b.store.ForgetDeliveries(t.Context(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n := testenv.Column[int64](t, b.store.Pool(), "select count(*) from scheduler_go.deliveries"); n[0] != 0 {
		t.Errorf("%d deliveries are kept until their dates", n[0])
	}
}
