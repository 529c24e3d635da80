package recurrent

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// A queue of which a twentieth is free is refilled, one with less is not (the Python
// scheduler's rule); one without a limit is, unless too much is outgoing for it.
func TestTooFull(t *testing.T) {
	for name, tc := range map[string]struct {
		free  int
		limit *int64
		want  bool
	}{
		"a twentieth":           {50, new(int64(1000)), false},
		"less than a twentieth": {49, new(int64(1000)), true},
		"full":                  {0, new(int64(1000)), true},
		"one of a tiny queue":   {1, new(int64(20)), false},
		"no limit":              {10000, nil, false},
		"no limit, some left":   {1, nil, false},
		"no limit, none left":   {0, nil, true},
		"0 is no limit":         {0, new(int64(0)), true},
	} {
		if got := tooFull(tc.free, tc.limit); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A visit type has its own policies, or those of default.
func TestPoliciesOfAVisitType(t *testing.T) {
	own := []model.WeightedPolicy{{Weight: 1, Filter: model.VisitFilter{Policy: model.StopAfterSuccess}}}
	s := &Scheduler{Options: Options{Policies: map[string][]model.WeightedPolicy{"git": own, "default": evenly}}}
	if diff := cmp.Diff(own, s.policiesOf("git")); diff != "" {
		t.Errorf("git (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(evenly, s.policiesOf("hg")); diff != "" {
		t.Errorf("hg (-want +got):\n%s", diff)
	}
}

// What several policies pick goes to the queue mixed, not policy by policy.
func TestRoundMixesWhatPoliciesPick(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(t, "updated", 40, true)
	w.list(t, "plain", 20, false)
	runRound(t, w.round(t, evenly))
	kinds := testenv.Column[string](t, w.store.Pool(), "select substring(kwargs ->> 'url' from '//([a-z]+)/') from scheduler_go.work order by place")
	// In the order of the policies, all of one kind come before the others; by chance
	// that happens once in 10¹⁵ times.
	if runs := slices.Compact(slices.Clone(kinds)); len(kinds) != 60 || len(runs) < 3 {
		t.Errorf("%d messages in %d runs of a kind", len(kinds), len(runs))
	}
}
