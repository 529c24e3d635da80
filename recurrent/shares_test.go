package recurrent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

// share divides the queue of git visits between listers.
func (w *world) share(t *testing.T, r *round, s model.Shares) {
	t.Helper()
	s.HalfLife = time.Hour
	r.Shares = map[string]model.Shares{"load-git": s}
	testenv.Migrate(t, w.dsn, migrate.Options{Shares: r.Shares})
	w.keep(t)
}

// keep drains all changes into candidates.
func (w *world) keep(t *testing.T) {
	t.Helper()
	for more := true; more; {
		kept, err := w.store.MaintainCandidates(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		more = kept.More
	}
}

// listed lists origins of one lister, with or without a known last update. batch makes the URLs of several
// calls distinct.
func (w *world) listed(t *testing.T, lister, batch, n int, updated bool) {
	t.Helper()
	var lastUpdate *time.Time
	if updated {
		lastUpdate = new(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	}
	w.exec(t, `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
		select ('00000000-0000-0000-0000-00000000000' || $1::text)::uuid, concat_ws('/', 'https:/', $1::text, $4::text, $5::text, n), 'git', '{}', true, now(), $3
		from generate_series(1, $2::int) n`, fmt.Sprint(lister), n, lastUpdate, fmt.Sprint(updated), fmt.Sprint(batch))
}

// byHost counts messages by the lister in their origin's URL.
func byHost(messages []string) map[string]int {
	got := make(map[string]int)
	for _, m := range messages {
		_, rest, _ := strings.Cut(m, "https://")
		host, _, _ := strings.Cut(rest, "/")
		got[host]++
	}
	return got
}

// A lister with few origins gets its share at once beside one with many. The other lister gets the slots
// that it can't use. Within a group the policies' weights hold.
func TestListersShareAQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.listed(t, 2, 0, 1000, true)
	w.listed(t, 2, 0, 1000, false)
	r := w.round(t, evenly)
	w.share(t, r, model.Shares{By: model.ShareByLister, Weights: map[string]float64{"gitea": 30}, Default: 70})
	for i, tc := range []struct {
		gitea int // origins to add for gitea
		want  map[string]int
	}{
		{0, map[string]int{"2": 100}},
		{1000, map[string]int{"1": 30, "2": 70}},
		{0, map[string]int{"1": 30, "2": 70}},
	} {
		w.listed(t, 1, i, tc.gitea, true)
		w.keep(t)
		runRound(t, r)
		got := w.messages(t)
		counts := byHost(got)
		// The first group in the ring gets its slot at once, so it may be one over.
		for host, n := range tc.want {
			if d := counts[host] - n; d > 1 || d < -1 {
				t.Errorf("round %d: got %v, want %v", i, counts, tc.want)
			}
		}
		policies := make(map[bool]int)
		for _, m := range got {
			if strings.Contains(m, "https://2/") {
				policies[strings.Contains(m, "/true/")]++
			}
		}
		// Weights 80 to 20: the policy by lag has no origins.
		want := map[bool]int{true: counts["2"] * 2 / 3, false: counts["2"] - counts["2"]*2/3}
		if diff := cmp.Diff(want, policies); diff != "" && max(policies[true]-want[true], want[true]-policies[true]) > 1 {
			t.Errorf("round %d: policies (-want +got):\n%s", i, diff)
		}
		w.finish(t)
	}
}

// finish ends all visits underway; each took a second.
func (w *world) finish(t *testing.T) {
	t.Helper()
	var outcomes []settle.Outcome
	runtime := time.Second
	for _, id := range testenv.Column[string](t, w.store.Pool(), "select task_id::text from scheduler_go.work where share_group is not null") {
		outcomes = append(outcomes, settle.Outcome{BackendID: id, Received: time.Now(), Runtime: &runtime})
	}
	if err := (settle.Store{Store: w.store}).ApplyOutcomes(t.Context(), outcomes); err != nil {
		t.Fatal(err)
	}
}

// A round with groups at their ceilings is repeated soon: an end gives them room without a change of
// candidates.
func TestRoundIsRepeatedSoonWhileGroupsAreAtTheirCeilings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.listed(t, 1, 0, 100, true)
	r := w.round(t, evenly)
	w.share(t, r, model.Shares{By: model.ShareByLister, Default: 1, MaxInFlight: map[string]int{"gitea": 5}})
	for range 2 { // each end makes room for one visit
		if wait, err := r.runOnce(t.Context()); wait != 0 || err != nil {
			t.Fatal(wait, err)
		}
		if n := len(w.messages(t)); n != 5 {
			t.Errorf("%d messages were sent", n)
		}
		if wait, err := r.runOnce(t.Context()); wait > time.Second || r.idle || err != nil {
			t.Errorf("waits %s, idle %v, %v", wait, r.idle, err)
		}
		w.finish(t)
	}
}

// A lister may have only origins that cool down by default, but not by the shorter cooldown of a policy.
// The lister then gets its share and shows as waiting. Origins that no policy picks, unchanged since their
// last load, don't count as waiting.
func TestShorterCooldownsCountForShares(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.listed(t, 1, 0, 3, true)
	w.listed(t, 2, 0, 5, true)
	w.exec(t, `insert into origin_visit_stats (url, visit_type, last_snapshot, last_successful, last_visit, last_visit_status)
		select url, 'git', '\x01', '2026-01-02', '2026-01-02', 'successful' from listed_origins where lister_id = '00000000-0000-0000-0000-000000000002'`)
	soon := slices.Clone(evenly)
	for i := range soon {
		soon[i].Filter.Cooldowns.Absolute, soon[i].Filter.Cooldowns.Scheduled = time.Minute, time.Minute
	}
	r := w.round(t, soon)
	w.share(t, r, model.Shares{By: model.ShareByLister, Default: 1})
	for i := range 2 {
		w.keep(t)
		waiting, err := w.store.WaitingByGroup(t.Context(), model.TaskType{Type: "load-git", BackendName: "swh.load.git"}, model.ShareByLister, map[string][]model.WeightedPolicy{"default": soon}, r.now(), 10)
		if err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(waiting, func(_ string, n int) bool { return n == 0 })
		if !maps.Equal(waiting, map[string]int{"gitea": 3}) {
			t.Errorf("round %d: %v wait", i, waiting)
		}
		runRound(t, r)
		if n := len(w.messages(t)); n != 3 {
			t.Errorf("round %d: %d visits, want 3", i, n)
		}
		w.finish(t)
		later := r.now().Add(time.Hour)
		r.Scheduler.now = func() time.Time { return later }
	}
}

// One origin beside 100,000 of another lister is visited in its first round.
func TestOneOriginIsNotStarved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.listed(t, 2, 0, 100_000, true)
	r := w.round(t, evenly)
	w.share(t, r, model.Shares{By: model.ShareByListerInstance, Default: 1})
	runRound(t, r)
	w.messages(t)
	w.listed(t, 1, 0, 1, false)
	w.keep(t)
	runRound(t, r)
	if got := byHost(w.messages(t)); !maps.Equal(got, map[string]int{"1": 1, "2": 99}) {
		t.Errorf("got %v", got)
	}
}
