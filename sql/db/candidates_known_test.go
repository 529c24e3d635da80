package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// Candidates answer for enabled origins of all listers with the default cooldowns,
// and for nothing else.
func TestKnownToCandidates(t *testing.T) {
	known := model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns}
	if !db.KnownToCandidates(known) {
		t.Error("they don't answer what they are for")
	}
	for name, change := range map[string]func(*model.VisitFilter){
		"another policy":          func(f *model.VisitFilter) { f.Policy = model.FirstVisitsAfterListing },
		"disabled origins":        func(f *model.VisitFilter) { f.Disabled = true },
		"a sample":                func(f *model.VisitFilter) { f.TableSample = 50 },
		"a lister":                func(f *model.VisitFilter) { f.ListerID = uuid.NullUUID{Valid: true} },
		"a lister's name":         func(f *model.VisitFilter) { f.ListerName = "github" },
		"an instance":             func(f *model.VisitFilter) { f.ListerInstanceName = "github.com" },
		"no cooldowns":            func(f *model.VisitFilter) { f.Cooldowns = model.Cooldowns{} },
		"other absolute cooldown": func(f *model.VisitFilter) { f.Cooldowns.Absolute++ },
		"other scheduled":         func(f *model.VisitFilter) { f.Cooldowns.Scheduled++ },
		"other failed":            func(f *model.VisitFilter) { f.Cooldowns.Failed++ },
		"other not found":         func(f *model.VisitFilter) { f.Cooldowns.NotFound++ },
	} {
		f := known
		change(&f)
		if db.KnownToCandidates(f) {
			t.Errorf("%s: they answer", name)
		}
	}
}

// A grab of a sample looks at a part of the origins only.
func TestGrabOfASample(t *testing.T) {
	t.Parallel()
	store := open(t, testenv.Database(t))
	for _, statement := range []string{
		`insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'l', 'i', '{}', now())`,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
		 select '00000000-0000-0000-0000-000000000001', 'https://example.org/' || n, 'git', '{}', true, now() from generate_series(1, 5000) n`,
	} {
		if _, err := store.Pool().Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	grab := func(sample float64) (n int) {
		t.Helper()
		if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			origins, err := tx.GrabNextVisits(ctx, model.VisitFilter{
				VisitType: "git", Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns, TableSample: sample,
			}, time.Now(), 10_000, true)
			n = len(origins)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if all, some := grab(0), grab(20); all != 5000 || some == 5000 {
		t.Errorf("%d origins, of a fifth %d", all, some)
	}
}
