package check

import (
	"slices"
	"testing"
)

// jugs are two of 3 and 5 litres, and two cups of which one is filled.
type jugs struct{ three, five int }

func pour(s jugs, to *Steps[jugs]) {
	to.To(jugs{3, s.five}, "fill %d", 3)
	to.To(jugs{s.three, 5}, "fill %d", 5)
	to.To(jugs{0, s.five}, "empty %d", 3)
	to.To(jugs{s.three, 0}, "empty %d", 5)
	n := min(s.three, 5-s.five)
	to.To(jugs{s.three - n, s.five + n}, "pour %d into %d", 3, 5)
	n = min(s.five, 3-s.three)
	to.To(jugs{s.three + n, s.five - n}, "pour %d into %d", 5, 3)
}

func TestShortestTrace(t *testing.T) {
	r := Model[jugs]{Next: pour, Always: []Property[jugs]{{"never four litres", func(s jugs) bool { return s.five != 4 }}}}.Explore()
	want := []string{"fill 5", "pour 5 into 3", "empty 3", "pour 5 into 3", "fill 5", "pour 5 into 3"}
	if r.Broken == "" || !slices.Equal(r.Trace, want) {
		t.Errorf("got %s\nwant the trace %q", r, want)
	}
}

func TestAllStates(t *testing.T) {
	r := Model[jugs]{Next: pour, Eventually: []Property[jugs]{{"four litres", func(s jugs) bool { return s.five == 4 }}}}.Explore()
	if r.Broken != "" || r.States != 16 || r.Full {
		t.Errorf("got %s\nwant 16 states", r)
	}
}

func TestBound(t *testing.T) {
	if r := (Model[jugs]{Next: pour, Most: 7}).Explore(); !r.Full || r.States != 7 {
		t.Errorf("got %s\nwant 7 states", r)
	}
}

// The names in a trace are those of the initial state, although states are symmetric.
func TestSymmetry(t *testing.T) {
	type pair [2]int
	r := Model[pair]{
		Next: func(s pair, to *Steps[pair]) {
			for i := range s {
				if next := s; s[i] < 2 {
					next[i]++
					to.To(next, "%d goes up", i)
				}
			}
		},
		Same:   func(s pair) pair { slices.Sort(s[:]); return s },
		Always: []Property[pair]{{"one stays", func(s pair) bool { return s[0]+s[1] < 3 }}},
	}.Explore()
	if want := []string{"0 goes up", "1 goes up", "0 goes up"}; !slices.Equal(r.Trace, want) || r.States > 5 {
		t.Errorf("got %s\nwant the trace %q", r, want)
	}
}

// Eventual properties ignore faults as ways to a state.
func TestFaultsDoNotHelp(t *testing.T) {
	r := Model[int]{
		Next: func(s int, to *Steps[int]) {
			switch s {
			case 0:
				to.To(1, "wait")
				to.To(2, "stray")
			case 2:
				to.Fault(1, "luck")
			}
		},
		Eventually: []Property[int]{{"arrives", func(s int) bool { return s == 1 }}},
	}.Explore()
	if r.Broken != "arrives" || !slices.Equal(r.Trace, []string{"stray"}) {
		t.Errorf("got %s\nwant the trace [stray]", r)
	}
}
