package db_test

import (
	"context"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// slowed is a store whose statements time out after a second, on a database where each row written to a
// table takes some milliseconds.
func slowed(t *testing.T, store *db.Store, dsn, table, milliseconds string) *db.Store {
	t.Helper()
	testenv.Exec(t, store.Pool(), `create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(`+milliseconds+` / 1000.0); return new; end $$`)
	testenv.Exec(t, store.Pool(), "create trigger slow before insert or update on "+table+" for each row execute function slow()")
	testenv.Exec(t, store.Pool(), `do $$ begin execute format('alter database %I set statement_timeout = ''1s''', current_database()); end $$`)
	return testenv.OpenLocal(t, dsn)
}

// repeat calls round until it is done, and ignores time-outs before.
func repeat(t *testing.T, round func(ctx context.Context) (done bool, err error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		done, err := round(ctx)
		switch {
		case ctx.Err() != nil:
			t.Fatalf("not done in time: %v", err)
		case err == nil && done:
			return
		case err != nil:
			t.Log(err)
		}
	}
}

// A drain of candidates that times out takes fewer changes the next time.
func TestDrainThatTimesOutIsHalved(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	sqltest.ListN(t, store, 2000)
	store = slowed(t, store, dsn, "scheduler_go.candidates", "1")
	repeat(t, func(ctx context.Context) (bool, error) {
		kept, err := store.MaintainCandidates(ctx)
		return !kept.More, err
	})
	sqltest.CheckCandidates(t, store)
}

// A single change that waits for longer than the statement timeout blocks no other visit type. It is
// drained once its lock is free, and never set aside.
func TestDrainThatWaitsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	sqltest.ListN(t, store, 3)
	testenv.Exec(t, store.Pool(), "update listed_origins set visit_type = 'hg' where url like '%3'")
	testenv.Exec(t, store.Pool(), "create table gate ()")
	testenv.Exec(t, store.Pool(), `create function wait() returns trigger language plpgsql as $$ begin
		if new.visit_type = 'git' then lock table gate; end if; return new; end $$`)
	testenv.Exec(t, store.Pool(), "create trigger wait before insert on scheduler_go.candidates for each row execute function wait()")
	testenv.Exec(t, store.Pool(), `do $$ begin execute format('alter database %I set lock_timeout = ''100ms''', current_database()); end $$`)
	slow := testenv.OpenLocal(t, dsn)
	err := store.InTx(t.Context(), func(ctx context.Context, _ *db.Tx) error {
		holder, err := store.Pool().Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = holder.Rollback(ctx) }()
		if _, err := holder.Exec(ctx, "lock table gate"); err != nil {
			return err
		}
		for range 4 {
			if _, err := slow.MaintainCandidates(ctx); !postgres.TimedOut(err) {
				t.Errorf("the drain ended with %v, want a time-out", err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := testenv.Column[int64](t, store.Pool(), "select count(*) from scheduler_go.candidates where visit_type = 'hg'"); n[0] != 1 {
		t.Errorf("%d candidates of the other visit type, want 1", n[0])
	}
	repeat(t, func(ctx context.Context) (bool, error) {
		kept, err := slow.MaintainCandidates(ctx)
		return !kept.More, err
	})
	sqltest.CheckCandidates(t, store)
	if n := testenv.Column[int64](t, store.Pool(), "select count(*) from scheduler_go.candidates"); n[0] != 3 {
		t.Errorf("%d candidates, want 3", n[0])
	}
}

// A build of candidates that times out takes shorter steps.
func TestBuildThatTimesOutIsHalved(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	sqltest.ListN(t, store, 2000)
	testenv.Exec(t, store.Pool(), "update scheduler_go.candidate_build set phase = 'empty'")
	store = slowed(t, store, dsn, "scheduler_go.candidates", "1")
	repeat(t, func(ctx context.Context) (bool, error) {
		kept, err := store.MaintainCandidates(ctx)
		return !kept.More, err
	})
	sqltest.CheckCandidates(t, store)
}

// A drain of graphs that times out takes fewer changes the next time.
func TestGraphsThatTimeOutAreHalved(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name, default_interval) values ('t', '', 't', '1 day')")
	testenv.Exec(t, store.Pool(), `insert into task (id, type, arguments, next_run, status, policy)
		select n, 't', '{}', case n when 1 then now() else scheduler_go.never() end, 'next_run_not_scheduled', 'oneshot' from generate_series(1, 201) n`)
	testenv.Exec(t, store.Pool(), "insert into scheduler_go.graphs (name, submitted) values ('g', now())")
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.graph_tasks (task, graph, name, any_result, dependencies, watch)
		select n, 1, n::text, false, case n when 1 then 0 else 1 end, case n when 1 then null else 1 end from generate_series(1, 201) n`)
	testenv.Exec(t, store.Pool(), "insert into scheduler_go.graph_edges select n, 1 from generate_series(2, 201) n")
	testenv.Exec(t, store.Pool(), "update task set status = 'completed' where id = 1")
	store = slowed(t, store, dsn, "task", "10")
	released := int64(0)
	repeat(t, func(ctx context.Context) (bool, error) {
		round, err := store.AdvanceGraphs(ctx, time.Now())
		released += round.Released
		return !round.More, err
	})
	if released != 200 {
		t.Errorf("%d of 200 tasks were released", released)
	}
}
