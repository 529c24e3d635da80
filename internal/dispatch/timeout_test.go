package dispatch_test

import (
	"log/slog"
	"testing"
	"time"

	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/postgres"
)

// A backlog is sent in parts if one statement for all of it times out.
func TestBacklogThatTimesOutIsHalved(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(100, 100)...)
	l.exec(`insert into scheduler_go.work (task_id, state, lane_set, lane, since, claimed, task_name, args, kwargs, queue, home, memory, lister, first, behind)
		select gen_random_uuid(), 'backlog', 'load-git', 0, now(), now(), 'x', '[]', '{}', $1, $1, 0, '', false, 0 from generate_series(1, 80)`, lanedQueue)
	l.exec(`create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.02); return new; end $$`)
	l.exec("create trigger slow before update on scheduler_go.work for each row execute function slow()")
	l.exec(`do $$ begin execute format('alter database %I set statement_timeout = ''1s''', current_database()); end $$`)
	l.store.Pool().Reset() // new connections
	testenv.Becomes(t, "outgoing messages", 80, func() int {
		if err := l.slots.SendBacklogs(t.Context(), l.q); err != nil && !postgres.TimedOut(err) {
			t.Fatal(err)
		}
		return l.count("scheduler_go.work where state = 'outgoing'")
	})
}

// Work is given up or deleted in parts if one statement for all of it times out.
func TestGivingUpThatTimesOutIsHalved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	exec := func(statement string) {
		t.Helper()
		testenv.Exec(t, b.store.Pool(), statement)
	}
	sent(t, b, "settled", 100)
	exec("update scheduler_go.work set state = 'settled', settled = now()")
	sent(t, b, "given up", 100)
	exec(`create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.02); return old; end $$`)
	exec("create trigger slow before delete on scheduler_go.work for each row execute function slow()")
	exec(`do $$ begin execute format('alter database %I set statement_timeout = ''1s''', current_database()); end $$`)
	b.store.Pool().Reset() // new connections
	m := maintenance.GiveUpWork{Store: b.store, Broker: b.inspector, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	later := time.Now().Add(30 * 24 * time.Hour)
	testenv.Becomes(t, "giving up", nil, func() error {
		_, err := m.GiveUp(t.Context(), later)
		if err != nil && !postgres.TimedOut(err) {
			t.Fatal(err)
		}
		return err
	})
	if left := testenv.Value[int](t, b.store.Pool(), "select count(*) from scheduler_go.work"); left > 0 {
		t.Errorf("%d messages are left", left)
	}
}
