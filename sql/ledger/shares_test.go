package ledger_test

import (
	"context"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// Charges of one minute add up in the history, whichever claim takes them.
func TestShareHistoryAddsUp(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	now := time.Now().Truncate(time.Minute)
	for range 2 {
		testenv.Exec(t, store.Pool(), "insert into scheduler_go.share_charges (queue, share_group, heard, seconds, pieces) values ('q', 'g', $1, 5, 1), ('q', 'g', $1, 6, 1)", now)
		if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Shares(ctx, "q", now, time.Hour)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got := testenv.Value[string](t, store.Pool(), "select seconds || ' ' || pieces from scheduler_go.share_history"); got != "22 4" {
		t.Errorf("seconds and messages %s, want 22 4", got)
	}
}
