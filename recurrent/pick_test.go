package recurrent

import (
	"context"
	"testing"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// Without cooldowns, a policy can select an origin that another policy has just marked. A round has each
// origin once all the same.
func TestOriginsArePickedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(t, "never", 6, true)
	picker := Picker{VisitType: "git", Policies: []model.WeightedPolicy{
		{Weight: 1, Filter: model.VisitFilter{Policy: model.NeverVisitedOldestUpdateFirst}},
		{Weight: 1, Filter: model.VisitFilter{Policy: model.OldestScheduledFirst}},
	}}
	q := dispatch.SharedQueue{Name: queue, Shares: model.Shares{By: model.ShareByLister, Default: 1, HalfLife: time.Hour}}
	for name, pick := range map[string]func(context.Context, *db.Tx) (Picked, error){
		"plain": func(ctx context.Context, tx *db.Tx) (Picked, error) { return picker.Pick(ctx, tx, time.Now(), 100) },
		"shared": func(ctx context.Context, tx *db.Tx) (Picked, error) {
			return picker.PickShared(ctx, tx, q, time.Now(), 100)
		},
	} {
		if err := w.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			picked, err := pick(ctx, tx)
			urls := make(map[string]bool)
			for _, v := range picked.Visits {
				urls[v.Origin.URL] = true
			}
			if len(urls) != 6 || len(picked.Visits) != 6 {
				t.Errorf("%s: %d visits of %d origins, want each of 6 once", name, len(picked.Visits), len(urls))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
