package shares

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv/seed"
)

// Free slots are divided by weight, and an idle group's slots among the others: 30/50/20, and 37.5/62.5 without the
// third, as the design shows.
func TestDivide(t *testing.T) {
	group := func(name string, weight, load float64) Group {
		return Group{Name: name, Weight: weight, Load: load, Cost: 1}
	}
	capped := func(name string, weight float64, most int) Group {
		return Group{Name: name, Weight: weight, Cost: 1, MaxSlots: most}
	}
	for name, tc := range map[string]struct {
		n      int
		groups []Group
		want   []int
	}{
		"nobody":            {10, nil, []int{}},
		"nothing":           {0, []Group{group("a", 1, 0)}, []int{0}},
		"one":               {10, []Group{group("a", 0.01, 0)}, []int{10}},
		"equal":             {9, []Group{group("a", 1, 0), group("b", 1, 0), group("c", 1, 0)}, []int{3, 3, 3}},
		"30/50/20":          {100, []Group{group("a", 30, 0), group("b", 50, 0), group("c", 20, 0)}, []int{30, 50, 20}},
		"37.5/62.5":         {1000, []Group{group("a", 30, 0), group("b", 50, 0)}, []int{375, 625}},
		"ties by weight":    {1, []Group{group("a", 1, 0), group("b", 2, 0)}, []int{0, 1}},
		"then by name":      {1, []Group{group("b", 1, 0), group("a", 1, 0)}, []int{0, 1}},
		"makes up for load": {10, []Group{group("a", 1, 10), group("b", 1, 4)}, []int{2, 8}},
		"in debt":           {10, []Group{group("a", 1, 100), group("b", 1, 0)}, []int{0, 10}},
		"a ceiling":         {100, []Group{capped("a", 50, 10), group("b", 30, 0), group("c", 20, 0)}, []int{10, 54, 36}},
		"one not reached":   {10, []Group{capped("a", 1, 6), group("b", 1, 0)}, []int{5, 5}},
		"all at theirs":     {100, []Group{capped("a", 1, 3), capped("b", 9, 4)}, []int{3, 4}},
		"slow work":         {11, []Group{{Name: "a", Weight: 1, Cost: 10}, group("b", 1, 0)}, []int{1, 10}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Divide(tc.n, tc.groups); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// A group that becomes busy starts at the level of the others. It gains nothing from its idle time, and keeps a
// higher load.
func TestJoin(t *testing.T) {
	busy := []Group{{Weight: 1, Load: 100}, {Weight: 2, Load: 120}}
	for name, tc := range map[string]struct {
		group     Group
		busy      []Group
		forfeited float64
	}{
		"alone":     {Group{Weight: 1, Load: 5}, nil, 0},
		"was away":  {Group{Weight: 3, Load: 0}, busy, 180},
		"used some": {Group{Weight: 3, Load: 100}, busy, 80},
		"owes":      {Group{Weight: 1, Load: 1000}, busy, 0},
	} {
		t.Run(name, func(t *testing.T) {
			load := tc.group.Load
			if got := Join(&tc.group, tc.busy); got != tc.forfeited || tc.group.Load != load+tc.forfeited {
				t.Errorf("forfeited %g, load %g; want %g, %g", got, tc.group.Load, tc.forfeited, load+tc.forfeited)
			}
		})
	}
}

// sim serves groups slot by slot. A message runs for its group's true cost, which the division learns at its end.
type sim struct {
	groups  []Group
	true    []float64 // cost of a message
	served  []float64 // seconds of work
	pieces  []int
	waiting []bool
	busy    []bool
}

func (s *sim) pass(free int) {
	var open []int
	var busy []Group
	for i := range s.groups {
		if s.waiting[i] {
			open = append(open, i)
			if s.busy[i] {
				busy = append(busy, s.groups[i])
			}
		}
	}
	groups := make([]Group, len(open))
	for k, i := range open {
		if !s.busy[i] {
			Join(&s.groups[i], busy)
		}
		s.groups[i].Cost = 1
		if s.pieces[i] > 0 {
			s.groups[i].Cost = s.served[i] / float64(s.pieces[i])
		}
		groups[k] = s.groups[i]
	}
	for k, n := range Divide(free, groups) {
		i := open[k]
		s.served[i] += float64(n) * s.true[i]
		s.groups[i].Load += float64(n) * s.true[i]
		s.pieces[i] += n
	}
	copy(s.busy, s.waiting)
}

func newSim(weights, costs []float64) *sim {
	n := len(weights)
	s := &sim{true: costs, served: make([]float64, n), pieces: make([]int, n), waiting: make([]bool, n), busy: make([]bool, n)}
	for i, w := range weights {
		s.groups = append(s.groups, Group{Name: string(rune('a' + i)), Weight: w})
		s.waiting[i] = true
	}
	return s
}

// The configurations of CouchDB's tests: two and three groups, shares such as 100/200/300, 1,000 cycles. Each group
// gets its share of the time to within a percentage point, for any runtimes and any number of slots in a cycle.
func TestSharesOfCouchDBsSetUps(t *testing.T) {
	for name, tc := range map[string]struct {
		weights, costs []float64
		free           int
	}{
		"two equal":             {[]float64{100, 100}, []float64{1, 1}, 5},
		"100/200":               {[]float64{100, 200}, []float64{1, 1}, 5},
		"100/200/300":           {[]float64{100, 200, 300}, []float64{1, 1, 1}, 5},
		"100/1000":              {[]float64{100, 1000}, []float64{1, 1}, 1},
		"1/1000":                {[]float64{1, 1000}, []float64{1, 1}, 10},
		"equal, one slow":       {[]float64{100, 100}, []float64{1, 20}, 5},
		"100/200/300, one slow": {[]float64{100, 200, 300}, []float64{7, 1, 3}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(tc.weights, tc.costs)
			for range 1000 {
				s.pass(tc.free)
			}
			var served, weights float64
			for i := range tc.weights {
				served += s.served[i]
				weights += tc.weights[i]
			}
			for i, w := range tc.weights {
				got, want := s.served[i]/served, w/weights
				if math.Abs(got-want) > 0.01 {
					t.Errorf("group %d of %v: %.1f %% of the time, want %.1f", i, tc.weights, 100*got, 100*want)
				}
			}
		})
	}
}

// A group with a tenth of a slot a pass gets one slot in ten passes.
func TestFractionsAreNeverLost(t *testing.T) {
	s := newSim([]float64{1, 9}, []float64{1, 1})
	for range 1000 {
		s.pass(1)
	}
	if s.pieces[0] != 100 || s.pieces[1] != 900 {
		t.Errorf("got %v of 1,000, want 100 and 900", s.pieces)
	}
}

// For any weights, costs, loads and ceilings, all slots are given that ceilings allow, and none beyond a ceiling.
// Each slot goes to the group with the lowest level: before its last slot, no group's level exceeded that of a group
// below its ceiling.
func TestDivideProperty(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 200).Draw(t, "slots")
		groups := make([]Group, rapid.IntRange(1, 8).Draw(t, "groups"))
		for i := range groups {
			groups[i] = Group{
				Name:     string(rune('a' + i)),
				Weight:   rapid.Float64Range(0.01, 100).Draw(t, "weight"),
				Load:     rapid.Float64Range(0, 1000).Draw(t, "load"),
				Cost:     rapid.Float64Range(0.01, 100).Draw(t, "cost"),
				MaxSlots: max(0, rapid.IntRange(-20, 50).Draw(t, "most")),
			}
		}
		given, takes, behind := 0, 0, math.Inf(1)
		parts := Divide(n, groups)
		for i, part := range parts {
			given += part
			most := groups[i].MaxSlots
			if most == 0 {
				most = n
			}
			takes += most
			if part > most {
				t.Fatalf("group %d of %v got %d slots", i, groups, part)
			}
			if part == groups[i].MaxSlots && part > 0 {
				continue
			}
			behind = min(behind, (groups[i].Load+float64(part)*groups[i].Cost)/groups[i].Weight)
		}
		if want := min(n, takes); given != want {
			t.Fatalf("%d of %d slots given", given, want)
		}
		for i, part := range parts {
			before := (groups[i].Load + float64(part-1)*groups[i].Cost) / groups[i].Weight
			if part > 0 && before > behind*(1+1e-9) {
				t.Fatalf("group %d of %v got its last slot at %g, while one was at %g", i, groups, before, behind)
			}
		}
	})
}

// Groups come and go. No slot stays free while a group has work, and groups without work get none. No group starves:
// once all have work, each gets its share of the time, whatever came before.
func TestGroupsComeAndGo(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(t, "groups")
		weights := rapid.SliceOfN(rapid.Float64Range(1, 10), n, n).Draw(t, "weights")
		costs := rapid.SliceOfN(rapid.Float64Range(1, 10), n, n).Draw(t, "costs")
		s := newSim(weights, costs)
		for pass := range rapid.IntRange(1, 60).Draw(t, "passes") {
			for i := range s.waiting {
				if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
					s.waiting[i] = !s.waiting[i]
				}
			}
			free := rapid.IntRange(0, 20).Draw(t, "free")
			before, given := slices.Clone(s.pieces), 0
			s.pass(free)
			for i := range s.pieces {
				got := s.pieces[i] - before[i]
				if given += got; got > 0 && !s.waiting[i] {
					t.Fatalf("pass %d: group %d has no work and got %d slots", pass, i, got)
				}
			}
			if slices.Contains(s.waiting, true) && given != free {
				t.Fatalf("pass %d: %d of %d slots given", pass, given, free)
			}
		}
		for i := range s.waiting {
			s.waiting[i] = true
		}
		// A group first pays back what it used beyond its share, at most 60·20 messages.
		for range 2_000 {
			s.pass(100)
		}
		before := slices.Clone(s.served)
		for range 1_000 {
			s.pass(10)
		}
		var total, sum float64
		for i := range weights {
			total += s.served[i] - before[i]
			sum += weights[i]
		}
		for i, w := range weights {
			if got, want := (s.served[i]-before[i])/total, w/sum; math.Abs(got-want) > 0.01 {
				t.Fatalf("group %d: %.1f %% of the time, want %.1f", i, 100*got, 100*want)
			}
		}
	})
}
