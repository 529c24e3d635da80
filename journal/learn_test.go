package journal

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"swh-scheduler/internal/freshness"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/origins"
)

// Successful visits teach the estimate of their origin one after the other, also in one batch. Failed visits teach nothing.
// A lister's news without a change counts as wrong, and not if a hint was the news: those are counted by source.
func TestVisitsTeach(t *testing.T) {
	t.Parallel()
	day := func(n int) time.Time { return time.Date(2030, 1, n, 0, 0, 0, 0, time.UTC) }
	origin, lister := model.OriginKey{URL: "https://a.example", VisitType: "git"}, uuid.New()
	known := origins.OriginFreshness{OriginKey: origin, Lister: lister, Weight: 1, History: freshness.History{
		Prior: freshness.Estimate{Changes: 1, Days: 60}, Cost: time.Minute, Typical: time.Minute, Threshold: 1, Longest: 365 * 24 * time.Hour,
		LastVisit: day(1), FirstSeen: day(1), LastSeen: day(3), LastUpdate: day(2), FirstNews: day(2), Updated: day(2), CoveredUntil: day(2), Listing: time.Hour,
	}}
	last := day(1)
	visit := func(n int, status model.VisitStatus) Visit {
		return Visit{OriginKey: origin, Date: day(n), Status: status, Snapshot: []byte("same")}
	}
	write := func(o origins.OriginFreshness, visits ...Visit) ledger.VisitChanges {
		tally := newTally(Rules{}, ledger.KnownVisits{
			Stats:     []model.VisitStats{{URL: origin.URL, VisitType: origin.VisitType, LastVisit: &last, LastVisitStatus: model.VisitSuccessful, LastSnapshot: []byte("same")}},
			Freshness: map[model.OriginKey]origins.OriginFreshness{origin: o},
		})
		tally.apply(visits)
		return tally.changes()
	}

	if c := write(known, visit(4, model.VisitFailed), visit(5, model.VisitNotFound)); len(c.Freshness)+len(c.News) > 0 {
		t.Errorf("after failures: %+v, %+v", c.Freshness, c.News)
	}
	want := known
	want.Visited(day(4), false)
	want.Visited(day(9), false)
	c := write(known, visit(4, model.VisitSuccessful), visit(9, model.VisitSuccessful))
	if diff := cmp.Diff([]origins.OriginFreshness{want}, c.Freshness); diff != "" {
		t.Errorf("after two visits (-want +got):\n%s", diff)
	}
	of := origins.Newscaster{VisitType: "git", Lister: lister}
	if c.News[of].Wrong != 1 {
		t.Errorf("news of the lister: %+v, want one that was wrong", c.News)
	}
	known.HintSource = "forge"
	if c := write(known, visit(4, model.VisitSuccessful)); c.News[of].Wrong != 0 {
		t.Errorf("news of the lister: %+v, though a hint was the news", c.News)
	}
}
