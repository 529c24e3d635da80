package simulator

import (
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

// Over some days the policy freshness learns rates from the visits of a run. Few of its visits find nothing, whereas
// half of the visits of all origins in turn would. Its threshold moves.
func TestFreshnessLearns(t *testing.T) {
	t.Parallel()
	policies, err := PoliciesOf(string(model.Freshness), nil)
	if err != nil {
		t.Fatal(err)
	}
	dsn, start := testenv.Database(t), time.Now()
	testenv.Migrate(t, dsn, migrate.Options{Policies: policies})
	store := openStore(t, dsn)
	s := setting{OriginScheduler, model.Freshness, 200, 24 * 4, 20, ""}
	if err := Fill(t.Context(), store, []ListerName{DefaultLister}, s.origins, 0, start, nil); err != nil {
		t.Fatal(err)
	}
	// With a low threshold, visits begin without weeks of idle workers.
	if err := store.ConfigureFreshness(t.Context(), map[string]time.Duration{listedVisitType: model.DefaultLongestWait}); err != nil {
		t.Fatal(err)
	}
	execute(t, store, "update scheduler_go.freshness_control set threshold = 10, applied = 10")
	o := s.options(t, store, start)
	o.Policies, o.Listers = policies, nil
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if vain := float64(r.Uneventful) / float64(r.Visits); r.Visits < 250 || vain > 0.35 {
		t.Errorf("%.2f of %d visits are in vain", vain, r.Visits)
	}
	var learnt, complete bool
	if err := store.Pool().QueryRow(t.Context(), `select (select count(*) > 100 from scheduler_go.freshness),
		(select bool_and(complete and threshold <> 10) from scheduler_go.freshness_control)`).Scan(&learnt, &complete); err != nil || !learnt || !complete {
		t.Errorf("estimates: %v, moments complete and a threshold that moved: %v; %v", learnt, complete, err)
	}
}
