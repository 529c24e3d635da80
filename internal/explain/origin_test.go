package explain

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/db"
)

// What is said of an origin and a policy is what a grab does: it picks the origin
// exactly if nothing is said to stand in the way.
func TestOriginAgreesWithGrabs(t *testing.T) {
	t.Parallel()
	store := opened(t)
	lister, err := store.GetOrCreateLister(t.Context(), "gitlab", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	// Moments around those at which cooldowns end, and the two sides of each.
	moments := rapid.Custom(func(t *rapid.T) *time.Time {
		days := rapid.SampledFrom([]float64{-1, -0.5, 0, 0.25, 0.5, 6, 7, 8, 13, 14, 15, 30, 31, 40}).Draw(t, "days ago")
		if days == 40 {
			return nil
		}
		at := now.Add(-time.Duration(days*24)*time.Hour + time.Duration(rapid.IntRange(-1, 1).Draw(t, "second"))*time.Second)
		return &at
	})
	cooldowns := rapid.SampledFrom([]model.Cooldowns{model.DefaultCooldowns, {}, {Absolute: 8 * 24 * time.Hour, Failed: time.Hour}})
	seed.Check(t, func(rt *rapid.T) {
		origin := model.ListedOrigin{
			ListerID: lister.ID, URL: "https://x", VisitType: "git", ExtraLoaderArguments: json.RawMessage("{}"), Enabled: true,
			LastUpdate: moments.Draw(rt, "last_update"), IsFork: rapid.SampledFrom([]*bool{nil, new(false), new(true)}).Draw(rt, "is_fork"),
		}
		var stats *model.VisitStats
		if rapid.Bool().Draw(rt, "has stats") {
			stats = &model.VisitStats{
				URL: origin.URL, VisitType: origin.VisitType, NextPositionOffset: 4,
				LastScheduled: moments.Draw(rt, "last_scheduled"), LastVisit: moments.Draw(rt, "last_visit"), LastSuccessful: moments.Draw(rt, "last_successful"),
				LastVisitStatus: rapid.SampledFrom([]model.VisitStatus{"", model.VisitSuccessful, model.VisitFailed, model.VisitNotFound}).Draw(rt, "status"),
			}
			if rapid.Bool().Draw(rt, "loaded") {
				stats.LastSnapshot = make([]byte, 20)
			}
		}
		forks := rapid.SampledFrom([]model.Forks{model.ForksToo, model.Originals, model.ForksOnly}).Draw(rt, "forks")
		filter := model.VisitFilter{VisitType: "git", Forks: forks, Cooldowns: cooldowns.Draw(rt, "cooldowns"), Policy: rapid.SampledFrom([]model.VisitPolicy{
			model.OldestScheduledFirst, model.StopAfterSuccess, model.NeverVisitedOldestUpdateFirst,
			model.AlreadyVisitedOrderByLag, model.OriginsWithoutLastUpdate, model.OthersByVisitTarget,
		}).Draw(rt, "policy"), OfPools: rapid.Bool().Draw(rt, "of pools")}

		picked := grabbed(rt, store, origin, stats, filter, now)
		e := Origin{
			URL: origin.URL, VisitType: origin.VisitType, Listed: &origin, Lister: lister, Stats: stats,
			Loader: &model.TaskType{Type: "load-git"}, Policies: []Policy{{WeightedPolicy: model.WeightedPolicy{Weight: 1, Filter: filter}}},
		}.Explain(now)
		if ready := strings.Contains(e.Summary, "can be picked for a visit now"); ready != picked {
			rt.Fatalf("picked: %v; explained: %+v", picked, e)
		}
		// When it is said to be ready it is, and not a moment before.
		if e.When != nil && e.When.After(now) {
			if !grabbed(rt, store, origin, stats, filter, e.When.Add(time.Microsecond)) || grabbed(rt, store, origin, stats, filter, *e.When) {
				rt.Fatalf("it cannot be picked at %s, or before: %+v", e.When, e)
			}
		}
	})
}

var errRollback = errors.New("roll back")

// grabbed says whether a grab picks the origin, in a transaction that leaves
// nothing behind.
func grabbed(t *rapid.T, store *db.Store, origin model.ListedOrigin, stats *model.VisitStats, f model.VisitFilter, now time.Time) (picked bool) {
	err := store.InTx(context.Background(), func(ctx context.Context, tx *db.Tx) error {
		if _, err := tx.RecordListedOrigins(ctx, []model.ListedOrigin{origin}, false); err != nil {
			return err
		}
		if stats != nil {
			if err := tx.UpsertVisitStats(ctx, []model.VisitStats{*stats}); err != nil {
				return err
			}
		}
		next, err := tx.GrabNextVisits(ctx, f, now, 1, true)
		if picked = len(next) == 1; err != nil {
			return err
		}
		return errRollback
	})
	if !errors.Is(err, errRollback) {
		t.Fatal(err)
	}
	return picked
}
