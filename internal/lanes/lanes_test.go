package lanes

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv/seed"
)

// one returns a lane with a fixed number of slots.
func one(slots, held, timedOut, waiting int) State {
	return State{Slots: slots, Min: 1, Max: slots, Held: held, TimedOut: timedOut, FirstTries: waiting}
}

func TestSizes(t *testing.T) {
	grows := func(s State, most int) State { s.Max = most; return s }
	for name, tc := range map[string]struct {
		lanes []State
		more  bool
		want  []int
	}{
		"both in use":                   {[]State{one(10, 10, 0, 5), one(5, 5, 0, 5)}, false, []int{10, 5}},
		"an idle express lane lends":    {[]State{one(10, 0, 0, 0), grows(one(5, 5, 3, 1), 100)}, false, []int{6, 9}},
		"not while more may come":       {[]State{one(10, 0, 0, 0), grows(one(5, 5, 3, 1), 100)}, true, []int{10, 5}},
		"within the other's bounds":     {[]State{one(10, 0, 0, 0), grows(one(5, 5, 90, 0), 8)}, false, []int{7, 8}},
		"and its own":                   {[]State{{Slots: 10, Min: 4, Max: 10}, grows(one(5, 5, 90, 0), 100)}, false, []int{4, 11}},
		"one is always kept":            {[]State{one(10, 0, 0, 0), grows(one(5, 5, 90, 0), 100)}, false, []int{1, 14}},
		"the next lane comes first":     {[]State{one(10, 0, 0, 0), grows(one(5, 5, 5, 0), 100), grows(one(5, 5, 90, 0), 100)}, false, []int{1, 10, 9}},
		"an idle slow lane lends back":  {[]State{grows(one(10, 10, 0, 5), 100), one(5, 1, 0, 0)}, true, []int{14, 1}},
		"what is held is not lent":      {[]State{one(10, 9, 0, 0), grows(one(5, 5, 90, 0), 100)}, false, []int{9, 6}},
		"no lane grows beyond its work": {[]State{one(10, 0, 0, 0), grows(one(5, 2, 0, 0), 100)}, false, []int{10, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Sizes(tc.lanes, tc.more); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestFill(t *testing.T) {
	for name, tc := range map[string]struct {
		lanes []State
		want  []Send
	}{
		"nothing":                         {[]State{one(2, 0, 0, 0), one(2, 0, 0, 0)}, nil},
		"each its own":                    {[]State{one(2, 0, 0, 2), one(2, 1, 1, 1)}, []Send{{1, 1, 1}, {0, 0, 2}}},
		"a slow lane takes what waits":    {[]State{one(2, 0, 0, 9), one(2, 1, 0, 0)}, []Send{{0, 1, 1}, {0, 0, 2}}},
		"but not what finds its own slot": {[]State{one(9, 0, 0, 9), one(2, 0, 0, 0)}, []Send{{0, 0, 9}}},
		"what timed out comes first":      {[]State{one(2, 2, 0, 9), one(2, 0, 3, 0)}, []Send{{1, 1, 2}}},
		"held beyond the size":            {[]State{one(2, 5, 0, 9), one(2, 2, 0, 0)}, nil},
		"of three the nearest one's":      {[]State{one(1, 1, 0, 3), one(1, 1, 1, 1), one(3, 0, 0, 0)}, []Send{{1, 2, 2}, {0, 2, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			sizes := Sizes(tc.lanes, true)
			if got := Fill(tc.lanes, sizes); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func drawLanes(t *rapid.T) []State {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) State {
		slots := rapid.IntRange(1, 50).Draw(t, "slots")
		count := func(name string) int { return rapid.IntRange(0, 80).Draw(t, name) }
		return State{
			Slots: slots, Min: rapid.IntRange(1, slots).Draw(t, "min"), Max: slots + count("grows"),
			Held: count("held"), TimedOut: count("timed out"), FirstTries: count("waiting"),
			Target: time.Duration(rapid.IntRange(0, 3).Draw(t, "target")) * time.Minute, Waited: time.Duration(count("waited")) * 10 * time.Second,
		}
	}), 2, 5).Draw(t, "lanes")
}

// Sizes stay within their bounds and sum to at most the slots. No more is sent than a size or a backlog allows. No
// slot stays free that its own backlog, or an earlier one, could use. A lane whose backlog has timed-out messages
// serves no other backlog.
func TestSizesAndFillHoldTheirBounds(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		lanes := drawLanes(t)
		sizes := Sizes(lanes, rapid.Bool().Draw(t, "more"))
		slots, sum := 0, 0
		for i, l := range lanes {
			slots += l.Slots
			sum += sizes[i]
			if sizes[i] < l.Min || sizes[i] > l.Max {
				t.Fatalf("lane %d: size %d is not within %d and %d", i, sizes[i], l.Min, l.Max)
			}
		}
		if sum != slots {
			t.Fatalf("sizes %v add up to %d, the slots to %d", sizes, sum, slots)
		}
		sent := make([]int, len(lanes)) // by receiving lane
		taken := make([]int, len(lanes))
		for _, s := range Fill(lanes, sizes) {
			if s.Count < 1 || s.To < s.From {
				t.Fatalf("sends %+v", s)
			}
			if s.To != s.From && taken[s.To] < lanes[s.To].backlog() {
				t.Fatalf("%+v passes by what waits there", s)
			}
			sent[s.To] += s.Count
			taken[s.From] += s.Count
		}
		for i, l := range lanes {
			if free := max(0, sizes[i]-l.Held); sent[i] > free {
				t.Fatalf("lane %d got %d and had %d free", i, sent[i], free)
			}
			if taken[i] > l.backlog() {
				t.Fatalf("%d taken of %d waiting in lane %d", taken[i], l.backlog(), i)
			}
			for before := 0; before <= i; before++ {
				if sizes[i]-l.Held > sent[i] && taken[before] < lanes[before].backlog() {
					t.Fatalf("lane %d has slots left and lane %d work waiting: %+v, sizes %v", i, before, lanes, sizes)
				}
			}
		}
	})
}

// Slots that become free in punctual lanes go to late lanes, in proportion to their lateness and to the remainder of
// the others' targets.
func TestSlotsFollowWaits(t *testing.T) {
	t.Parallel()
	const minutes = time.Minute
	waits := func(slots, held, waiting int, waited, target time.Duration) State {
		return State{Slots: slots, Min: 1, Max: 100, Held: held, FirstTries: waiting, Waited: waited, Target: target}
	}
	for name, tc := range map[string]struct {
		lanes []State
		more  bool
		want  []int
	}{
		"all in time":           {[]State{waits(10, 10, 50, minutes, minutes), waits(20, 10, 50, minutes, minutes)}, true, []int{10, 20}},
		"twice the target":      {[]State{waits(10, 10, 50, 2*minutes, minutes), waits(20, 5, 50, 0, minutes)}, true, []int{20, 10}},
		"the other one's part":  {[]State{waits(10, 10, 50, 9*minutes, minutes), waits(20, 5, 50, 6*minutes, 10*minutes)}, true, []int{18, 12}},
		"none is free yet":      {[]State{waits(10, 10, 50, 9*minutes, minutes), waits(20, 20, 50, 0, minutes)}, true, []int{10, 20}},
		"no more than is used":  {[]State{waits(10, 10, 2, 9*minutes, minutes), waits(20, 5, 50, 0, minutes)}, true, []int{12, 18}},
		"both are late":         {[]State{waits(10, 10, 50, 9*minutes, minutes), waits(20, 5, 50, 2*minutes, minutes)}, true, []int{10, 20}},
		"the other has none":    {[]State{waits(10, 10, 50, 9*minutes, minutes), waits(20, 5, 50, 0, 0)}, true, []int{10, 20}},
		"unclaimed work's part": {[]State{waits(10, 2, 0, 0, minutes), waits(20, 20, 90, 2*minutes, minutes)}, true, []int{5, 25}},
		"no unclaimed work":     {[]State{waits(10, 2, 8, 0, minutes), waits(20, 20, 90, 2*minutes, minutes)}, false, []int{2, 28}},
	} {
		if got := Sizes(tc.lanes, tc.more); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

// A target takes no slot that is in use, so that lanes hold no more in all than without targets. It takes none that a
// late lane needs.
func TestTargetsHoldTheirBounds(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		lanes, more := drawLanes(t), rapid.Bool().Draw(t, "more")
		without := slices.Clone(lanes)
		for i := range without {
			without[i].Target = 0
		}
		sizes, before := Sizes(lanes, more), Sizes(without, more)
		held, heldBefore := 0, 0
		for i, l := range lanes {
			held += max(sizes[i], l.Held)
			heldBefore += max(before[i], l.Held)
			if l.late() > 1 && sizes[i] < before[i] {
				t.Fatalf("lane %d is late, and has %d slots of %d", i, sizes[i], before[i])
			}
			if l.Target == 0 && sizes[i] != before[i] {
				t.Fatalf("lane %d has no target, and has %d slots of %d", i, sizes[i], before[i])
			}
		}
		if held > heldBefore {
			t.Fatalf("lanes %+v may hold %d messages, %d without targets", lanes, held, heldBefore)
		}
	})
}

func TestChoose(t *testing.T) {
	limits := []time.Duration{time.Minute, 15 * time.Minute, 2 * time.Hour}
	for _, tc := range []struct {
		expected float64
		tried    bool
		want     int
	}{
		{0, false, 0}, {60, false, 0}, {61, false, 1}, {900, false, 1}, {1e4, false, 2},
		{0, true, 1}, {5, true, 1}, {1000, true, 2},
	} {
		if got := Choose(limits, tc.expected, tc.tried); got != tc.want {
			t.Errorf("%gs, tried %v: lane %d, want %d", tc.expected, tc.tried, got, tc.want)
		}
	}
}

func TestExpect(t *testing.T) {
	for _, tc := range []struct {
		memory Memory
		behind float64
		want   float64
	}{
		{Memory{Seconds: 10}, 0, 10},
		{Memory{Seconds: 10, Before: 40}, 0, 20},
		{Memory{Seconds: 10, Behind: 100}, 300, 30},
		{Memory{Seconds: 10, Behind: 100}, 50, 5},
		{Memory{Seconds: 10, Behind: 100}, 1e9, 80},
		{Memory{Seconds: 10, Behind: 100}, 1, 1.25},
		{Memory{Seconds: 60, AtLeast: true, Before: 1}, 0, 120},
	} {
		if got := tc.memory.Expect(tc.behind); got != tc.want {
			t.Errorf("%+v, behind %g: %g, want %g", tc.memory, tc.behind, got, tc.want)
		}
	}
}

// A quantile of a sketch is at least the true one, and at most a quarter above it.
func TestSketchQuantile(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		seconds := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 50).Draw(t, "seconds")
		part := rapid.Float64Range(0, 1).Draw(t, "part")
		s := Sketch{}
		for _, x := range seconds {
			s[Bucket(x)]++
		}
		slices.Sort(seconds)
		exact := seconds[max(0, int(math.Ceil(part*float64(len(seconds))))-1)]
		got := s.Quantile(part)
		if got < exact*(1-1e-9) || got > max(bucketFirst, exact)*bucketGrowth*(1+1e-9) {
			t.Fatalf("quantile %g of %v: %g, exactly %g", part, seconds, got, exact)
		}
	})
}

// Unknown work takes its lister's median, or its type's if the lister's sketch has too little weight.
func TestTypical(t *testing.T) {
	few, many := Sketch{0: 2}, Sketch{10: 5}
	for name, tc := range map[string]struct {
		sketches []Sketch
		want     float64
	}{
		"nothing seen":     {nil, 0},
		"too little seen":  {[]Sketch{few}, 0},
		"of the type":      {[]Sketch{few, many}, BucketEnd(10)},
		"of the lister":    {[]Sketch{{3: 3}, many}, BucketEnd(3)},
		"the middle one's": {[]Sketch{{3: 2, 20: 1}}, BucketEnd(3)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Typical(tc.sketches...); got != tc.want {
				t.Errorf("got %g, want %g", got, tc.want)
			}
		})
	}
}
