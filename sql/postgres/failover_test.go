package postgres_test

import (
	"context"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

// The primary dies and its standby is promoted; later that one dies, with the old primary as its standby. A
// store whose DSN names both continues within the bound each time, and no acknowledged commit is lost.
func TestStoreFollowsThePrimary(t *testing.T) {
	t.Parallel()
	const bound = 45 * time.Second
	pair := testenv.PostgresPair(t)
	testenv.Migrate(t, pair.DSN(), migrate.Options{})
	store := testenv.OpenLocal(t, pair.DSN())
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	added := 0
	add := func(ctx context.Context) error {
		_, err := store.Pool().Exec(ctx, "insert into task (type, arguments, next_run, policy, status) values ('load-git', '{}', now(), 'oneshot', 'next_run_not_scheduled')")
		if err == nil {
			added++
		}
		return err
	}
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.load.git')")
	for round := range 2 {
		if round > 0 {
			pair.Rejoin()
		}
		for range 100 {
			if err := add(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		pair.Kill()
		pair.Promote()
		serves := time.Now()
		deadline, cancel := context.WithTimeout(t.Context(), bound)
		for err := add(deadline); err != nil; err = add(deadline) {
			if deadline.Err() != nil {
				t.Fatalf("%s after the promotion: %v", bound, err)
			}
			<-poll.C
		}
		cancel()
		t.Logf("the store goes on %s after the promotion", time.Since(serves).Round(time.Millisecond))
	}
	if found := testenv.Value[int](t, store.Pool(), "select count(*) from task"); found < added {
		t.Errorf("%d of %d tasks are there", found, added)
	}
}

// The primary is stopped with its connections open, and its standby is promoted. The kernel still answers
// keepalives and acknowledges data, so no TCP time-out ends these connections. The store continues within
// the bound.
func TestStoreLeavesAStoppedPrimary(t *testing.T) {
	t.Parallel()
	pair := testenv.PostgresPair(t)
	store := testenv.OpenLocal(t, pair.DSN())
	if err := sleep(t.Context(), store, 0); err != nil {
		t.Fatal(err)
	}
	resume := pair.Stop()
	defer resume()
	pair.Promote()
	stopped := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), silenceBound)
	defer cancel()
	for err := sleep(ctx, store, 0); err != nil; err = sleep(ctx, store, 0) {
		if ctx.Err() != nil {
			t.Fatalf("%s after the promotion: %v", silenceBound, err)
		}
	}
	t.Logf("the store goes on %s after the promotion", time.Since(stopped).Round(time.Millisecond))
}
