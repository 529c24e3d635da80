package runner_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/runner"
)

// slow makes each write of a row to a table take 20 ms, and statements of new connections time out after a second.
func (w *world) slow(t *testing.T, table string) {
	t.Helper()
	w.exec(t, `create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.02); return new; end $$`)
	w.exec(t, "create trigger slow before insert or update on "+table+" for each row execute function slow()")
	w.exec(t, `do $$ begin execute format('alter database %I set statement_timeout = ''1s''', current_database()); end $$`)
	w.store = testenv.Open(t, w.dsn)
}

// until repeats rounds until a number is done; time-outs before that are ignored.
func until(t *testing.T, want int, round func(ctx context.Context) (int, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for total := 0; total < want; {
		n, err := round(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d done within a minute: %v", total, want, err)
		}
		if total += n; err != nil {
			t.Log(err)
		}
	}
}

// After a claim of tasks that times out, the next claim is smaller.
func TestClaimThatTimesOutIsHalved(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	w.exec(t, "insert into task_type (type, description, backend_name) values ('a', '', 'swh.a')")
	w.exec(t, `insert into task (type, arguments, next_run, current_interval, status)
		select 'a', '{}', now(), '1 day', 'next_run_not_scheduled' from generate_series(1, 100)`)
	w.slow(t, "task")
	until(t, 100, w.runner(t, w.slots(t), false).RunOnce)
}

// After a claim of first visits that times out, the next claim is smaller.
func TestFirstVisitsThatTimeOutAreHalved(t *testing.T) {
	t.Parallel()
	w := openWorld(t)
	w.exec(t, "insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git')")
	w.exec(t, `insert into listers (id, name, instance_name, current_state, updated, last_listing_finished_at, first_visits_queue_prefix)
		values ('00000000-0000-0000-0000-000000000001', 'lister', '', '{}', now() - interval '1 hour', now(), 'first')`)
	w.exec(t, `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
		select '00000000-0000-0000-0000-000000000001', 'https://' || n, 'git', '{}', true, now() from generate_series(1, 100) n`)
	w.slow(t, "origin_visit_stats")
	f := runner.NewFirstVisits(runner.FirstVisitsOptions{
		Store: w.store, Slots: w.slots(t), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Reg: prometheus.NewRegistry(),
	})
	until(t, 100, f.RunOnce)
}
