package ledger_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/db"
)

// errAgain rolls back a grab, so that the test can repeat it.
var errAgain = errors.New("to be grabbed again")

// behinds grabs all visits, if grabbed. It returns, by the origin's name, the seconds from the last visit
// to the last update.
func behinds(t *testing.T, store *db.Store, policy model.VisitPolicy, grabbed bool) map[string]float64 {
	t.Helper()
	found := make(map[string]float64)
	if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		urls := []string{"both", "former", "latter", "other disabled", "none", "one", "never", "far", "unlisted"}
		updated := make([]float64, len(urls))
		if grabbed {
			visits, err := tx.Grabs(time.Now()).Next(ctx, model.VisitFilter{VisitType: "git", Policy: policy}, 100)
			if err != nil || len(visits) == 0 {
				t.Errorf("%d grabbed, %v", len(visits), err)
			}
			for _, v := range visits {
				updated[slices.Index(urls, v.Origin.URL)] = v.Updated
			}
		}
		features, err := tx.LaneFeatures(ctx, urls, urls, "git", updated)
		for i, f := range features {
			found[urls[i]] = f.Behind
		}
		return errors.Join(err, errAgain)
	}); err == nil || err.Error() != errAgain.Error() {
		t.Fatal(err)
	}
	return found
}

// An origin's lag uses the latest update of all its listers, enabled or not, whether the grab or
// LaneFeatures reads it.
func TestUpdatesAreThoseOfAllListers(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), `insert into listers (id, name, instance_name, current_state, updated)
		select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'l', n, '{}', now() from generate_series(1, 2) n`)
	testenv.Exec(t, store.Pool(), `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
		select ('00000000-0000-0000-0000-00000000000' || lister)::uuid, url, 'git', '{}', enabled, now(), date::timestamptz from (values
			(1, 'both', true, '2020-01-01 00:00:10Z'), (2, 'both', true, '2020-01-01 00:00:20Z'),
			(1, 'former', true, '2020-01-01 00:00:30Z'), (2, 'former', true, null),
			(1, 'latter', true, null), (2, 'latter', true, '2020-01-01 00:00:40Z'),
			(1, 'other disabled', true, null), (2, 'other disabled', false, '2020-01-01 00:00:50Z'),
			(1, 'none', true, null), (2, 'none', true, null),
			(1, 'one', true, '2020-01-01 00:01:00.5Z'),
			(1, 'never', true, '2020-01-01 00:01:00Z'),
			(1, 'far', true, '2020-01-01 00:01:00Z'), (2, 'far', true, 'infinity')) o (lister, url, enabled, date)`)
	testenv.Exec(t, store.Pool(), `insert into origin_visit_stats (url, visit_type, last_visit, last_snapshot, last_successful)
		select distinct url, 'git', '2020-01-01Z'::timestamptz, '\x00'::bytea, '2020-01-01Z'::timestamptz from listed_origins where url <> 'never'
		union all select 'unlisted', 'git', '2020-01-01Z', '\x00', '2020-01-01Z'`)
	want := map[string]float64{"both": 20, "former": 30, "latter": 40, "other disabled": 50, "none": 0, "one": 60.5, "never": 0, "far": 0, "unlisted": 0}
	check := func(name string, grabbed bool, policies ...model.VisitPolicy) {
		t.Helper()
		for _, policy := range policies {
			if diff := cmp.Diff(want, behinds(t, store, policy, grabbed)); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", name, policy, diff)
			}
		}
	}
	check("looked up", false, "")
	check("grabbed with changes pending", true, model.OldestScheduledFirst, model.OriginsWithoutLastUpdate)
	sqltest.Keep(t, store)
	check("grabbed", true, model.OldestScheduledFirst, model.OriginsWithoutLastUpdate, model.AlreadyVisitedOrderByLag)
}

// LaneFeatures of grabbed visits doesn't read listed origins: the grab has read them.
func TestLanesDontReadGrabbedOriginsAgain(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t)+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), `insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'l', '', '{}', now())`)
	testenv.Exec(t, store.Pool(), `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
		select '00000000-0000-0000-0000-000000000001', n, 'git', '{}', true, now(), now() from generate_series(1, 1000) n`)
	testenv.Exec(t, store.Pool(), "insert into origin_visit_stats (url, visit_type, last_visit) select url, 'git', now() - interval '1 year' from listed_origins")
	sqltest.Keep(t, store)
	testenv.Exec(t, store.Pool(), "vacuum analyze")
	testenv.Exec(t, store.Pool(), "alter table listed_origins set (autovacuum_enabled = false)") // autovacuum would read blocks, too
	read := func(features bool) int {
		t.Helper()
		before := sqltest.BlocksOf(t, store, "listed_origins")
		if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			visits, err := tx.Grabs(time.Now()).Next(ctx, model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst}, 1000)
			if err != nil || len(visits) != 1000 {
				t.Fatal(len(visits), err)
			}
			if !features {
				return errAgain
			}
			var urls []string
			var updated []float64
			for _, v := range visits {
				urls, updated = append(urls, v.Origin.URL), append(updated, v.Updated)
			}
			found, err := tx.LaneFeatures(ctx, urls, urls, "git", updated)
			if err == nil && found[0].Behind == 0 {
				t.Error("nothing is known: the test shows nothing")
			}
			return errors.Join(err, errAgain)
		}); err == nil || err.Error() != errAgain.Error() {
			t.Fatal(err)
		}
		return sqltest.BlocksOf(t, store, "listed_origins") - before
	}
	grab := read(false)
	if both := read(true); both > grab+10 || grab < 1000 {
		t.Errorf("a grab reads %d blocks of listed origins, and %d with what is known of them", grab, both)
	}
}
