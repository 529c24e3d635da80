package origins_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/db"
)

const hintedURL = "https://forge.example/u/p"

// hintWorld is a database with a lister.
type hintWorld struct {
	store  *db.Store
	lister model.Lister
	now    time.Time
}

func newHintWorld(t *testing.T, unknown model.UnknownHints) *hintWorld {
	t.Helper()
	store := testenv.Open(t, testenv.Database(t)).With(db.Rules{UnknownHints: unknown})
	lister, err := store.GetOrCreateLister(t.Context(), "gitea", "forge.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	return &hintWorld{store, lister, time.Now().UTC().Truncate(time.Microsecond)}
}

// list lists an origin with a last update so long ago; 0: without one.
func (w *hintWorld) list(t *testing.T, url string, enabled bool, ago time.Duration) {
	t.Helper()
	o := model.ListedOrigin{ListerID: w.lister.ID, URL: url, VisitType: "git", Enabled: enabled}
	if ago != 0 {
		at := w.now.Add(-ago)
		o.LastUpdate = &at
	}
	if _, err := w.store.RecordListedOrigins(t.Context(), []model.ListedOrigin{o}, false); err != nil {
		t.Fatal(err)
	}
}

func (w *hintWorld) hint(t *testing.T, hints ...model.Hint) model.HintAnswer {
	t.Helper()
	for i := range hints {
		if hints[i].Source == "" {
			hints[i].Source = "test"
		}
	}
	answer, err := w.store.HintOrigins(t.Context(), hints)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func (w *hintWorld) lastUpdate(t *testing.T, url string) *time.Time {
	t.Helper()
	return testenv.Value[*time.Time](t, w.store.Pool(), "select last_update from listed_origins where url = $1", url)
}

// A hint moves the last update of a known, enabled origin to its date: never over a later one, never beyond now, and
// whatever spelling of the URL it has.
func TestHintMovesAnOrigin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		enabled    bool
		ago        time.Duration // the last update before
		hint       model.Hint
		hintAgo    time.Duration // 0: no date; below 0: in the future
		want       model.HintAnswer
		wantAgo    time.Duration // the last update afterwards; below 0: now; 0: none
		withoutRow bool          // no hint is recorded
	}{
		"earlier":            {enabled: true, ago: time.Hour, hintAgo: time.Minute, want: model.HintAnswer{Moved: 1}, wantAgo: time.Minute},
		"without a date":     {enabled: true, ago: time.Hour, want: model.HintAnswer{Moved: 1}, wantAgo: -1},
		"no update known":    {enabled: true, hintAgo: time.Minute, want: model.HintAnswer{Moved: 1}, wantAgo: time.Minute},
		"a later date":       {enabled: true, ago: time.Minute, hintAgo: time.Hour, want: model.HintAnswer{Newer: 1}, wantAgo: time.Minute},
		"the same date":      {enabled: true, ago: time.Hour, hintAgo: time.Hour, want: model.HintAnswer{Newer: 1}, wantAgo: time.Hour},
		"from the future":    {enabled: true, ago: time.Hour, hintAgo: -time.Hour, want: model.HintAnswer{Moved: 1}, wantAgo: -1},
		"a lister's future":  {enabled: true, ago: -time.Hour, want: model.HintAnswer{Newer: 1}, wantAgo: -time.Hour},
		"waits for a visit":  {enabled: true, ago: 70 * time.Second, hintAgo: 20 * time.Second, want: model.HintAnswer{Repeated: 1}, wantAgo: 70 * time.Second, withoutRow: true},
		"disabled":           {ago: time.Hour, want: model.HintAnswer{Disabled: 1}, wantAgo: time.Hour, withoutRow: true},
		"another URL":        {enabled: true, ago: time.Hour, hint: model.Hint{URL: hintedURL + "/q"}, want: model.HintAnswer{Unknown: 1}, wantAgo: time.Hour, withoutRow: true},
		"another visit type": {enabled: true, ago: time.Hour, hint: model.Hint{VisitType: "svn"}, want: model.HintAnswer{Unknown: 1}, wantAgo: time.Hour, withoutRow: true},
		"its visit type":     {enabled: true, ago: time.Hour, hint: model.Hint{VisitType: "git"}, want: model.HintAnswer{Moved: 1}, wantAgo: -1},
		"another spelling":   {enabled: true, ago: time.Hour, hint: model.Hint{URL: "http://Forge.example/u/p.git"}, want: model.HintAnswer{Moved: 1}, wantAgo: -1},
		"not valid": {
			enabled: true, ago: time.Hour, hint: model.Hint{URL: "https://u:p@forge.example/"}, wantAgo: time.Hour, withoutRow: true,
			want: model.HintAnswer{Refused: 1, Refusals: []model.HintRefusal{{URL: "https://u:p@forge.example/", Why: "the URL has a password"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHintWorld(t, model.UnknownHints{})
			w.list(t, hintedURL, c.enabled, c.ago)
			if c.hint.URL == "" {
				c.hint.URL = hintedURL
			}
			if c.hintAgo != 0 {
				c.hint.ChangedAt = w.now.Add(-c.hintAgo)
			}
			before := time.Now().Add(-5 * time.Second)
			if diff := cmp.Diff(c.want, w.hint(t, c.hint)); diff != "" {
				t.Error(diff)
			}
			got := w.lastUpdate(t, hintedURL)
			switch want := w.now.Add(-c.wantAgo); {
			case c.wantAgo == -1 && (got == nil || got.Before(before) || got.After(time.Now().Add(5*time.Second))):
				t.Errorf("the last update is %v, want now", got)
			case c.wantAgo == 0 && got != nil, c.wantAgo != 0 && c.wantAgo != -1 && (got == nil || !got.Equal(want)):
				t.Errorf("the last update is %v, want %v", got, want)
			}
			hints, err := w.store.LastHints(t.Context(), hintedURL, "git")
			if err != nil || (len(hints) == 0) != c.withoutRow {
				t.Errorf("recorded are %+v (%v)", hints, err)
			}
			sources, err := w.store.HintSources(t.Context())
			if err != nil || len(sources) != 1 || sources[0].Source != "test" || sources[0].Moved != int64(c.want.Moved) || sources[0].Refused != int64(c.want.Refused) {
				t.Errorf("counted are %+v (%v)", sources, err)
			}
		})
	}
}

// Thousands of hints of one origin are one move, until a visit is scheduled. The candidates follow.
func TestManyHintsOfOneOriginAreOneVisit(t *testing.T) {
	t.Parallel()
	w := newHintWorld(t, model.UnknownHints{})
	w.list(t, hintedURL, true, time.Hour)
	sqltest.Keep(t, w.store)
	hints := make([]model.Hint, 3000)
	for i := range hints {
		hints[i] = model.Hint{URL: hintedURL, ChangedAt: w.now.Add(time.Duration(i-3000) * time.Millisecond)}
	}
	if answer := w.hint(t, hints...); answer.Moved != 1 || answer.Repeated != 2999 {
		t.Errorf("%+v, want one moved", answer)
	}
	if n := testenv.Value[int](t, w.store.Pool(), "select count(*) from scheduler_go.candidate_changes"); n != 1 {
		t.Errorf("%d changes of candidates, want 1", n)
	}
	sqltest.Keep(t, w.store)
	sqltest.CheckCandidates(t, w.store)
	grab := func() int {
		n := 0
		err := w.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			origins, err := tx.GrabNextVisits(ctx, model.VisitFilter{VisitType: "git", Policy: model.NeverVisitedOldestUpdateFirst, Cooldowns: model.DefaultCooldowns}, w.store.Now(), 10, false)
			n = len(origins)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := grab(); n != 1 {
		t.Errorf("%d visits, want 1", n)
	}
	// After the visit was scheduled a hint moves the origin again, and it waits for its cooldown.
	if answer := w.hint(t, model.Hint{URL: hintedURL}); answer.Moved != 1 {
		t.Errorf("%+v, want it moved", answer)
	}
	if n := grab(); n != 0 {
		t.Errorf("%d visits within the cooldown", n)
	}
}

// A lister that writes a later date meanwhile keeps it, and hints deadlock neither with listers nor with each other.
func TestHintsBesideListers(t *testing.T) {
	t.Parallel()
	w := newHintWorld(t, model.UnknownHints{})
	const n = 50
	url := func(i int) string { return fmt.Sprintf("%s%02d", hintedURL, i) }
	for i := range n {
		w.list(t, url(i), true, time.Hour)
	}
	var g errgroup.Group
	latest := w.now.Add(time.Hour) // a date that no hint reaches
	g.Go(func() error {
		for range 20 {
			var listed []model.ListedOrigin
			for i := n - 1; i >= 0; i -= 2 {
				listed = append(listed, model.ListedOrigin{ListerID: w.lister.ID, URL: url(i), VisitType: "git", Enabled: true, LastUpdate: &latest})
			}
			if _, err := w.store.RecordListedOrigins(t.Context(), listed, false); err != nil {
				return err
			}
		}
		return nil
	})
	for source := range 3 {
		g.Go(func() error {
			for range 20 {
				var hints []model.Hint
				for i := range n {
					hints = append(hints, model.Hint{URL: url((i * 7 * (source + 1)) % n), Source: fmt.Sprint("s", source)})
				}
				if _, err := w.store.HintOrigins(t.Context(), hints); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if wrong := testenv.Value[int](t, w.store.Pool(), "select count(*) from listed_origins where (right(url, 2)::int % 2 = 1) <> (last_update = $1)", latest); wrong != 0 {
		t.Errorf("%d origins have the wrong date", wrong)
	}
}

// An origin with infinite dates takes no other origin's hint with it.
func TestHintsBesideInfiniteDates(t *testing.T) {
	t.Parallel()
	w := newHintWorld(t, model.UnknownHints{})
	hints := []model.Hint{{URL: hintedURL}}
	w.list(t, hintedURL, true, time.Hour)
	for _, date := range []string{"infinity", "-infinity", "20000-01-01"} {
		url := hintedURL + date
		w.list(t, url, true, time.Hour)
		testenv.Exec(t, w.store.Pool(), "update listed_origins set last_update = $2::timestamptz where url = $1", url, date)
		testenv.Exec(t, w.store.Pool(), "insert into origin_visit_stats (url, visit_type, last_scheduled, last_visit) values ($1, 'git', $2::timestamptz, $2::timestamptz)", url, date)
		hints = append(hints, model.Hint{URL: url})
	}
	if got, want := w.hint(t, hints...), (model.HintAnswer{Moved: 2, Newer: 2}); !cmp.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if at := w.lastUpdate(t, hintedURL+"-infinity"); at == nil || time.Since(*at).Abs() > time.Minute {
		t.Errorf("the last update is %v, want now", at)
	}
}

// Hints of unknown origins create origins of a lister of their own, up to a bound.
func TestHintsCreateOrigins(t *testing.T) {
	t.Parallel()
	w := newHintWorld(t, model.UnknownHints{Lister: "hints", Instance: "outside", VisitType: "git", Max: 3})
	var hints []model.Hint
	for i := range 5 {
		hints = append(hints, model.Hint{URL: fmt.Sprint("https://new.example/p", i)})
	}
	answer := w.hint(t, append(hints, model.Hint{URL: "https://127.0.0.1/p"}, model.Hint{URL: "git://new.example/p"})...)
	if want := (model.HintAnswer{Created: 3, Unknown: 4}); !cmp.Equal(answer, want) {
		t.Errorf("%+v, want %+v", answer, want)
	}
	lister, err := w.store.Lister(t.Context(), "hints", "outside")
	if err != nil {
		t.Fatal(err)
	}
	if n := testenv.Value[int](t, w.store.Pool(), "select count(*) from listed_origins where lister_id = $1 and enabled and visit_type = 'git' and last_update <= now()", lister.ID); n != 3 {
		t.Errorf("%d origins were created, want 3", n)
	}
	if answer := w.hint(t, hints[0], hints[4]); answer.Repeated != 1 || answer.Unknown != 1 {
		t.Errorf("%+v, want one repeated and one unknown", answer)
	}
}

// The first visit after a hint that succeeds counts for the source of the hint.
func TestVisitsAfterHints(t *testing.T) {
	t.Parallel()
	w := newHintWorld(t, model.UnknownHints{})
	visit := func(url string, status model.VisitStatus, snapshot byte) {
		at := w.store.Now().Add(time.Second)
		s := model.VisitStats{URL: url, VisitType: "git", LastVisit: &at, LastVisitStatus: status}
		if status == model.VisitSuccessful {
			s.LastSuccessful, s.LastSnapshot = &at, []byte{snapshot}
		}
		if err := w.store.UpsertVisitStats(t.Context(), []model.VisitStats{s}); err != nil {
			t.Fatal(err)
		}
	}
	for i, url := range []string{"a", "b", "c", "d"} {
		url = "https://forge.example/" + url
		w.list(t, url, true, time.Hour)
		testenv.Exec(t, w.store.Pool(), "insert into origin_visit_stats (url, visit_type, last_successful, last_visit, last_visit_status, last_snapshot) values ($1, 'git', $2, $2, 'successful', '\\x01')", url, w.now.Add(-time.Hour))
		if answer := w.hint(t, model.Hint{URL: url}); answer.Moved != 1 {
			t.Fatalf("%d: %+v", i, answer)
		}
	}
	visit("https://forge.example/a", model.VisitSuccessful, 2) // found something
	visit("https://forge.example/b", model.VisitSuccessful, 1)
	visit("https://forge.example/c", model.VisitFailed, 0)
	settle := func() {
		t.Helper()
		testenv.Exec(t, w.store.Pool(), "update scheduler_go.hints set check_at = now()")
		if err := w.store.MaintainHints(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	settle()
	settle() // counts nothing twice
	sources, err := w.store.HintSources(t.Context())
	if err != nil || len(sources) != 1 || sources[0].Visits != 2 || sources[0].Found != 1 {
		t.Errorf("%+v (%v), want 2 visits, one that found something", sources, err)
	}
	testenv.Exec(t, w.store.Pool(), "update scheduler_go.hints set received_at = now() - interval '31 days'")
	settle()
	if n := testenv.Value[int](t, w.store.Pool(), "select count(*) from scheduler_go.hints"); n != 0 {
		t.Errorf("%d old hints are left", n)
	}
}

// A lister that writes an earlier date, or none, doesn't take the visit from an origin that was hinted. After the visit
// the lister's date holds.
func TestListersDontTakeTheVisitOfAHint(t *testing.T) {
	t.Parallel()
	for name, ago := range map[string]time.Duration{"an earlier date": 3 * time.Hour, "no date": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHintWorld(t, model.UnknownHints{})
			w.list(t, hintedURL, true, 3*time.Hour)
			testenv.Exec(t, w.store.Pool(), "insert into origin_visit_stats (url, visit_type, last_successful, last_visit, last_visit_status, last_snapshot) values ($1, 'git', $2, $2, 'successful', '\\x01')", hintedURL, w.now.Add(-2*time.Hour))
			sqltest.Keep(t, w.store)
			changed := w.now.Add(-10 * time.Minute)
			if answer := w.hint(t, model.Hint{URL: hintedURL, ChangedAt: changed}); answer.Moved != 1 {
				t.Fatalf("%+v", answer)
			}
			maintain := func() {
				t.Helper()
				testenv.Exec(t, w.store.Pool(), "update scheduler_go.hints set check_at = now() - interval '1 second'")
				if err := w.store.MaintainHints(t.Context(), time.Minute); err != nil {
					t.Fatal(err)
				}
				sqltest.Keep(t, w.store)
				sqltest.CheckCandidates(t, w.store)
			}
			w.list(t, hintedURL, true, ago)
			maintain()
			if at := w.lastUpdate(t, hintedURL); at == nil || !at.Equal(changed) {
				t.Errorf("the last update is %v, want that of the hint, %v", at, changed)
			}
			if n := w.grabByLag(t); n != 1 {
				t.Errorf("%d visits of a hinted origin that a lister set back, want 1", n)
			}
			visited := w.store.Now()
			if err := w.store.UpsertVisitStats(t.Context(), []model.VisitStats{{URL: hintedURL, VisitType: "git", LastVisit: &visited, LastVisitStatus: model.VisitFailed}}); err != nil {
				t.Fatal(err)
			}
			w.list(t, hintedURL, true, ago)
			maintain()
			if at := w.lastUpdate(t, hintedURL); at != nil && at.Equal(changed) {
				t.Error("the date of the hint is back after the visit")
			}
			w.list(t, hintedURL, false, ago)
			testenv.Exec(t, w.store.Pool(), "delete from origin_visit_stats")
			maintain()
			if at := w.lastUpdate(t, hintedURL); at != nil && at.Equal(changed) {
				t.Error("the date of the hint is back at a disabled origin")
			}
		})
	}
}

// A visit that was claimed before a change may have missed it. Its end doesn't take the next visit from the origin, unless
// that was claimed after the change.
func TestHintsDuringAVisit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claimed time.Duration // before the hint; below 0: after it
		visited time.Duration // after the present
		status  model.VisitStatus
		again   bool
	}{
		"claimed before":              {time.Minute, 0, model.VisitSuccessful, true},
		"claimed afterwards":          {-time.Second, 0, model.VisitSuccessful, false},
		"failed":                      {time.Minute, 0, model.VisitFailed, false},
		"a worker's clock in a month": {time.Minute, 30 * 24 * time.Hour, model.VisitSuccessful, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHintWorld(t, model.UnknownHints{})
			w.list(t, hintedURL, true, 3*time.Hour)
			sqltest.Keep(t, w.store)
			changed := w.now.Add(-time.Minute)
			testenv.Exec(t, w.store.Pool(), "insert into origin_visit_stats (url, visit_type, last_scheduled) values ($1, 'git', $2)", hintedURL, changed.Add(-c.claimed))
			if answer := w.hint(t, model.Hint{URL: hintedURL, ChangedAt: changed}); answer.Moved != 1 {
				t.Fatalf("%+v", answer)
			}
			visited := w.store.Now().Add(c.visited).Truncate(time.Microsecond)
			visit := func(at time.Time) {
				t.Helper()
				scheduled := testenv.Value[*time.Time](t, w.store.Pool(), "select last_scheduled from origin_visit_stats")
				s := model.VisitStats{URL: hintedURL, VisitType: "git", LastVisit: &at, LastVisitStatus: c.status, LastScheduled: scheduled}
				if c.status == model.VisitSuccessful {
					s.LastSuccessful, s.LastSnapshot = &at, []byte{1}
				}
				if err := w.store.UpsertVisitStats(t.Context(), []model.VisitStats{s}); err != nil {
					t.Fatal(err)
				}
			}
			maintain := func() {
				t.Helper()
				testenv.Exec(t, w.store.Pool(), "update scheduler_go.hints set check_at = now() - interval '1 second'")
				if err := w.store.MaintainHints(t.Context(), time.Minute); err != nil {
					t.Fatal(err)
				}
				sqltest.Keep(t, w.store)
				sqltest.CheckCandidates(t, w.store)
			}
			visit(visited)
			maintain()
			maintain() // changes nothing more
			want := changed
			if c.again {
				want = visited.Add(time.Microsecond)
			}
			if at := w.lastUpdate(t, hintedURL); at == nil || !at.Equal(want) {
				t.Errorf("the last update is %v, want %v", at, want)
			}
			if !c.again {
				return
			}
			// A lister doesn't take this visit from it either.
			w.list(t, hintedURL, true, 3*time.Hour)
			maintain()
			if n := w.grabByLag(t); n != 1 {
				t.Errorf("%d visits, want 1", n)
			}
			visit(w.store.Now())
			maintain()
			if n := w.grabByLag(t); n != 0 {
				t.Errorf("%d visits after the next one, want none", n)
			}
			sources, err := w.store.HintSources(t.Context())
			if err != nil || sources[0].Visits != 2 || sources[0].Found != 1 {
				t.Errorf("%+v (%v), want two visits, of which one found a snapshot", sources, err)
			}
		})
	}
}

// A hint that repeats another one, or comes late, takes nothing from it: neither the visit after one that may have missed
// the change, nor the date that a lister overwrites.
func TestRepeatedHintsTakeNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ago    time.Duration // of the later hint, before the first one's date
		during bool          // a visit that was claimed before the first hint's date ends after it
	}{
		"the same during a visit": {0, true},
		"a late one":              {10 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHintWorld(t, model.UnknownHints{})
			w.list(t, hintedURL, true, 3*time.Hour)
			changed := w.now.Add(-5 * time.Minute)
			testenv.Exec(t, w.store.Pool(), "insert into origin_visit_stats (url, visit_type, last_scheduled, last_visit, last_successful, last_visit_status) values ($1, 'git', $2, $2, $2, 'successful')",
				hintedURL, changed.Add(-time.Minute))
			if answer := w.hint(t, model.Hint{URL: hintedURL, ChangedAt: changed}); answer.Moved != 1 {
				t.Fatalf("%+v", answer)
			}
			testenv.Exec(t, w.store.Pool(), "update scheduler_go.hints set received_at = received_at - interval '2 minutes'")
			if answer := w.hint(t, model.Hint{URL: hintedURL, ChangedAt: changed.Add(-c.ago), Source: "other"}); answer.Newer != 1 {
				t.Fatalf("%+v", answer)
			}
			want := changed
			if c.during {
				visited := w.store.Now().Truncate(time.Microsecond)
				testenv.Exec(t, w.store.Pool(), "update origin_visit_stats set last_visit = $1, last_successful = $1", visited)
				want = visited.Add(time.Microsecond)
			} else {
				w.list(t, hintedURL, true, 3*time.Hour)
			}
			testenv.Exec(t, w.store.Pool(), "update scheduler_go.hints set check_at = now() - interval '1 second'")
			if err := w.store.MaintainHints(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
			if at := w.lastUpdate(t, hintedURL); at == nil || !at.Equal(want) {
				t.Errorf("the last update is %v, want %v", at, want)
			}
		})
	}
}

// grabByLag returns how many origins the policy by lag picks.
func (w *hintWorld) grabByLag(t *testing.T) (n int) {
	t.Helper()
	err := w.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		origins, err := tx.GrabNextVisits(ctx, model.VisitFilter{VisitType: "git", Policy: model.AlreadyVisitedOrderByLag, Cooldowns: model.Cooldowns{}}, w.store.Now(), 10, false)
		n = len(origins)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// However many sources there are, the table stays small.
func TestHintSourcesAreBounded(t *testing.T) {
	t.Parallel()
	w := newHintWorld(t, model.UnknownHints{})
	w.list(t, hintedURL, true, time.Hour)
	var once sync.Once
	for part := range 3 {
		var hints []model.Hint
		for i := range 600 {
			hints = append(hints, model.Hint{URL: hintedURL, Source: fmt.Sprint("s", part*600+i)})
		}
		once.Do(func() { hints = append(hints, model.Hint{URL: hintedURL, Source: "others"}) })
		w.hint(t, hints...)
	}
	n := testenv.Value[int](t, w.store.Pool(), "select count(*) from scheduler_go.hint_sources")
	others := testenv.Value[int](t, w.store.Pool(), "select moved + newer + repeated from scheduler_go.hint_sources where source = 'others'")
	if n != 1201 || others != 601 { // the bound is checked before each transaction
		t.Errorf("%d sources, %d hints of others", n, others)
	}
}
