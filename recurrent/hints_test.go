package recurrent

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// A hint ends the rest of a visit type without visits: the origin's message is in the ledger within seconds. Hints of one
// origin are one visit, and its cooldown holds.
func TestHintEndsARest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const origins = 5
	w.list(t, "hinted", origins, true)
	w.exec(t, `insert into origin_visit_stats (url, visit_type, last_scheduled, last_visit, last_visit_status, last_successful, last_snapshot)
		select url, 'git', now() - interval '2 days', now() - interval '1 day', 'successful', now() - interval '1 day', '\x00' from listed_origins`)
	s := New(Options{
		Store: w.store, Slots: w.slots, Log: logger(t), Reg: prometheus.NewRegistry(),
		Policies:         map[string][]model.WeightedPolicy{"default": weighted(map[model.VisitPolicy]float64{model.AlreadyVisitedOrderByLag: 1})},
		NoOriginsBackoff: time.Hour, QueueFullBackoff: time.Hour,
	})
	s.splay = func() time.Duration { return 0 }
	stop := testenv.Run(t, s.Run)
	sent := func() []string {
		return testenv.Column[string](t, w.store.Pool(), "select kwargs ->> 'url' from scheduler_go.work order by 1")
	}
	var took []time.Duration
	for i := range origins {
		url := fmt.Sprintf("https://hinted/%d", i+1)
		began := time.Now()
		for _, at := range []time.Time{{}, began} { // a push often comes more than once
			if _, err := w.store.HintOrigins(t.Context(), []model.Hint{{URL: url, ChangedAt: at, Source: "test"}}); err != nil {
				t.Fatal(err)
			}
		}
		testenv.Becomes(t, "message of "+url, true, func() bool { return slices.Contains(sent(), url) })
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("from hint to message: %s", took)
	if median := took[len(took)/2]; median > 5*time.Second {
		t.Errorf("the median from hint to message is %s", median)
	}
	if answer, err := w.store.HintOrigins(t.Context(), []model.Hint{{URL: "https://hinted/1", Source: "test"}}); err != nil || answer.Moved != 1 {
		t.Errorf("%+v (%v)", answer, err)
	}
	time.Sleep(2 * duePeriod) // in which the origin would be picked again
	stop()
	if got := sent(); len(got) != origins {
		t.Errorf("messages of %q, want one of each origin", got)
	}
}
