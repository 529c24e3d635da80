package simulator

import (
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// With more work waiting than workers can do, each group gets its share of their
// time; a group that is not named has the default weight.
func TestShares(t *testing.T) {
	t.Parallel()
	shares := map[string]model.Shares{"load-test-git": {
		By: model.ShareByListerInstance, Weights: map[string]float64{"forge/a": 50, "forge/b": 30}, Default: 20,
		HalfLife: model.DefaultShareHalfLife,
	}}
	dsn := testenv.Database(t)
	if _, err := db.Migrate(t.Context(), dsn, db.MigrateOptions{Shares: shares}); err != nil {
		t.Fatal(err)
	}
	store := openStore(t, dsn)
	s := setting{OriginScheduler, model.OldestScheduledFirst, 18_000, 8, 600, ""}
	options := s.options(t, store, time.Now())
	options.Shares, options.Listers, options.Log = shares, ListersOf(shares), slog.New(slog.DiscardHandler)
	if err := Fill(t.Context(), store, options.Listers, s.origins, time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"forge/a": 0.5, "forge/b": 0.3, "example/": 0.2}
	uses, busy := report.Shares(), 0.0
	for _, u := range uses {
		busy += u.Seconds
		if math.Abs(u.Part-want[u.Group]) > 0.05 {
			t.Errorf("%s got %.3f of the time, want %.3f", u.Group, u.Part, want[u.Group])
		}
	}
	all := report.Simulated.Seconds() * float64(s.workers)
	if len(uses) != 3 || busy < 0.95*all || busy > all*1.0001 {
		t.Errorf("%d groups used %.0f seconds of %.0f", len(uses), busy, all)
	}
	if text := report.Plots(false); !strings.Contains(text, "Shares of the workers' time, in per cent:") || !strings.Contains(text, "forge/b") {
		t.Errorf("no plot of shares in\n%s", text)
	}
}

// Shares that the run has nothing of are a mistake.
func TestSharesOfNothing(t *testing.T) {
	t.Parallel()
	store := openStore(t, testenv.Database(t))
	for want, shares := range map[string]map[string]model.Shares{
		"shares are of load-git, and what is simulated is of the visit types test-git": {"load-git": {By: model.ShareByLister, Default: 1}},
		"visits can only be shared by lister or lister_instance":                       {"load-test-git": {By: "kwargs.url", Default: 1}},
	} {
		options := setting{OriginScheduler, model.OldestScheduledFirst, 0, 1, 1, ""}.options(t, store, time.Now())
		options.Shares = shares
		if _, err := Run(t.Context(), options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
