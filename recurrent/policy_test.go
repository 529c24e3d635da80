package recurrent

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv/seed"
)

func genWeights(t *rapid.T) []float64 {
	return rapid.SliceOfN(rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0.001, 1000)), 1, 6).Draw(t, "weights")
}

func sum[T int | float64](xs []T) (s T) {
	for _, x := range xs {
		s += x
	}
	return s
}

// divide gives out all slots, in whole slots. Each part is less than one slot off its exact part; a policy
// of weight 0 gets none.
func TestDivideGivesEverySlotByWeight(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		weights := genWeights(t)
		n := rapid.IntRange(0, 20000).Draw(t, "n")
		parts := divide(n, weights)
		total := sum(weights)
		if total == 0 {
			if sum(parts) != 0 {
				t.Fatalf("slots %v without any weight", parts)
			}
			return
		}
		if sum(parts) != n {
			t.Fatalf("%v sums to %d, want %d", parts, sum(parts), n)
		}
		for i, part := range parts {
			exact := float64(n) * weights[i] / total
			if math.Abs(float64(part)-exact) >= 1+1e-6 {
				t.Fatalf("part %d is %d, its exact share %v", i, part, exact)
			}
			if weights[i] == 0 && part != 0 {
				t.Fatalf("weight 0 got %d", part)
			}
		}
	})
}

// fill leaves no slot empty while a policy with a weight has an origin left. It fills no slot twice, and no
// policy gives more than it has.
func TestFillLeavesNoSlotEmptyWhileThereAreCandidates(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		weights := genWeights(t)
		slots := rapid.IntRange(0, 500).Draw(t, "slots")
		stock := make([]int, len(weights))
		usable := 0
		for i := range stock {
			stock[i] = rapid.IntRange(0, 300).Draw(t, "stock")
			if weights[i] > 0 {
				usable += stock[i]
			}
		}
		left := slices.Clone(stock)
		got, err := fill(slots, weights, func(i, n int) (int, error) {
			n = min(n, left[i])
			left[i] -= n
			return n, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := min(slots, usable); sum(got) != want {
			t.Fatalf("filled %d slots of %d with %d candidates: %v", sum(got), slots, usable, got)
		}
		for i := range got {
			if got[i]+left[i] != stock[i] {
				t.Fatalf("policy %d gave %d of %d and has %d left", i, got[i], stock[i], left[i])
			}
		}
	})
}

// The part of a policy without origins goes to the others by their weights.
func TestFillDividesWhatIsLeftByWeight(t *testing.T) {
	stock := []int{1000, 1000, 0}
	got, err := fill(100, []float64{30, 50, 20}, func(i, n int) (int, error) { return min(n, stock[i]), nil })
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{38, 62, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v (37.5 and 62.5 in whole slots)", got, want)
	}
}

func TestFillStopsAtAnError(t *testing.T) {
	boom := errors.New("database is down")
	if _, err := fill(10, []float64{1}, func(int, int) (int, error) { return 0, boom }); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
}

func TestSkewComparesPartsOfTheWhole(t *testing.T) {
	s := skew([]int{10, 30}, []float64{50, 50})
	if s[0].fetched != 0.25 || s[0].requested != 0.5 || s[0].off() != 0.5 {
		t.Errorf("got %+v", s[0])
	}
	if skew([]int{0, 0}, []float64{1, 1}) != nil {
		t.Error("a round that fetched nothing has no skew")
	}
}

// The policy for the rest, which exists while origins lack moments, has no part of its own. Skew compares
// only the other policies.
func TestPolicyForTheRestHasNoPart(t *testing.T) {
	fresh := func(weight float64) model.WeightedPolicy {
		return model.WeightedPolicy{Weight: weight, Filter: model.VisitFilter{Policy: model.Freshness}}
	}
	byLag := model.WeightedPolicy{Weight: 50, Filter: model.VisitFilter{Policy: model.AlreadyVisitedOrderByLag}}
	alone := Picked{Policies: model.WithRest([]model.WeightedPolicy{fresh(1)}), Counts: []int{10, 990}}.asked()
	if s := skew(alone.Counts, weights(alone.Policies)); len(s) != 1 || s[0].off() != 0 {
		t.Errorf("alone: %+v", s)
	}
	beside := Picked{Policies: model.WithRest([]model.WeightedPolicy{fresh(50), byLag}), Counts: []int{10, 30, 960}}.asked()
	if s := skew(beside.Counts, weights(beside.Policies)); len(s) != 2 || s[0].fetched != 0.25 || s[1].fetched != 0.75 {
		t.Errorf("beside another one: %+v", s)
	}
}
