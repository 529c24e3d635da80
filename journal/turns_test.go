package journal

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// Visits with the same outcome as before write no turn. A visit with another outcome writes one turn, with
// the number of visits before it, even if it is read several times. So an origin's last visits are known.
func TestTurnsOfVisits(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t))
	day := func(n int) time.Time { return time.Date(2030, 1, n, 0, 0, 0, 0, time.UTC) }
	origin := model.OriginKey{URL: "https://a.example", VisitType: "git"}
	var visits []Visit
	for n, status := range []model.VisitStatus{"successful", "successful", "failed", "failed", "not_found", "successful", "successful"} {
		visits = append(visits, Visit{OriginKey: origin, Date: day(n + 1), Status: status, Snapshot: fmt.Append(nil, n)})
	}
	visits = append(visits, Visit{OriginKey: model.OriginKey{URL: "https://b.example", VisitType: "git"}, Date: day(1), Status: model.VisitFailed})
	rules := Rules{Visits: &model.DefaultVisitRules}
	for range 2 {
		for from := 0; from < len(visits); from += 3 {
			if _, err := rules.Write(t.Context(), store, visits[from:min(from+3, len(visits))]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.visit_turns"); n != 3 {
		t.Errorf("%d turns", n)
	}
	all, err := store.VisitStretches(t.Context(), origin.URL, 20)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range all["git"] {
		first := 0
		if s.First != nil {
			first = s.First.UTC().Day()
		}
		got = append(got, fmt.Sprintf("%d %s from %d to %d", s.Visits, s.Status, first, s.Last.UTC().Day()))
	}
	if diff := cmp.Diff([]string{"2 successful from 6 to 7", "1 not_found from 5 to 5", "2 failed from 3 to 4", "2 successful from 0 to 2"}, got); diff != "" {
		t.Error(diff)
	}
	testenv.Exec(t, store.Pool(), "insert into scheduler_go.visit_turns (origin, at, status, before, visits, last_before) values (1, now() - interval '1 day', 'failed', 'successful', 1, now()), (2, now(), 'failed', 'successful', 1, now())")
	if err := store.ForgetVisitTurns(t.Context()); err != nil {
		t.Fatal(err)
	}
	testenv.Exec(t, store.Pool(), "update scheduler_go.visit_turns set at = now() - interval '401 days' where origin <> 2")
	if err := store.ForgetVisitTurns(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.visit_turns"); n != 1 {
		t.Errorf("%d of five are left", n)
	}
}
