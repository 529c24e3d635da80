package origins_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/origins"
)

var errUndo = errors.New("undone")

// grabGrouped returns the origins of a grouped grab by group, and rolls the grab back.
func (w *grabWorld) grabGrouped(t *testing.T, f model.VisitFilter, groups []origins.VisitGroup) [][]picked {
	t.Helper()
	got := make([][]picked, len(groups))
	err := w.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		visits, err := tx.Grabs(w.now).Grouped(ctx, f, groups)
		for _, v := range visits {
			got[v.Group] = append(got[v.Group], picked{v.Origin.ListerID, v.Origin.URL})
		}
		return errors.Join(err, errUndo)
	})
	if !errors.Is(err, errUndo) {
		t.Fatal(err)
	}
	return got
}

// Each group gets the same as a grab with its lister in the filter: from the tables, or from candidates
// with pending changes, parked or overdue. A grouped grab never uses a sample.
func TestGroupedGrabPicksTheNextOfEachGroup(t *testing.T) {
	t.Parallel()
	w, _ := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	testenv.Migrate(t, w.dsn, migrate.Options{Shares: map[string]model.Shares{
		"load-git": {By: model.ShareByLister},
	}})
	r := seed.Rand(t)
	given := 0
	for i := range 120 {
		if r.IntN(3) == 0 {
			sqltest.Keep(t, w.store)
		}
		w.change(t, r, r.IntN(30))
		f := w.plain(r, plainPolicies[i%len(plainPolicies)])
		if i%4 == 3 {
			f.Cooldowns.Failed = 90 * time.Second
			f.TableSample = 0.001
		}
		listed := func(string) bool { return true }
		if i%3 == 0 { // a policy of one lister's origins
			f.ListerName = "gitlab"
			listed = func(name string) bool { return name == f.ListerName }
		}
		// github has two instances (the first and the last), gitlab has one.
		counts := []int{r.IntN(30), r.IntN(30)}
		got := w.grabGrouped(t, f, []origins.VisitGroup{
			{Listers: []uuid.UUID{w.listers[0].ID, w.listers[2].ID}, Count: counts[0]},
			{Listers: []uuid.UUID{w.listers[1].ID}, Count: counts[1]},
		})
		for group, name := range []string{"github", "gitlab"} {
			one := f
			one.ListerName = name
			fromTables := one
			fromTables.TableSample, fromTables.Inexact = 100, true
			if !listed(name) {
				if len(got[group]) > 0 {
					t.Fatalf("%+v: %d of %s", f, len(got[group]), name)
				}
				continue
			}
			want := w.sortKeys(t, one, w.grab(t, fromTables, counts[group], true))
			if diff := cmp.Diff(want, w.sortKeys(t, f, got[group])); diff != "" {
				t.Fatalf("%+v, %d of %s (-filtered +grouped):\n%s", f, counts[group], name, diff)
			}
			if diff := cmp.Diff(want, w.sortKeys(t, f, w.grab(t, one, counts[group], true))); diff != "" {
				t.Fatalf("%+v, %d of %s (-tables +candidates):\n%s", f, counts[group], name, diff)
			}
			given += len(want)
		}
	}
	if given < 100 {
		t.Errorf("only %d origins were compared", given)
	}
}

// A grouped grab marks its origins as the Python scheduler does.
func TestGroupedGrabMarks(t *testing.T) {
	t.Parallel()
	for _, cooldown := range []time.Duration{model.DefaultCooldowns.Failed, time.Minute} { // by both ways
		w, _ := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
		f := model.VisitFilter{VisitType: "git", Policy: model.OriginsWithoutLastUpdate, Cooldowns: model.DefaultCooldowns}
		f.Cooldowns.Failed = cooldown
		marked := func() int {
			t.Helper()
			return testenv.Value[int](t, w.store.Pool(), "select count(*) from origin_visit_stats where last_scheduled = $1", w.now)
		}
		before := marked()
		err := w.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			visits, err := tx.Grabs(w.now).Grouped(ctx, f, []origins.VisitGroup{{Listers: []uuid.UUID{w.listers[1].ID}, Count: 5}})
			if err == nil && len(visits) != 5 {
				t.Errorf("%d visits", len(visits))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := marked() - before; n != 5 {
			t.Errorf("%d marked", n)
		}
	}
}

// Without the indexes for shares, a daemon returns an error with the remedy. migrate creates them on a
// database in use, and recreates an invalid one. Remove drops them.
func TestWhatSharesNeed(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.OpenLocal(t, dsn)
	shares := map[string]model.Shares{
		"load-git":   {By: model.ShareByListerInstance},
		"index-text": {By: "kwargs.Owner"},
		"index-more": {By: model.ShareByTaskType},
	}
	if err := store.CheckShares(t.Context(), shares); err == nil || err.Error() != "the database lacks indexes that the configuration's shares need: "+
		`run "swh-scheduler migrate" with this configuration (others can go on meanwhile)` {
		t.Errorf("got %v", err)
	}
	for range 2 {
		testenv.Migrate(t, dsn, migrate.Options{Shares: shares})
		if err := store.CheckShares(t.Context(), shares); err != nil {
			t.Error(err)
		}
		// Simulate an interrupted run.
		testenv.Exec(t, store.Pool(), `update pg_index set indisvalid = false
			where indexrelid = 'public."scheduler_go_task_by_kwargs_Owner"'::regclass`)
		if err := store.CheckShares(t.Context(), shares); err == nil {
			t.Error("an index that is not valid is taken as made")
		}
	}
	if _, err := migrate.Remove(t.Context(), dsn, migrate.RemoveOptions{Lose: true}); err != nil { // the connection of store
		t.Fatal(err)
	}
	if left := testenv.Value[int](t, store.Pool(), "select count(*) from pg_class where relname like 'scheduler_go%'"); left > 0 {
		t.Errorf("%d of our relations left", left)
	}
}
