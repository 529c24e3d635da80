package recurrent

import (
	"context"
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
)

// A claim reads the visits in flight of hosters with a limit now, not the others in the ledger. With a default limit it
// reads all of them.
func TestClaimsReadTheVisitsOfLimitedHosters(t *testing.T) {
	t.Parallel()
	hosters := model.Hosters{LostAfter: time.Hour, Backoff: &model.DefaultHosterBackoff, Limits: map[string]model.HosterLimit{"few.example": {MaxInFlight: 7}}}
	dsn := testenv.Database(t)
	testenv.Migrate(t, dsn, migrate.Options{Hosters: hosters})
	store := testenv.OpenLocal(t, dsn+"?pool_max_conns=1")
	for _, statement := range []string{
		"alter table scheduler_go.work set (autovacuum_enabled = false)", // autovacuum would read blocks, too
		`insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'gitea', 'forge', '{}', now())`,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			select '00000000-0000-0000-0000-000000000001', 'https://' || host || '/' || n, 'git', '{}', true, now() from unnest(array['busy.example', 'few.example', 'calm.example']) host, generate_series(1, 20) n`,
		`insert into scheduler_go.refusing_hosters values ('busy.example', 3, 'epoch', 10, 'epoch', 'epoch', 0, 0, 'epoch', 'epoch', 0, now(), 'too_many', '', 0, 'epoch', false)`,
		`insert into scheduler_go.work (task_id, state, queue, home, since, task_name, args, kwargs, hosters)
			select gen_random_uuid(), 'sent', 'q', 'q', now(), 't', '[]', '{}', array['gitlab/' || n % 100, case when n % 5000 = 1 then 'few.example' else 'host' || n % 1000 end] from generate_series(1, 20000) n`,
		`insert into scheduler_go.work (task_id, state, queue, home, since, task_name, args, kwargs, hosters)
			select gen_random_uuid(), 'sent', 'q', 'q', now(), 't', '[]', '{}', array['gitea/forge', 'busy.example'] from generate_series(1, 3) n`,
		"vacuum analyze scheduler_go.work",
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	all := testenv.Value[int](t, store.Pool(), "select pg_relation_size('scheduler_go.work') / 8192")
	claim := func(hosters model.Hosters) (blocks int, hosts map[string]int) {
		t.Helper()
		store := store.With(db.Rules{Hosters: hosters})
		before := sqltest.BlocksOf(t, store, "work")
		hosts = map[string]int{}
		if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			picked, err := (Picker{VisitType: "git", Policies: evenly}).Pick(ctx, tx, time.Now(), 60)
			for _, v := range picked.Visits {
				hosts[model.HostOf(v.Origin.URL)]++
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		testenv.Exec(t, store.Pool(), "update origin_visit_stats set last_scheduled = null")
		return sqltest.BlocksOf(t, store, "work") - before, hosts
	}
	const most = 60
	if all < 3*most {
		t.Fatalf("the ledger has %d blocks", all)
	}
	for range 7 { // also with a plan that PostgreSQL keeps
		blocks, hosts := claim(hosters)
		if hosts["busy.example"] != 0 || hosts["few.example"] != 3 || hosts["calm.example"] != 20 {
			t.Errorf("claimed %v", hosts)
		}
		if blocks > most {
			t.Errorf("a claim reads %d blocks of the ledger, which has %d", blocks, all)
		}
	}
	hosters.Default = model.HosterLimit{MaxInFlight: 10}
	blocks, hosts := claim(hosters)
	if blocks < all || hosts["busy.example"] != 0 || hosts["few.example"] != 3 || hosts["calm.example"] != 4 {
		t.Errorf("with a default limit, %v are claimed, and %d blocks are read", hosts, blocks)
	}
}
