package journal

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/ledger"
)

// noFudge removes the random part of intervals.
var noFudge = Rules{Fudge: func() float64 { return 0 }}

const day = int64(24 * 3600)

var (
	origin = model.OriginKey{URL: "https://example.org/repo", VisitType: "git"}

	snapshotA = []byte("aaaaaaaaaaaaaaaaaaaa")
	snapshotB = []byte("bbbbbbbbbbbbbbbbbbbb")
)

func at(days int) time.Time { return time.Date(2024, 1, 1+days, 12, 0, 0, 0, time.UTC) }

func ptr[T any](v T) *T { return &v }

func success(days int, snapshot []byte) Visit {
	return Visit{OriginKey: origin, Date: at(days), Status: model.VisitSuccessful, Snapshot: snapshot}
}

func failure(days int) Visit {
	return Visit{OriginKey: origin, Date: at(days), Status: model.VisitFailed}
}

func notFound(days int) Visit {
	return Visit{OriginKey: origin, Date: at(days), Status: model.VisitNotFound}
}

// fresh is the stats of an unknown origin.
func fresh(change func(*model.VisitStats)) model.VisitStats {
	s := model.VisitStats{URL: origin.URL, VisitType: origin.VisitType, NextPositionOffset: 4, SuccessiveVisits: 1}
	if change != nil {
		change(&s)
	}
	return s
}

// Each case has the visits of one origin in one batch, and the resulting stats.
func TestVisitsChangeStats(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		known         model.VisitStats
		queuePosition int64
		visits        []Visit
		want          model.VisitStats
		disable       bool
	}{
		{
			name:  "a first visit keeps the offset 4 and starts the queue at 0",
			known: fresh(nil), visits: []Visit{success(0, snapshotA)},
			want: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(0)), model.VisitSuccessful
				s.LastSuccessful, s.LastSnapshot = ptr(at(0)), snapshotA
				s.NextVisitQueuePosition = ptr(2 * day)
			}),
		},
		{
			name:  "a first visit of an origin that was scheduled keeps the offset of its row",
			known: fresh(func(s *model.VisitStats) { s.NextPositionOffset, s.SuccessiveVisits = 7, 5 }), visits: []Visit{failure(0)},
			want: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(0)), model.VisitFailed
				s.NextPositionOffset, s.SuccessiveVisits = 7, 1
				s.NextVisitQueuePosition = ptr(64 * day)
			}),
		},
		{
			name:  "the position starts where the visit type's queue stands",
			known: fresh(nil), queuePosition: 1000, visits: []Visit{failure(0)},
			want: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(0)), model.VisitFailed
				s.NextVisitQueuePosition = ptr(1000 + 2*day)
			}),
		},
		{
			name:          "a position of its own wins over the queue's",
			known:         fresh(func(s *model.VisitStats) { s.NextVisitQueuePosition = ptr(int64(-5)) }),
			queuePosition: 1000, visits: []Visit{failure(0)},
			want: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(0)), model.VisitFailed
				s.NextVisitQueuePosition = ptr(-5 + 2*day)
			}),
		},
		{
			name:          "a position of 0 is none, as Python's truth has it",
			known:         fresh(func(s *model.VisitStats) { s.NextVisitQueuePosition = ptr(int64(0)) }),
			queuePosition: 1000, visits: []Visit{failure(0)},
			want: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(0)), model.VisitFailed
				s.NextVisitQueuePosition = ptr(1000 + 2*day)
			}),
		},
		{
			name:  "an eventful visit takes 2 off the offset, one with the same snapshot adds 1",
			known: fresh(nil), visits: []Visit{success(0, snapshotA), success(1, snapshotA), success(2, snapshotB)},
			want: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(2)), model.VisitSuccessful
				s.LastSuccessful, s.LastSnapshot = ptr(at(2)), snapshotB
				s.NextPositionOffset, s.SuccessiveVisits = 3, 3
				s.NextVisitQueuePosition = ptr((2 + 4 + 2) * day)
			}),
		},
		{
			name: "the offset does not sink below 0",
			known: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus, s.NextPositionOffset = ptr(at(-1)), model.VisitSuccessful, 1
			}),
			visits: []Visit{success(0, snapshotA)},
			want: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(0)), model.VisitSuccessful
				s.LastSuccessful, s.LastSnapshot = ptr(at(0)), snapshotA
				s.NextPositionOffset, s.SuccessiveVisits = 0, 2
				s.NextVisitQueuePosition = ptr(1 * day)
			}),
		},
		{
			name: "the offset does not rise above 10",
			known: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus, s.NextPositionOffset = ptr(at(-1)), model.VisitSuccessful, 10
			}),
			visits: []Visit{failure(0)},
			want: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(0)), model.VisitFailed
				s.NextPositionOffset = 10
				s.NextVisitQueuePosition = ptr(4096 * day)
			}),
		},
		{
			name:  "three failures in a row disable the origin",
			known: fresh(nil), visits: []Visit{failure(0), failure(1), failure(2)}, disable: true,
			want: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(2)), model.VisitFailed
				s.NextPositionOffset, s.SuccessiveVisits = 6, 3
				s.NextVisitQueuePosition = ptr((2 + 4 + 16) * day)
			}),
		},
		{
			name:  "three times not found disables too, even if a success follows in the batch",
			known: fresh(nil), visits: []Visit{notFound(0), notFound(1), notFound(2), success(3, snapshotA)}, disable: true,
			want: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(3)), model.VisitSuccessful
				s.LastSuccessful, s.LastSnapshot = ptr(at(3)), snapshotA
				s.NextPositionOffset, s.SuccessiveVisits = 4, 1
				s.NextVisitQueuePosition = ptr((2 + 4 + 16 + 2) * day)
			}),
		},
		{
			name:  "failed and not found do not count together",
			known: fresh(nil), visits: []Visit{failure(0), failure(1), notFound(2), notFound(3)},
			want: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(3)), model.VisitNotFound
				s.NextPositionOffset, s.SuccessiveVisits = 7, 2
				s.NextVisitQueuePosition = ptr((2 + 4 + 16 + 64) * day)
			}),
		},
		{
			name:  "a success keeps its date and snapshot through later failures",
			known: fresh(nil), visits: []Visit{success(0, snapshotA), failure(1)},
			want: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(1)), model.VisitFailed
				s.LastSuccessful, s.LastSnapshot = ptr(at(0)), snapshotA
				s.NextPositionOffset = 5
				s.NextVisitQueuePosition = ptr((2 + 4) * day)
			}),
		},
		{
			name:  "what comes late or again changes nothing",
			known: fresh(nil), visits: []Visit{failure(2), success(1, snapshotA), failure(2), success(2, snapshotB)},
			want: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(2)), model.VisitFailed
				s.NextVisitQueuePosition = ptr(2 * day)
			}),
		},
		{
			name: "a last success in the future stays",
			known: fresh(func(s *model.VisitStats) {
				s.LastSuccessful, s.LastSnapshot = ptr(at(100)), snapshotA
			}),
			visits: []Visit{success(0, snapshotB)},
			want: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(0)), model.VisitSuccessful
				s.LastSuccessful, s.LastSnapshot = ptr(at(100)), snapshotB
				s.NextVisitQueuePosition = ptr(2 * day)
			}),
		},
		{
			name: "an empty snapshot is not the same as none",
			known: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(-1)), model.VisitFailed
			}),
			visits: []Visit{success(0, []byte{})},
			want: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(0)), model.VisitSuccessful
				s.LastSuccessful, s.LastSnapshot = ptr(at(0)), []byte{}
				s.NextPositionOffset = 2
				s.NextVisitQueuePosition = ptr(2 * day)
			}),
		},
		{
			name: "counters and positions stop at their last value",
			known: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(-1)), model.VisitFailed
				s.SuccessiveVisits, s.NextVisitQueuePosition = math.MaxInt32, ptr(int64(math.MaxInt64-1))
			}),
			visits: []Visit{failure(0)}, disable: true,
			want: fresh(func(s *model.VisitStats) {
				s.LastVisit, s.LastVisitStatus = ptr(at(0)), model.VisitFailed
				s.NextPositionOffset, s.SuccessiveVisits = 5, math.MaxInt32
				s.NextVisitQueuePosition = ptr(int64(math.MaxInt64))
			}),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tally := newTally(noFudge, ledger.KnownVisits{
				Stats:          []model.VisitStats{tc.known},
				QueuePositions: map[string]int64{origin.VisitType: tc.queuePosition},
			})
			tally.apply(tc.visits)
			if diff := cmp.Diff(tc.want, tally.origins[origin].VisitStats); diff != "" {
				t.Errorf("stats (-want +got):\n%s", diff)
			}
			if len(tally.changed) != 1 {
				t.Errorf("%d stats changed, want 1", len(tally.changed))
			}
			if disabled := tally.disabled[origin.URL]; disabled != tc.disable {
				t.Errorf("disabled: %t, want %t", disabled, tc.disable)
			}
		})
	}
}

func TestIntervals(t *testing.T) {
	t.Parallel()
	for offset, want := range []int64{1, 1, 2, 2, 2, 4, 16, 64, 256, 1024, 4096} {
		if got := model.DefaultVisitRules.Interval(int32(offset)); got != time.Duration(want)*24*time.Hour {
			t.Errorf("offset %d: %s, want %d days", offset, got, want)
		}
	}
}

// The random part is at most a tenth of an interval, either way.
func TestFudge(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		share float64
		want  int64
	}{{-0.1, 155520}, {0, 172800}, {0.1, 190080}, {0.05, 181440}} {
		if got := (Rules{Fudge: func() float64 { return tc.share }}).interval(4); got != tc.want {
			t.Errorf("share %v: %d seconds, want %d", tc.share, got, tc.want)
		}
	}
	shorter, longer := 0, 0
	for range 1000 {
		got := (Rules{}).interval(4)
		if got < 155520 || got > 190080 {
			t.Fatalf("%d seconds is more than a tenth off two days", got)
		}
		if got < 172800 {
			shorter++
		} else {
			longer++
		}
	}
	if shorter < 300 || longer < 300 { // of 500 each: off by more than twelve standard deviations
		t.Errorf("%d intervals are shorter than two days, %d longer", shorter, longer)
	}
}

// The table of intervals, its end, the random part and the number of failures are configurable.
func TestConfiguredRules(t *testing.T) {
	t.Parallel()
	hours := func(n int64) *int64 { return ptr(n * 3600) }
	rules := Rules{Visits: &model.VisitRules{Intervals: []time.Duration{time.Hour, 2 * time.Hour, 5 * time.Hour}, DisableAfter: 2}}
	tally := newTally(rules, ledger.KnownVisits{})
	for i, c := range []struct {
		visit  Visit
		offset int32
		want   *int64
	}{
		{success(0, snapshotA), 4, hours(5)}, // a first visit keeps its offset, which has the last interval
		{success(1, snapshotA), 2, hours(10)},
		{success(2, snapshotB), 0, hours(11)},
		{failure(3), 1, hours(13)},
		{failure(4), 2, hours(18)},
	} {
		tally.apply([]Visit{c.visit})
		s := tally.origins[origin]
		if s.NextPositionOffset != c.offset || *s.NextVisitQueuePosition != *c.want {
			t.Errorf("visit %d: offset %d, position %d, want %d and %d", i, s.NextPositionOffset, *s.NextVisitQueuePosition, c.offset, *c.want)
		}
		if disabled := tally.disabled[origin.URL]; disabled != (i == 4) {
			t.Errorf("visit %d: disabled %v", i, disabled)
		}
	}
	rules.Visits.Fudge = 0.5
	for range 1000 {
		if got := rules.interval(0); got < 1800 || got > 5400 {
			t.Fatalf("%d seconds is more than a half off an hour", got)
		}
	}
}

// With disable_after_mixed, that many visits in a row that fail or find nothing, in any mixture and any
// batches, disable an origin. Without it, only visits with the same outcome do.
func TestMixedFailuresDisable(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		mixed := rapid.SampledFrom([]int{0, 3, 5}).Draw(t, "disable_after_mixed")
		rules := Rules{Fudge: noFudge.Fudge, FailuresKeepDate: rapid.Bool().Draw(t, "failures keep date"), Visits: &model.VisitRules{
			Intervals: model.DefaultVisitRules.Intervals, DisableAfter: 3, DisableAfterMixed: mixed,
		}}
		statuses := rapid.SliceOfN(rapid.SampledFrom([]model.VisitStatus{model.VisitSuccessful, model.VisitFailed, model.VisitNotFound}), 1, 25).Draw(t, "statuses")
		var known ledger.KnownVisits
		same, any := 0, 0
		for day, status := range statuses {
			v := Visit{OriginKey: origin, Date: at(day), Status: status}
			if status == model.VisitSuccessful {
				v.Snapshot = snapshotA
			}
			if same++; day == 0 || statuses[day-1] != status {
				same = 1
			}
			if any++; status == model.VisitSuccessful {
				any = 0
			}
			tally := newTally(rules, known)
			tally.apply([]Visit{v, v}) // the visit comes twice
			want := any > 0 && (same >= 3 || mixed > 0 && any >= mixed)
			if got := tally.disabled[origin.URL]; got != want {
				t.Fatalf("visit %d of %v: disabled %v, want %v", day, statuses, got, want)
			}
			changes := tally.changes() // as the database returns them for the next batch
			known = ledger.KnownVisits{Stats: []model.VisitStats{*changes.Stats[0]}, LastFailures: changes.LastFailures}
		}
	})
}

// Visits in a row with the same status, counted before disable_after_mixed was set, count for it, too.
func TestMixedFailuresCountThoseBefore(t *testing.T) {
	t.Parallel()
	rules := Rules{Fudge: noFudge.Fudge, Visits: &model.VisitRules{Intervals: model.DefaultVisitRules.Intervals, DisableAfter: 10, DisableAfterMixed: 5}}
	for before, want := range map[int32]bool{3: false, 4: true} {
		tally := newTally(rules, ledger.KnownVisits{Stats: []model.VisitStats{{
			URL: origin.URL, VisitType: origin.VisitType, LastVisit: new(at(0)), LastVisitStatus: model.VisitFailed, SuccessiveVisits: before,
		}}})
		tally.apply([]Visit{{OriginKey: origin, Date: at(1), Status: model.VisitFailed}})
		if got := tally.disabled[origin.URL]; got != want {
			t.Errorf("after %d failed visits and one more: disabled %v, want %v", before, got, want)
		}
	}
}

// For any numbers in a row, an interval moves an origin forward.
func TestIntervalsAreWithinBounds(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(-0.1, 0.1).Draw(t, "share")
		offset := rapid.Int32().Draw(t, "offset")
		if got := (Rules{Fudge: func() float64 { return share }}).interval(offset); got <= 0 {
			t.Fatalf("offset %d moves by %d seconds", offset, got)
		}
	})
}

func drawVisits(t *rapid.T) []Visit {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Visit {
		v := Visit{OriginKey: origin, Date: at(rapid.IntRange(0, 20).Draw(t, "day"))}
		v.URL = rapid.SampledFrom([]string{"https://a.example", "https://b.example"}).Draw(t, "url")
		v.Status = rapid.SampledFrom([]model.VisitStatus{model.VisitSuccessful, model.VisitFailed, model.VisitNotFound}).Draw(t, "status")
		if v.Status == model.VisitSuccessful {
			v.Snapshot = rapid.SampledFrom([][]byte{snapshotA, snapshotB}).Draw(t, "snapshot")
		}
		return v
	}), 0, 40).Draw(t, "visits")
}

// Reading any part of the journal again, from any point, changes nothing.
func TestReplayChangesNothing(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		rules := Rules{Fudge: noFudge.Fudge, FailuresKeepDate: rapid.Bool().Draw(t, "failures keep date")}
		visits := drawVisits(t)
		tally := newTally(rules, ledger.KnownVisits{})
		tally.apply(visits)
		applied := tally.applied.Total()
		from := rapid.IntRange(0, len(visits)).Draw(t, "from")
		before := snapshotOf(tally)
		tally.apply(visits[from:])
		if tally.applied.Total() != applied {
			t.Fatalf("%d visits were applied again", tally.applied.Total()-applied)
		}
		if diff := cmp.Diff(before, snapshotOf(tally)); diff != "" {
			t.Fatalf("replay changed stats (-before +after):\n%s", diff)
		}
	})
}

// The division of a stream into batches has no effect on the result.
func TestBatchesMakeNoDifference(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		rules := Rules{Fudge: noFudge.Fudge, FailuresKeepDate: rapid.Bool().Draw(t, "failures keep date")}
		visits := drawVisits(t)
		whole := newTally(rules, ledger.KnownVisits{})
		whole.apply(visits)
		cut := rapid.IntRange(0, len(visits)).Draw(t, "cut")
		parts := newTally(rules, ledger.KnownVisits{})
		parts.apply(visits[:cut])
		parts.apply(visits[cut:])
		if diff := cmp.Diff(snapshotOf(whole), snapshotOf(parts)); diff != "" {
			t.Fatalf("(-whole +parts):\n%s", diff)
		}
	})
}

func snapshotOf(t *tally) map[model.OriginKey]model.VisitStats {
	all := make(map[model.OriginKey]model.VisitStats)
	for key, s := range t.origins {
		all[key] = s.VisitStats
	}
	return all
}

// By the rule FailuresKeepDate the date and the offset stay, the origin moves by a day, and three failures
// in a row disable it. A repeated failure changes nothing, even though the date of the last visit doesn't
// show it.
func TestFailuresKeepDate(t *testing.T) {
	t.Parallel()
	tally := newTally(Rules{Fudge: noFudge.Fudge, FailuresKeepDate: true}, ledger.KnownVisits{})
	tally.apply([]Visit{success(0, snapshotA), success(1, snapshotA), failure(3), failure(4), failure(4), failure(2)})
	want := fresh(func(s *model.VisitStats) {
		s.LastVisit, s.LastVisitStatus = ptr(at(1)), model.VisitFailed
		s.LastSuccessful, s.LastSnapshot = ptr(at(1)), snapshotA
		s.NextPositionOffset, s.SuccessiveVisits = 5, 2
		s.NextVisitQueuePosition = ptr((2 + 4 + 1 + 1) * day)
	})
	if diff := cmp.Diff(want, tally.origins[origin].VisitStats); diff != "" {
		t.Errorf("after failures (-want +got):\n%s", diff)
	}
	if got := tally.changes().LastFailures[origin].Date; !got.Equal(at(4)) {
		t.Errorf("last failure %s, want %s", got, at(4))
	}
	tally.apply([]Visit{failure(5)})
	if !tally.disabled[origin.URL] {
		t.Error("three failures in a row did not disable the origin")
	}
	tally.apply([]Visit{success(4, snapshotB), success(6, snapshotB)}) // the first is late
	want.LastVisit, want.LastVisitStatus = ptr(at(6)), model.VisitSuccessful
	want.LastSuccessful, want.LastSnapshot = ptr(at(6)), snapshotB
	want.NextPositionOffset, want.SuccessiveVisits = 3, 1
	want.NextVisitQueuePosition = ptr((2 + 4 + 1 + 1 + 1 + 2) * day)
	if diff := cmp.Diff(want, tally.origins[origin].VisitStats); diff != "" {
		t.Errorf("after a success (-want +got):\n%s", diff)
	}
}

// A first visit that fails sets the origin's date all the same.
func TestFirstFailureGivesTheDate(t *testing.T) {
	t.Parallel()
	tally := newTally(Rules{Fudge: noFudge.Fudge, FailuresKeepDate: true}, ledger.KnownVisits{})
	tally.apply([]Visit{failure(0)})
	if got := tally.origins[origin].LastVisit; got == nil || !got.Equal(at(0)) {
		t.Errorf("last visit %v, want %s", got, at(0))
	}
}
