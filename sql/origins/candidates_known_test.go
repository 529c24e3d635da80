package origins_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/origins"
)

// A grab with any filter on enabled origins reads candidates only: without pending changes, it finds
// nothing once candidates are deleted.
func TestCandidatesAnswerAnyFilter(t *testing.T) {
	t.Parallel()
	w, _ := newGrabWorld(t, time.Now().UTC().Truncate(time.Microsecond))
	sqltest.Keep(t, w.store)
	filters := map[string]func(*model.VisitFilter){
		"nothing else":    func(*model.VisitFilter) {},
		"a sample":        func(f *model.VisitFilter) { f.TableSample = 0.1 },
		"a lister":        func(f *model.VisitFilter) { f.ListerID = uuid.NullUUID{UUID: w.listers[1].ID, Valid: true} },
		"a lister's name": func(f *model.VisitFilter) { f.ListerName = "github" },
		"an instance":     func(f *model.VisitFilter) { f.ListerInstanceName = "one" },
		"no cooldowns":    func(f *model.VisitFilter) { f.Cooldowns = model.Cooldowns{} },
		"shorter ones":    func(f *model.VisitFilter) { f.Cooldowns.Scheduled /= 2 },
		"longer ones":     func(f *model.VisitFilter) { f.Cooldowns.Absolute *= 2 },
		"first visits": func(f *model.VisitFilter) {
			f.Policy, f.ListerName, f.ListerInstanceName = model.FirstVisitsAfterListing, "gitlab", "one"
		},
		"all kinds of conditions": func(f *model.VisitFilter) { f.ListerName, f.TableSample, f.Cooldowns.Failed = "github", 1, time.Hour },
	}
	found := func(name string) int {
		t.Helper()
		f := model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns}
		filters[name](&f)
		return len(w.grab(t, f, 10, true))
	}
	for name := range filters {
		if found(name) == 0 {
			t.Errorf("%s: no origins: the test shows nothing", name)
		}
	}
	w.exec(t, "truncate scheduler_go.candidates")
	for name := range filters {
		if found(name) > 0 {
			t.Errorf("%s: something else than candidates is read", name)
		}
	}
}

// Candidates have no disabled origins, and an inexact sample reads the tables.
func TestKnownToCandidates(t *testing.T) {
	f := model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst, TableSample: 50}
	if !origins.KnownToCandidates(f) {
		t.Error("they don't answer what they are for")
	}
	disabled, inexact := f, f
	disabled.Disabled, inexact.Inexact = true, true
	if origins.KnownToCandidates(disabled) || origins.KnownToCandidates(inexact) {
		t.Error("they answer for disabled origins or an inexact sample")
	}
}

// A grab of a sample reads a part of the origins only if it may be inexact.
func TestGrabOfASample(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	for _, statement := range []string{
		`insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'l', 'i', '{}', now())`,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
		 select '00000000-0000-0000-0000-000000000001', 'https://example.org/' || n, 'git', '{}', true, now() from generate_series(1, 5000) n`,
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	sqltest.Keep(t, store)
	grab := func(sample float64, inexact bool) (n int) {
		t.Helper()
		if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			origins, err := tx.GrabNextVisits(ctx, model.VisitFilter{
				VisitType: "git", Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns, TableSample: sample, Inexact: inexact,
			}, time.Now(), 10_000, true)
			n = len(origins)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if exact, some := grab(20, false), grab(20, true); exact != 5000 || some == 5000 {
		t.Errorf("%d origins, want 5000; %d of a fifth", exact, some)
	}
}
