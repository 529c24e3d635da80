package origins_test

import (
	"context"
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/db"
)

// A drain of changes by visits, or by a claim beside another drain, reads no listed origins.
func TestDrainOfVisitsReadsNoListedOrigins(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), "alter table listed_origins set (autovacuum_enabled = false)") // autovacuum would read blocks, too
	sqltest.ListN(t, store, 1000)
	sqltest.Keep(t, store)
	draining := testenv.Connect(t, dsn)
	for name, change := range map[string]func(){
		"a claim": func() {
			testenv.Exec(t, draining, "select pg_advisory_lock(hashtextextended('swh-scheduler candidates', 0))")
			defer testenv.Exec(t, draining, "select pg_advisory_unlock_all()")
			if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				visits, err := tx.GrabNextVisits(ctx, model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns}, time.Now(), 100, false)
				if len(visits) != 100 {
					t.Errorf("%d visits were claimed", len(visits))
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		},
		"visits": func() {
			testenv.Exec(t, store.Pool(), `insert into origin_visit_stats as s (url, visit_type, last_visit, last_visit_status, last_successful, last_snapshot)
				select url, 'git', now(), 'successful', now(), '\x00' from listed_origins where url like '%7'
				on conflict (url, visit_type) do update set last_visit = now(), last_visit_status = 'successful', last_successful = now(), last_snapshot = '\x00'`)
		},
	} {
		change()
		if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.candidate_changes where not listed"); n != 100 {
			t.Errorf("%s noted %d origins as changed by visits", name, n)
		}
		before := sqltest.BlocksOf(t, store, "listed_origins")
		if n := testenv.Value[int](t, store.Pool(), "select scheduler_go.drain_candidates('git', 1000)"); n != 100 {
			t.Errorf("%s: %d changes were drained", name, n)
		}
		if n := sqltest.BlocksOf(t, store, "listed_origins") - before; n > 20 { // a look-up reads at least one for each of 100 origins
			t.Errorf("%s: the drain read %d blocks of what listers write", name, n)
		}
		sqltest.CheckCandidates(t, store)
	}
}

// Changes of an origin by a lister and by a visit are drained together, in either order.
func TestDrainOfVisitsAndListings(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t)+"?pool_max_conns=1")
	sqltest.ListN(t, store, 10)
	testenv.Exec(t, store.Pool(), "update listed_origins set enabled = false where url like '%9'")
	sqltest.Keep(t, store)
	const visit = `insert into origin_visit_stats as s (url, visit_type, last_visit, last_visit_status, last_scheduled) select url, 'git', now(), 'failed', now() from listed_origins
		on conflict (url, visit_type) do update set last_visit = now(), last_visit_status = 'failed', last_scheduled = now()`
	for _, list := range []string{
		"update listed_origins set last_update = now(), is_fork = true, first_seen = '2020-01-01'",
		"update listed_origins set enabled = not enabled",
		"update listed_origins set url = url || '/'",
		"delete from listed_origins where url like '%5/'",
		"insert into scheduler_go.set_aside_origins (lister_id, url, visit_type, content, reason) select lister_id, url, visit_type, '', '' from listed_origins where url like '%4/'",
		"delete from scheduler_go.set_aside_origins",
		"delete from origin_visit_stats",
	} {
		for name, statements := range map[string][]string{"visited": {visit, list}, "listed": {list, visit}} {
			testenv.Exec(t, store.Pool(), "begin")
			for _, statement := range statements {
				testenv.Exec(t, store.Pool(), statement)
			}
			testenv.Exec(t, store.Pool(), "commit")
			if n := testenv.Value[int](t, store.Pool(), "select scheduler_go.drain_candidates('git', 1000)"); n == 0 {
				t.Errorf("%s first, %s: nothing was drained", name, list)
			}
			sqltest.CheckCandidates(t, store)
			if t.Failed() {
				t.Fatalf("%s first, %s", name, list)
			}
		}
	}
}
