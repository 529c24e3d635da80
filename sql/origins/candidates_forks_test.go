package origins_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/migrate"
)

// ofForks are policies that divide originals and forks.
var ofForks = map[string][]model.WeightedPolicy{"git": {{Weight: 1, Forks: 0.1, Filter: model.VisitFilter{Policy: model.OldestScheduledFirst}}}}

// A grab of originals or of forks picks the same from candidates as from the tables: with drained and
// pending changes, new forks, one lister, or other cooldowns.
func TestGrabOfForks(t *testing.T) {
	t.Parallel()
	w := newOwnWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	r := seed.Rand(t)
	w.exec(t, "update listed_origins set is_fork = case when hashtext(url) % 3 = 0 then true when hashtext(url) % 3 = 1 then false end")
	sqltest.Keep(t, w.store)
	if forks := testenv.Value[int](t, w.store.Pool(), "select count(*) from scheduler_go.candidates where fork"); forks > 0 {
		t.Errorf("%d candidates are marked as forks although nothing asks for that", forks)
	}
	testenv.Migrate(t, w.dsn, migrate.Options{Policies: ofForks})
	sqltest.CheckCandidates(t, w.store)
	if again := testenv.Migrate(t, w.dsn, migrate.Options{Policies: ofForks}); !again.Nothing() {
		t.Errorf("the second run did %+v, want nothing", again)
	}
	compared := 0
	for i := range 30 {
		if r.IntN(3) == 0 {
			sqltest.Keep(t, w.store)
		}
		if i == 15 {
			testenv.Migrate(t, w.dsn, migrate.Options{Policies: ofForks, Shares: map[string]model.Shares{"load-git": {By: model.ShareByLister}}})
		}
		w.change(t, r, r.IntN(30))
		f := w.plain(r, plainPolicies[i%len(plainPolicies)])
		f.Forks = []model.Forks{model.Originals, model.ForksOnly}[r.IntN(2)]
		if r.IntN(3) == 0 {
			f.Cooldowns.Failed = 90 * time.Second
		}
		if r.IntN(3) == 0 {
			f.ListerName = "gitlab"
		}
		tables := f
		tables.TableSample, tables.Inexact = 100, true
		want := w.grab(t, tables, 1000, true)
		if diff := cmp.Diff(w.sortKeys(t, f, want), w.sortKeys(t, f, w.grab(t, f, 1000, true))); diff != "" {
			t.Fatalf("%+v (-tables +candidates):\n%s", f, diff)
		}
		forks := testenv.Column[string](t, w.store.Pool(), "select visit_type || url || lister_id from listed_origins where is_fork")
		for _, o := range want {
			if slices.Contains(forks, f.VisitType+o.url+o.lister.String()) != (f.Forks == model.ForksOnly) {
				t.Fatalf("%+v picks %v", f, o)
			}
		}
		compared += len(want)
	}
	if compared < 200 {
		t.Errorf("only %d origins were compared", compared)
	}
	sqltest.Keep(t, w.store)
	sqltest.CheckCandidates(t, w.store)
}

// Without the columns and indexes for forks, a daemon returns an error with the remedy. With them, a grab
// finds originals without reading the forks before them, for one lister too.
func TestWhatForksNeed(t *testing.T) {
	t.Parallel()
	const forks = 3000
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	sqltest.ListN(t, store, forks+100)
	testenv.Exec(t, store.Pool(), fmt.Sprintf(`update listed_origins set is_fork = true, last_update = '2020-01-01' where substring(url from '\d+')::int <= %d`, forks))
	testenv.Exec(t, store.Pool(), "update listed_origins set last_update = '2026-01-01' where is_fork is null")
	if err := store.CheckPolicies(t.Context(), ofForks); err == nil || err.Error() != "the database lacks what the configuration's scheduling_policy needs: "+
		`run "swh-scheduler migrate" with this configuration (others can go on meanwhile)` {
		t.Errorf("got %v", err)
	}
	testenv.Migrate(t, dsn, migrate.Options{Policies: ofForks, Shares: map[string]model.Shares{"load-git": {By: model.ShareByLister}}})
	if err := store.CheckPolicies(t.Context(), ofForks); err != nil {
		t.Error(err)
	}
	// A connection reports its reads when it ends.
	read := func() (n int) {
		t.Helper()
		store.Close()
		store = testenv.OpenLocal(t, dsn)
		testenv.Becomes(t, "PostgreSQL tells what was read from the indexes of forks", true, func() bool {
			n = testenv.Value[int](t, store.Pool(), "select coalesce(sum(idx_tup_read), 0)::int from pg_stat_user_indexes where relname = 'candidates' and indexrelname like '%fork%'")
			return n > 0
		})
		return n
	}
	w := &grabWorld{dsn: dsn, store: store, now: time.Now()}
	for _, ofLister := range []uuid.NullUUID{{}, {UUID: uuid.MustParse("00000000-0000-0000-0000-000000000001"), Valid: true}} {
		f := model.VisitFilter{VisitType: "git", Policy: model.NeverVisitedOldestUpdateFirst, Cooldowns: model.DefaultCooldowns, Forks: model.Originals, ListerID: ofLister}
		if got := len(w.grab(t, f, 50, true)); got != 50 {
			t.Errorf("%d originals, want 50", got)
		}
	}
	if n := read(); n > forks/2 {
		t.Errorf("%d entries were read of the indexes of forks to pick 100 originals", n)
	}
}
