package dispatch_test

import (
	"context"
	"testing"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// A queue without a limit has at most MaxClaim outgoing messages, whether the broker is unreachable or refuses
// them. Delivery makes room.
func TestUnlimitedQueueIsBoundedByWhatIsOutgoing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	slots := dispatch.NewSlots(b.store, b.inspector, func() {})
	claim := func() int {
		t.Helper()
		n, err := claimWith(t.Context(), slots, dispatch.Queue{Name: "q"}, func(_ context.Context, _ *db.Tx, free int) ([]ledger.Work, error) {
			work, _ := messages("q", free)
			return work, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	exec := func(statement string) {
		t.Helper()
		testenv.Exec(t, b.store.Pool(), statement)
	}
	if n := claim(); n != dispatch.MaxClaim {
		t.Fatalf("the first claim took %d, want %d", n, dispatch.MaxClaim)
	}
	exec("update scheduler_go.work set not_before = now() + interval '1 hour', attempts = 1, last_error = 'refused'")
	if n := claim(); n != 0 {
		t.Errorf("%d claimed beside %d postponed ones", n, dispatch.MaxClaim)
	}
	exec("delete from scheduler_go.work where ctid in (select ctid from scheduler_go.work limit 300)") // as if they were delivered
	if n := claim(); n != 300 {
		t.Errorf("%d claimed after 300 were delivered", n)
	}
}
