package simulator

import (
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// A hoster's visits reach its limits, per minute and in flight, and never exceed them, with any number of workers.
func TestHostersInARun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit             model.HosterLimit
		claimed, inFlight int // in a quarter of an hour, and at its end; 0: any number
	}{
		{model.HosterLimit{PerMinute: 5}, 75, 0},
		{model.HosterLimit{MaxInFlight: 2}, 0, 2},
	} {
		hosters := model.Hosters{Default: c.limit, LostAfter: model.DefaultHosterLostAfter}
		store := testenv.OpenLocal(t, testenv.Database(t), postgres.Options{Command: "test"}).With(db.Rules{Hosters: hosters})
		s := setting{OriginScheduler, model.OldestScheduledFirst, 300, 0.25, 100, ""}
		options := s.options(t, store, time.Now())
		if err := Fill(t.Context(), store, options.Listers, s.origins, 0, time.Now(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), options); err != nil {
			t.Fatal(err)
		}
		loads, err := store.HosterLoads(t.Context(), hosters, nil, options.Start.Add(s.runtime()))
		if err != nil {
			t.Fatal(err)
		}
		claimed := testenv.Value[int](t, store.Pool(), "select count(last_scheduled) from origin_visit_stats")
		if c.claimed > 0 && claimed != c.claimed || c.inFlight > 0 && loads["example/"].InFlight != c.inFlight {
			t.Errorf("%+v: %d visits were claimed, and %+v", c.limit, claimed, loads)
		}
	}
}
