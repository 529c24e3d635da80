package db_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/db"
)

// refuseCandidates makes PostgreSQL refuse candidates of some origins, as for a date out of range.
func refuseCandidates(t *testing.T, store *db.Store, urls string) {
	t.Helper()
	testenv.Exec(t, store.Pool(), `create or replace function refuse_some() returns trigger language plpgsql as $$
		begin
			if new.url in (`+urls+`) then
				raise sqlstate '22008' using message = 'interval out of range';
			end if;
			return new;
		end $$`)
	testenv.Exec(t, store.Pool(), "drop trigger if exists refuse_some on scheduler_go.candidates")
	testenv.Exec(t, store.Pool(), "create trigger refuse_some before insert or update on scheduler_go.candidates for each row execute function refuse_some()")
}

// If PostgreSQL refuses candidates of some origins, a drain, alone or in a grab, sets these origins aside
// and drains the others. The origins have no candidates until they are tried again.
func TestOddOriginsStopNoDrain(t *testing.T) {
	t.Parallel()
	for name, drain := range map[string]func(t testing.TB, store *db.Store){
		"drain": sqltest.Keep,
		"grab": func(t testing.TB, store *db.Store) {
			for range 2 {
				if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					_, err := tx.GrabNextVisits(ctx, model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns}, time.Now(), 1, false)
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			sqltest.Keep(t, store)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := testenv.OpenLocal(t, testenv.Database(t))
			sqltest.ListN(t, store, 6000)
			testenv.Exec(t, store.Pool(), "update listed_origins set first_seen = first_seen + interval '1 s' where url = 'https://example.org/7'") // two changes of one origin
			refuseCandidates(t, store, "'https://example.org/1', 'https://example.org/7', 'https://example.org/6000'")
			drain(t, store)
			aside := testenv.Column[string](t, store.Pool(), "select url || ' ' || reason from scheduler_go.set_aside_origins order by url")
			var want []string
			for _, n := range []int{1, 6000, 7} {
				want = append(want, fmt.Sprintf("https://example.org/%d refused by PostgreSQL: ERROR: interval out of range (SQLSTATE 22008)", n))
			}
			if diff := cmp.Diff(want, aside); diff != "" {
				t.Fatalf("set aside (-want +got):\n%s", diff)
			}
			sqltest.CheckCandidates(t, store)
			if n := testenv.Column[int64](t, store.Pool(), "select count(*) from scheduler_go.candidates"); n[0] != 5997 {
				t.Errorf("%d candidates, want 5997", n[0])
			}
			// An origin refused at a later change loses its candidate, which is outdated.
			refuseCandidates(t, store, "'https://example.org/8'")
			testenv.Exec(t, store.Pool(), "update listed_origins set first_seen = first_seen + interval '1 s' where url = 'https://example.org/8'")
			sqltest.Keep(t, store)
			sqltest.CheckCandidates(t, store)
			testenv.Exec(t, store.Pool(), "drop trigger refuse_some on scheduler_go.candidates")
			if err := store.RetrySetAside(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := testenv.Column[int64](t, store.Pool(), "select count(*) from scheduler_go.set_aside_origins"); n[0] != 4 {
				t.Errorf("%d of 4 stay set aside: they did not change, and Until has not passed", n[0])
			}
			testenv.Exec(t, store.Pool(), "update scheduler_go.set_aside_origins set until = now()")
			if err := store.RetrySetAside(t.Context()); err != nil {
				t.Fatal(err)
			}
			sqltest.Keep(t, store)
			sqltest.CheckCandidates(t, store)
			if n := testenv.Column[int64](t, store.Pool(), "select count(*) from scheduler_go.candidates"); n[0] != 6000 {
				t.Errorf("%d candidates, want 6000", n[0])
			}
		})
	}
}

// If PostgreSQL refuses all of many origins, the drain fails and sets none aside: the fault is not in the
// origins.
func TestAllRefusedAreNotSetAside(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	sqltest.ListN(t, store, 300)
	refuseCandidates(t, store, "new.url")
	if kept, err := store.MaintainCandidates(t.Context()); err == nil {
		t.Errorf("the drain went well: %+v", kept)
	}
	if n := testenv.Column[int64](t, store.Pool(), "select count(*) from scheduler_go.set_aside_origins"); n[0] != 0 {
		t.Errorf("%d origins are set aside", n[0])
	}
}

// A task that PostgreSQL refuses to release blocks no other task of a graph. It is set aside, and tried
// again with the next search for forgotten tasks.
func TestOddTaskStopsNoGraph(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name, default_interval) values ('t', '', 't', '1 day')")
	const n = 40
	testenv.Exec(t, store.Pool(), `insert into task (id, type, arguments, next_run, status, policy)
		select n, 't', '{}', case n when 1 then now() else scheduler_go.never() end, 'next_run_not_scheduled', 'oneshot' from generate_series(1, $1::int) n`, n)
	testenv.Exec(t, store.Pool(), "insert into scheduler_go.graphs (name, submitted) values ('g', now())")
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.graph_tasks (task, graph, name, any_result, dependencies, watch)
		select n, 1, n::text, false, case n when 1 then 0 else 1 end, case n when 1 then null else 1 end from generate_series(1, $1::int) n`, n)
	testenv.Exec(t, store.Pool(), "insert into scheduler_go.graph_edges select n, 1 from generate_series(2, $1::int) n", n)
	testenv.Exec(t, store.Pool(), `create function refuse_some() returns trigger language plpgsql as $$
		begin
			if new.id in (2, 17, 40) then
				raise sqlstate '22008' using message = 'timestamp out of range';
			end if;
			return new;
		end $$`)
	testenv.Exec(t, store.Pool(), "create trigger refuse_some before update on task for each row execute function refuse_some()")
	drain := func() (released int64) {
		t.Helper()
		for range 100 {
			round, err := store.AdvanceGraphs(t.Context(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			released += round.Released
			if !round.More {
				return released
			}
		}
		t.Fatal("the drain doesn't end")
		return 0
	}
	testenv.Exec(t, store.Pool(), "update task set status = 'completed' where id = 1")
	if got := drain(); got != n-4 {
		t.Errorf("%d of %d tasks were released", got, n-4)
	}
	aside := testenv.Column[int64](t, store.Pool(), "select task from scheduler_go.set_aside_tasks where reason like '%timestamp out of range%' order by task")
	if !slices.Equal(aside, []int64{2, 17, 40}) {
		t.Errorf("tasks %v are set aside", aside)
	}
	testenv.Exec(t, store.Pool(), "drop trigger refuse_some on task")
	testenv.Exec(t, store.Pool(), "update scheduler_go.walks set began = 'epoch'")
	if err := store.MendGraphs(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := drain(); got != 3 {
		t.Errorf("%d of 3 tasks were released later", got)
	}
}

// NewlySetAside returns each row once. A row set aside disappears with its task or origin.
func TestNewlySetAsideReturnsOnce(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	sqltest.ListN(t, store, 3)
	testenv.Exec(t, store.Pool(), "update listed_origins set extra_loader_arguments = '[]'")
	if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.GrabNextVisits(ctx, model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst}, time.Now(), 5, false)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{3, 0} {
		_, origins, err := store.NewlySetAside(t.Context())
		if err != nil || len(origins) != want {
			t.Errorf("call %d returned %v, %v", i, origins, err)
		}
	}
	testenv.Exec(t, store.Pool(), "delete from listed_origins where url like '%1'")
	testenv.Exec(t, store.Pool(), "update listed_origins set last_seen = now() + interval '1 day'") // like any listing
	if err := store.RetrySetAside(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := testenv.Column[int64](t, store.Pool(), "select count(*) from scheduler_go.set_aside_origins"); n[0] != 2 {
		t.Errorf("%d are set aside, want 2", n[0])
	}
}
