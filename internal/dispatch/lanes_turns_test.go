package dispatch_test

import (
	"context"
	"testing"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// Claims for a queue write its groups' state one after another, also while only some processes have lanes, with
// other queue names, for it.
func TestClaimsWithAndWithoutLanesTakeTurns(t *testing.T) {
	t.Parallel()
	lanes := two(4, 4)
	lanes[1].Queue = "slow:{backend_name}"
	l := newLaned(t, lanes...)
	plain := dispatch.Queue{Name: l.q.Name, Limit: l.q.Limit}
	began, end := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		_, err := claimWith(t.Context(), l.slots, plain, func(ctx context.Context, _ *db.Tx, _ int) ([]ledger.Work, error) {
			close(began)
			<-end
			return nil, nil
		})
		ended <- err
	}()
	<-began
	entered := make(chan struct{})
	other := make(chan error, 1)
	go func() {
		_, err := claimWith(t.Context(), l.slots, l.q, func(context.Context, *db.Tx, int) ([]ledger.Work, error) {
			close(entered)
			return nil, nil
		})
		other <- err
	}()
	testenv.Becomes(t, "the other claim waits", true, func() bool {
		select {
		case <-entered:
			t.Error("a claim with lanes runs beside one without for the same queue")
			return true
		default:
			return l.count("pg_stat_activity where datname = current_database() and wait_event = 'advisory'") > 0
		}
	})
	close(end)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := <-other; err != nil {
		t.Error(err)
	}
}
