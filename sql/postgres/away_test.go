package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// IsUnreachable is true for a database that is unreachable, cuts the connection or shuts down, and false for its
// answers.
func TestIsAway(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	through, proxy := testenv.Through(t, dsn, testenv.Proxy)
	store := testenv.OpenLocal(t, through)
	_, answer := store.Pool().Exec(t.Context(), "select 1/0")
	cut := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		proxy.Cut()
		_, err := tx.TaskTypes(ctx)
		return err
	})
	_, refused := store.TaskTypes(t.Context())
	proxy.Restore()
	killed := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		if _, err := tx.TaskTypes(ctx); err != nil {
			return err
		}
		testenv.Exec(t, store.Pool(), "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
		_, err := tx.TaskTypes(ctx)
		return err
	})
	for name, tc := range map[string]struct {
		err  error
		away bool
	}{
		"none": {nil, false}, "another": {errors.New("x"), false}, "answer": {answer, false},
		"cut": {fmt.Errorf("read: %w", cut), true}, "refused": {refused, true}, "killed": {killed, true},
	} {
		if got := postgres.IsUnreachable(tc.err); got != tc.away {
			t.Errorf("%s: %v is away: %v", name, tc.err, got)
		}
	}
}
