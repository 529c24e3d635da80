package recurrent

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// A visit type has its own policies, or the default ones.
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

// A round sends the visits of several policies mixed, not policy by policy.
func TestRoundMixesWhatPoliciesPick(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(t, "updated", 40, true)
	w.list(t, "plain", 20, false)
	runRound(t, w.round(t, evenly))
	kinds := testenv.Column[string](t, w.store.Pool(), "select substring(kwargs ->> 'url' from '//([a-z]+)/') from scheduler_go.work order by place")
	// Unmixed, all origins of one kind would come first; by chance that happens once in 10¹⁵ rounds.
	if runs := slices.Compact(slices.Clone(kinds)); len(kinds) != 60 || len(runs) < 3 {
		t.Errorf("%d messages in %d runs of a kind", len(kinds), len(runs))
	}
}

// The metric counts originals and forks apart, for a policy that divides them.
func TestVisitsOfForksAreCounted(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := newScheduler(Options{Reg: reg}, time.Now)
	policies := model.SplitForks([]model.WeightedPolicy{
		{Weight: 1, Forks: 0.1, Filter: model.VisitFilter{Policy: model.OldestScheduledFirst}},
		{Weight: 1, Filter: model.VisitFilter{Policy: model.AlreadyVisitedOrderByLag}},
	})
	s.count("git", Picked{Policies: policies, Counts: []int{9, 1, 10}}, slog.New(slog.DiscardHandler))
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`# HELP swh_scheduler_recurrent_scheduled_visits_total Visits claimed for scheduling, by visit type, policy and origins (originals or forks, for a policy that divides them).
# TYPE swh_scheduler_recurrent_scheduled_visits_total counter
swh_scheduler_recurrent_scheduled_visits_total{origins="",policy="already_visited_order_by_lag",visit_type="git"} 10
swh_scheduler_recurrent_scheduled_visits_total{origins="forks",policy="oldest_scheduled_first",visit_type="git"} 1
swh_scheduler_recurrent_scheduled_visits_total{origins="originals",policy="oldest_scheduled_first",visit_type="git"} 9
`)); err != nil {
		t.Error(err)
	}
}
