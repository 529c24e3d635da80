package freshness

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv/seed"
)

// A forecast says when the backlog is gone, "never at this rate" if it grows, and "not known" without data; and what it is made from.
func TestForecast(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	counted := now.Add(-3 * time.Hour)
	growth := func(known, never, changed float64) *Growth {
		return &Growth{Over: 7 * day, Known: known, Never: never, Changed: changed}
	}
	visits := func(perDay, took float64, ends int64) *Visits {
		return &Visits{Over: 7 * day, PerDay: perDay, Took: took, Ends: ends}
	}
	for _, c := range []struct {
		name    string
		flow    Flow
		plan    Plan
		verdict Verdict
		days    float64
		needed  int // below 0: none
		text    string
	}{
		{"nothing", Flow{}, Plan{By: now.Add(day)}, VerdictUnknown, 0, -1, "update-metrics"},
		{"no backlog", Flow{Counted: counted}, Plan{}, VerdictDone, 0, -1, "no backlog"},
		{"counted once", Flow{Counted: counted, Never: 5, Visits: visits(100, 60, 9)}, Plan{By: now.Add(day)}, VerdictUnknown, 0, -1, "counted once"},
		{"shrinks", Flow{Counted: counted, Never: 600, Changed: 400, Growth: growth(50, -60, -40)}, Plan{}, VerdictGone, 10, -1, "gone in 10 days"},
		{"grows", Flow{Counted: counted, Never: 600, Growth: growth(50, 40, 0)}, Plan{}, VerdictNever, 0, -1, "grows by 40 a day"},
		{"stands", Flow{Counted: counted, Never: 600, Growth: growth(0, 0, 0)}, Plan{}, VerdictNever, 0, -1, "never at this rate"},
		{"in centuries", Flow{Counted: counted, Never: 1e9, Growth: growth(0, -1, 0)}, Plan{}, VerdictNever, 0, -1, "not in 100 years"},
		// 100 visits a day and a backlog that grows by 40: 140 come. Ten workers of an hour a visit do 240.
		{"ten workers", Flow{Counted: counted, Never: 600, Growth: growth(50, 40, 0), Visits: visits(100, 3600, 700)}, Plan{Workers: 10}, VerdictGone, 6, -1, "gone in 6 days"},
		{"too few workers", Flow{Counted: counted, Never: 600, Growth: growth(50, 40, 0), Visits: visits(100, 3600, 700)}, Plan{Workers: 5}, VerdictNever, 0, -1, "grows by 20 a day"},
		{"workers, no runtime", Flow{Counted: counted, Never: 600, Growth: growth(50, 40, 0), Visits: visits(100, 0, 0)}, Plan{Workers: 5}, VerdictUnknown, 0, -1, "no runtime"},
		{"workers, no visits", Flow{Counted: counted, Never: 600, Growth: growth(50, 40, 0)}, Plan{Workers: 5}, VerdictUnknown, 0, -1, "no visits"},
		// 140 come and 600 wait: 240 a day over six days are ten workers.
		{"by a day", Flow{Counted: counted, Never: 600, Growth: growth(50, 40, 0), Visits: visits(100, 3600, 700)}, Plan{By: now.Add(6 * day)}, VerdictNever, 0, 10, "never"},
		{"by yesterday", Flow{Counted: counted, Never: 600, Growth: growth(50, 40, 0), Visits: visits(100, 3600, 700)}, Plan{By: now.Add(-day)}, VerdictNever, 0, -1, "never"},
		{"more are disabled than visited", Flow{Counted: counted, Never: 600, Growth: growth(0, -300, 0), Visits: visits(100, 3600, 700)}, Plan{By: now.Add(6 * day)}, VerdictGone, 2, 5, "gone in 2 days"},
	} {
		f := c.flow.Forecast(c.plan, now)
		if f.Verdict != c.verdict || !strings.Contains(f.Text, c.text) {
			t.Errorf("%s: %s, %s", c.name, f.Verdict, f.Text)
		}
		if f.Verdict == VerdictGone && (f.GoneIn == nil || *f.GoneIn != c.days*86400 || !f.GoneAt.Equal(now.Add(time.Duration(c.days*float64(day))))) {
			t.Errorf("%s: gone in %v s, at %v", c.name, f.GoneIn, f.GoneAt)
		}
		if (f.Needed == nil) != (c.needed < 0) || f.Needed != nil && *f.Needed != c.needed {
			t.Errorf("%s: %v workers", c.name, f.Needed)
		}
		if c.plan.By.IsZero() != (f.NeededText == "") {
			t.Errorf("%s: %q", c.name, f.NeededText)
		}
	}
	said := strings.Join(Flow{Counted: counted, Never: 1, Growth: growth(1, 1, 0), Visits: visits(240, 3600, 700)}.Forecast(Plan{}, now).Assumptions, "; ")
	if want := "growth between two counts 7 days apart; visits over 7 days; mean runtime of 700 ends; origins as counted 3 h ago; as many parallel workers as now: 10"; said != want {
		t.Errorf("assumes %s", said)
	}
}

// With the workers that it says are needed, a backlog is gone by the day; with one less, it is not.
func TestWorkersNeededAreEnough(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	seed.Check(t, func(t *rapid.T) {
		f := Flow{
			Counted: now, Never: rapid.Int64Range(1, 1e8).Draw(t, "never"), Changed: rapid.Int64Range(0, 1e8).Draw(t, "changed"),
			Growth: &Growth{Over: day, Known: 1, Never: rapid.Float64Range(-1e5, 1e5).Draw(t, "growth")},
			Visits: &Visits{Over: day, PerDay: rapid.Float64Range(0, 1e6).Draw(t, "visits"), Took: rapid.Float64Range(1, 1e5).Draw(t, "took"), Ends: 1},
		}
		by := now.Add(time.Duration(rapid.Int64Range(int64(time.Hour), int64(10*365*day)).Draw(t, "by")))
		n := f.Forecast(Plan{By: by}, now).Needed
		if n == nil {
			return // more than can be counted
		}
		gone := func(workers int, by time.Time) bool {
			with := f.Forecast(Plan{Workers: workers}, now)
			return with.Verdict == VerdictGone && !with.GoneAt.After(by)
		}
		if *n > 0 && !gone(*n, by.Add(time.Minute)) {
			t.Errorf("%d workers are not enough", *n)
		}
		if *n > 1 && gone(*n-1, by.Add(-time.Minute)) {
			t.Errorf("%d workers are needed, and one less is enough", *n)
		}
	})
}

// A lister is judged by when its last two listings ended.
func TestListingOf(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		finished, previous time.Time
		want               ListingState
	}{
		{time.Time{}, time.Time{}, ListingUnknown},
		{ago(time.Hour), time.Time{}, ListingOK},
		{ago(31 * day), time.Time{}, ListingStopped},
		{ago(day), ago(2 * day), ListingOK},
		{ago(3 * day), ago(4 * day), ListingBehind},
		{ago(8 * day), ago(9 * day), ListingStopped},
		{ago(23 * time.Hour), ago(24 * time.Hour), ListingOK},
		{ago(25 * time.Hour), ago(26 * time.Hour), ListingBehind},
		{ago(50 * day), ago(80 * day), ListingOK},
		{ago(70 * day), ago(100 * day), ListingBehind},
		{ago(day), now, ListingOK}, // the clock jumped
		{now.Add(day), ago(day), ListingOK},
	} {
		if got := ListingOf(c.finished, c.previous, now); got != c.want {
			t.Errorf("%v, %v: %s, not %s", c.finished, c.previous, got, c.want)
		}
	}
}
