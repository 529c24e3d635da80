package bench

import (
	"slices"
	"testing"
)

// The sides take turns, in every other round in reverse order, so that neither always runs after the other.
func TestSidesTakeTurns(t *testing.T) {
	t.Setenv(roundsVar, "3")
	var turns []string
	side := func(name string) Side {
		return Side{name, func() Figures {
			turns = append(turns, name)
			return Figures{"ms": float64(len(turns))}
		}}
	}
	testing.Benchmark(func(b *testing.B) { Compare(b, side("a"), side("b")) })
	if want := []string{"a", "b", "b", "a", "a", "b"}; !slices.Equal(turns[:len(want)], want) {
		t.Errorf("%v, want %v", turns, want)
	}
	if got := median([]float64{9, 1, 4, 2}); got != 3 {
		t.Errorf("median %v, want 3", got)
	}
}
