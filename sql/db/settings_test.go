package db_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/db"
)

// After a grab, its transaction has the session's settings again for JIT and plans.
func TestGrabsLeaveSettings(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	sqltest.Keep(t, store)
	if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		settings := func() (all string) {
			if err := tx.Raw.QueryRow(ctx, "select string_agg(name || '=' || setting, ' ' order by name) from pg_settings where name ~ '^(enable_.*|jit)$'").Scan(&all); err != nil {
				t.Fatal(err)
			}
			return all
		}
		before := settings()
		for _, dryRun := range []bool{true, false} {
			if _, err := tx.GrabNextVisits(ctx, model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst}, time.Now(), 1, dryRun); err != nil {
				return err
			}
			if after := settings(); after != before {
				t.Errorf("dry run %t: %s\nbefore: %s", dryRun, after, before)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A stopped process that claims for a queue loses its transaction, and the queue's lock, sooner than other
// sessions do. An explicit setting takes precedence.
func TestQueuesAreHeldForLess(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	for keys, want := range map[string]string{"": "10s", "options=-c%20idle_in_transaction_session_timeout%3D1d": "1d"} {
		address := testenv.URL(t, dsn)
		address.RawQuery = keys // a test server's address has none
		store := testenv.OpenLocal(t, address.String())
		var within, after string
		err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return errors.Join(tx.LockQueues(ctx, "q", "r"), tx.Raw.QueryRow(ctx, "show idle_in_transaction_session_timeout").Scan(&within))
		})
		if err == nil {
			err = store.Pool().QueryRow(t.Context(), "show idle_in_transaction_session_timeout").Scan(&after)
		}
		if err != nil {
			t.Fatal(err)
		}
		if within != want || keys == "" && after != "30s" {
			t.Errorf("%q: idle transactions that hold a queue end after %s, others after %s; want %s", keys, within, after, want)
		}
	}
}
