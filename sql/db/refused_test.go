package db_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/origins"
)

// refuseMarks makes PostgreSQL refuse changes of some rows, as a trigger of the operator's might.
func refuseMarks(t *testing.T, store *db.Store, table, condition string) {
	t.Helper()
	testenv.Exec(t, store.Pool(), `create or replace function refuse_mark() returns trigger language plpgsql as $$
		begin if `+condition+` then raise exception 'not this one'; end if; return new; end $$`)
	testenv.Exec(t, store.Pool(), "drop trigger if exists refuse_mark on "+table+"; create trigger refuse_mark before insert or update on "+table+" for each row execute function refuse_mark()")
}

// If PostgreSQL refuses to mark tasks as scheduled, the claim sets them aside with the reason and claims
// others instead.
func TestRefusedTasksStopNoClaim(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]ledger.TaskClaim{
		"plain":    {Groups: []ledger.TaskGroup{{Count: 20}}},
		"priority": {Groups: []ledger.TaskGroup{{Count: 20}}, WithPriority: true},
		"groups":   {Groups: []ledger.TaskGroup{{Name: "a", Count: 8, Cost: 1}, {Name: "b", Count: 12, Cost: 1}}, By: "kwargs.of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := testenv.OpenLocal(t, testenv.Database(t))
			testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name, default_interval) values ('t', '', 't', '1 day')")
			testenv.Exec(t, store.Pool(), `insert into task (id, type, arguments, next_run, status, policy, priority)
				select n, 't', jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('of', case n % 2 when 0 then 'a' else 'b' end)), timestamptz '2020-01-01' + n * interval '1 s',
					'next_run_not_scheduled', 'oneshot', case when $1 then 'high'::task_priority end from generate_series(1, 40) n`, c.WithPriority)
			refuseMarks(t, store, "task", "new.status = 'next_run_scheduled' and new.id in (1, 2, 10)")
			c.Type, c.Queue, c.Now = model.TaskType{Type: "t", BackendName: "t"}, "t", time.Now()
			err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				taken, work, err := tx.ClaimTasks(ctx, c)
				n := 0
				for _, of := range taken {
					n += of
				}
				if n != 20 || len(work) != 20 {
					t.Errorf("%v tasks and %d messages were claimed, want 20", taken, len(work))
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if n := testenv.Column[int64](t, store.Pool(), "select count(*) from task join task_run r on r.task = task.id where task.status = 'next_run_scheduled'")[0]; n != 20 {
				t.Errorf("%d tasks are marked and have a run, want 20", n)
			}
			aside := testenv.Column[string](t, store.Pool(), "select task || ' ' || reason from scheduler_go.set_aside_tasks order by task")
			var want []string
			for _, n := range []int{1, 2, 10} {
				want = append(want, fmt.Sprintf("%d refused by PostgreSQL: ERROR: not this one (SQLSTATE P0001)", n))
			}
			if diff := cmp.Diff(want, aside); diff != "" {
				t.Errorf("set aside (-want +got):\n%s", diff)
			}
		})
	}
}

// If PostgreSQL refuses to mark origins as scheduled, the grab sets them aside with the reason and marks
// the others.
func TestRefusedOriginsStopNoGrab(t *testing.T) {
	t.Parallel()
	for name, grab := range map[string]func(ctx context.Context, tx *db.Tx, store *db.Store) (int, error){
		"of candidates": func(ctx context.Context, tx *db.Tx, _ *db.Store) (int, error) {
			o, err := tx.GrabNextVisits(ctx, model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns}, time.Now(), 100, false)
			return len(o), err
		},
		"of the tables": func(ctx context.Context, tx *db.Tx, _ *db.Store) (int, error) {
			cooldowns := model.DefaultCooldowns
			cooldowns.Absolute += time.Second                                                                                                                       // candidates know only the default
			o, err := tx.GrabNextVisits(ctx, model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst, Cooldowns: cooldowns}, time.Now(), 100, false) // candidates have the default cooldown only
			return len(o), err
		},
		"of groups": func(ctx context.Context, tx *db.Tx, store *db.Store) (int, error) {
			all, err := store.Listers(ctx)
			if err != nil {
				return 0, err
			}
			o, err := tx.Grabs(time.Now()).Grouped(ctx, model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns},
				[]origins.VisitGroup{{Listers: []uuid.UUID{all[0].ID}, Count: 100}})
			return len(o), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := testenv.OpenLocal(t, testenv.Database(t))
			sqltest.ListN(t, store, 100)
			sqltest.Keep(t, store)
			refuseMarks(t, store, "origin_visit_stats", "new.url in ('https://example.org/1', 'https://example.org/7', 'https://example.org/99')")
			for _, want := range []int{97, 0} {
				if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					n, err := grab(ctx, tx, store)
					if err == nil && n != want {
						t.Errorf("%d origins, want %d", n, want)
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			if n := testenv.Column[int64](t, store.Pool(), "select count(*) from origin_visit_stats where last_scheduled is not null")[0]; n != 97 {
				t.Errorf("%d origins are marked, want 97", n)
			}
			aside := testenv.Column[string](t, store.Pool(), "select url || ' ' || reason from scheduler_go.set_aside_origins order by url")
			var want []string
			for _, n := range []int{1, 7, 99} {
				want = append(want, fmt.Sprintf("https://example.org/%d refused by PostgreSQL: ERROR: not this one (SQLSTATE P0001)", n))
			}
			if diff := cmp.Diff(want, aside); diff != "" {
				t.Errorf("set aside (-want +got):\n%s", diff)
			}
			sqltest.Keep(t, store)
			sqltest.CheckCandidates(t, store)
		})
	}
}

// If PostgreSQL refuses all marks of many rows, the claim fails and sets none aside: the fault is not in
// the rows.
func TestAllRefusedMarksAreNotSetAside(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	sqltest.ListN(t, store, 150)
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name, default_interval) values ('t', '', 't', '1 day')")
	testenv.Exec(t, store.Pool(), `insert into task (type, arguments, next_run, status, policy) select 't', '{}', '2020-01-01', 'next_run_not_scheduled', 'oneshot' from generate_series(1, 150) n`)
	refuseMarks(t, store, "task", "true")
	refuseMarks(t, store, "origin_visit_stats", "true")
	for _, claim := range []func(ctx context.Context, tx *db.Tx) error{
		func(ctx context.Context, tx *db.Tx) error {
			_, _, err := tx.ClaimTasks(ctx, ledger.TaskClaim{Type: model.TaskType{Type: "t", BackendName: "t"}, Queue: "t", Now: time.Now(), Groups: []ledger.TaskGroup{{Count: 150}}})
			return err
		},
		func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.GrabNextVisits(ctx, model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst}, time.Now(), 150, false)
			return err
		},
	} {
		if err := store.InTx(t.Context(), claim); err == nil || !strings.Contains(err.Error(), "not this one") {
			t.Errorf("%v, want PostgreSQL's error", err)
		}
	}
	if n := testenv.Column[int64](t, store.Pool(), "select (select count(*) from scheduler_go.set_aside_tasks) + (select count(*) from scheduler_go.set_aside_origins)")[0]; n != 0 {
		t.Errorf("%d are set aside", n)
	}
}
