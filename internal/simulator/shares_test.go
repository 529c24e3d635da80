package simulator

import (
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

// simulateShares simulates the given shares of the queue of the listers forge/a, forge/b and example/.
func simulateShares(t *testing.T, s setting, shares model.Shares, ageing time.Duration) *Report {
	t.Helper()
	shares.By, shares.Weights, shares.Default = model.ShareByListerInstance, map[string]float64{"forge/a": 50, "forge/b": 30}, 20
	shares.HalfLife = model.DefaultShareHalfLife
	byType := map[string]model.Shares{"load-test-git": shares}
	dsn := testenv.Database(t)
	testenv.Migrate(t, dsn, migrate.Options{Shares: byType})
	store := openStore(t, dsn)
	options := s.options(t, store, time.Now())
	options.Shares, options.Listers, options.Log = byType, ListersOf(byType), slog.New(slog.DiscardHandler)
	options.Ageing = ageing
	if err := Fill(t.Context(), store, options.Listers, s.origins, 0, time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// If more work waits than workers can do, each group gets its share of their time. A group that the configuration
// doesn't name has the default weight.
func TestShares(t *testing.T) {
	t.Parallel()
	s := setting{kind: OriginScheduler, policy: model.OldestScheduledFirst, origins: 18_000, hours: 8, workers: 600}
	report := simulateShares(t, s, model.Shares{}, 0)
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

// No group uses more workers at once than its ceiling, and each uses almost as many all the time, as new visits soon
// follow.
func TestCeilings(t *testing.T) {
	t.Parallel()
	s := setting{kind: OriginScheduler, policy: model.OldestScheduledFirst, origins: 300, hours: 3, workers: 20}
	ceilings := map[string]int{"forge/a": 6, "forge/b": 3, "example/": 1}
	report := simulateShares(t, s, model.Shares{MaxInFlight: ceilings}, 0)
	for _, u := range report.Shares() {
		workers := u.Seconds / report.Simulated.Seconds()
		if most := float64(ceilings[u.Group]); workers > most*1.0001 || workers < 0.7*most {
			t.Errorf("%s used %.2f workers, of at most %g", u.Group, workers, most)
		}
	}
}

// The visits of a group with a priority, more than the workers can do, overtake those of the other groups, which get
// next to nothing. With ageing all groups get their shares.
func TestPriorities(t *testing.T) {
	t.Parallel()
	s := setting{kind: OriginScheduler, policy: model.OldestScheduledFirst, origins: 600, hours: 8, workers: 20}
	for ageing, others := range map[time.Duration][2]float64{0: {0, 0.3}, 10 * time.Minute: {0.5, 0.9}} {
		for _, u := range simulateShares(t, s, model.Shares{Priorities: map[string]uint8{"forge/b": 5}}, ageing).Shares() {
			t.Logf("%+v", u)
			if part := 1 - u.Part; u.Group == "forge/b" && (part < others[0] || part > others[1]) {
				t.Errorf("with ageing after %s, the others got %.2f of the time", ageing, part)
			}
		}
	}
}

// Shares without a matching visit type are an error.
func TestSharesOfNothing(t *testing.T) {
	t.Parallel()
	store := openStore(t, testenv.Database(t))
	for want, shares := range map[string]map[string]model.Shares{
		"the shares are for load-git, but the simulated task types are load-test-git": {"load-git": {By: model.ShareByLister, Default: 1}},
		"visits can only be shared by lister or lister_instance":                      {"load-test-git": {By: "kwargs.url", Default: 1}},
	} {
		options := setting{kind: OriginScheduler, policy: model.OldestScheduledFirst, hours: 1, workers: 1}.options(t, store, time.Now())
		options.Shares = shares
		if _, err := Run(t.Context(), options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
