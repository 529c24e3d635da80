package process

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"swh-scheduler/internal/service"
	"swh-scheduler/internal/testenv"
)

// A daemon that claims nothing, such as a listener, or a runner without a ready task, follows the database's clock. That differs
// from the monotonic clock after a pause of the daemon's host, a failover, or a step of the database's clock.
func TestIdleDaemonsFollowTheDatabasesClock(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.Open(t, dsn)
	testenv.Exec(t, store.Pool(), `
create schema stepped;
create table stepped.by (step interval);
insert into stepped.by values ('0');
create function stepped.statement_timestamp() returns timestamptz language sql as 'select pg_catalog.statement_timestamp() + step from stepped.by';
create function stepped.clock_timestamp() returns timestamptz language sql as 'select pg_catalog.clock_timestamp() + step from stepped.by';
do $$ begin execute format('alter database %I set search_path = stepped, pg_catalog, public', current_database()); end $$;
insert into task_type (type, description, backend_name) values ('x', '', 'swh.x')`)
	store.Pool().Reset()
	if err := store.ReadTime(t.Context()); err != nil {
		t.Fatal(err)
	}
	testenv.Exec(t, store.Pool(), "update stepped.by set step = '1 hour'")
	testenv.Exec(t, store.Pool(), "insert into task (type, arguments, next_run, current_interval, status, priority) values ('x', '{}', clock_timestamp(), '1 day', 'next_run_not_scheduled', 'high')")

	p := &Process{Options: Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))}, Store: store, Health: service.NewHealth()}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.contactWithDatabase().Run(ctx) })
	defer running.Wait()
	defer stop()
	var ready []string
	for end := time.Now().Add(2 * contactPeriod); ready == nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var err error
		if ready, err = store.ReadyTaskTypes(t.Context(), store.Now(), true, nil); err != nil {
			t.Fatal(err)
		}
	}
	if ready == nil {
		t.Errorf("a task that is ready isn't found; the time is %s for the daemon and an hour later for the database", store.Now().Format(time.TimeOnly))
	}
}
