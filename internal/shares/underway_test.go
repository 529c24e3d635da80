package shares

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv/seed"
)

// Started work counts with its cost, then with the time since its start, and less and less once that is long. The
// function has no jumps, and never exceeds the larger of cost and half a half-life.
func TestUnderway(t *testing.T) {
	t.Parallel()
	for i, c := range []struct{ cost, since, want float64 }{
		{1, 0, 1}, {1, 1, 1}, {1, 3, 3}, {1, 5, 5}, {1, 15, 2.5}, {1, 25, 1.25}, {1, 1.7e9, 0},
		{20, 0, 20}, {20, 20, 20}, {20, 30, 10}, {20, -5, 20},
	} {
		if got := RunningCost(c.cost, c.since, 10); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("case %d: %v, want %v", i, got, c.want)
		}
	}
	seed.Check(t, func(t *rapid.T) {
		cost, halfLife := rapid.Float64Range(0.01, 1e5).Draw(t, "cost"), rapid.Float64Range(1, 1e6).Draw(t, "half-life")
		since := rapid.Float64Range(0, 1e7).Draw(t, "since")
		got, next := RunningCost(cost, since, halfLife), RunningCost(cost, since+1e-6, halfLife)
		if got < 0 || got > max(cost, halfLife/2) || math.Abs(next-got) > 1e-5 {
			t.Fatalf("%v, a microsecond later %v", got, next)
		}
	})
}

// deadWorker simulates a queue second by second. The worker of the first group dies with all that it runs; workers
// with left slots remain. It returns the first group's part of the slots from two half-lives on.
func deadWorker(weights []float64, dead, left int, cost, halfLife float64) float64 {
	used := make([]float64, len(weights))
	given := make([]float64, len(weights))
	start := make([]float64, 0, dead) // starts of the dead worker's messages
	for range dead {
		start = append(start, 0)
	}
	lived := float64(dead + left)
	for i, w := range weights { // the steady state before the death
		sum := 0.0
		for _, w := range weights {
			sum += w
		}
		used[i] = lived * w / sum * halfLife / math.Ln2
	}
	var slots []float64 // the ends of the running messages
	for range left {
		slots = append(slots, 0)
	}
	owners := make([]int, left)
	for i := range owners {
		owners[i] = -1
	}
	for now := 0.0; now < 6*halfLife; now++ {
		for i := range used {
			used[i] *= math.Exp2(-1 / halfLife)
		}
		free := 0
		underway := make([]float64, len(weights))
		for i := range slots {
			if owners[i] >= 0 && slots[i] <= now {
				used[owners[i]] += cost
				owners[i] = -1
			}
			if owners[i] < 0 {
				free++
			} else {
				underway[owners[i]] += RunningCost(cost, now-(slots[i]-cost), halfLife)
			}
		}
		for _, s := range start {
			underway[0] += RunningCost(cost, now-s, halfLife)
		}
		var groups []Group
		for i, w := range weights {
			groups = append(groups, Group{Name: fmt.Sprint(i), Weight: w, Load: used[i] + underway[i], Cost: cost})
		}
		parts := Divide(free, groups)
		for i := range slots {
			if owners[i] >= 0 {
				continue
			}
			for g := range parts {
				if parts[g] > 0 {
					parts[g]--
					owners[i], slots[i] = g, now+cost
					if now >= 2*halfLife {
						given[g]++
					}
					break
				}
			}
		}
	}
	total := 0.0
	for _, n := range given {
		total += n
	}
	return given[0] / total
}

// After two half-lives, a group whose worker died with all of its slots, or half of them, has its share of the
// remaining slots.
func TestGroupOfADeadWorker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		weights    []float64
		dead, left int
		cost, half float64
	}{
		{[]float64{1, 1}, 3, 3, 1, 10},
		{[]float64{1, 1}, 3, 3, 1, 3600},
		{[]float64{30, 50, 20}, 3, 7, 2, 60},
		{[]float64{1, 9}, 2, 18, 5, 600},
		{[]float64{1, 1}, 10, 4, 3, 300},
		{[]float64{5, 1, 1}, 20, 10, 10, 600},
	} {
		part, want := deadWorker(c.weights, c.dead, c.left, c.cost, c.half), c.weights[0]
		sum := 0.0
		for _, w := range c.weights {
			sum += w
		}
		if want /= sum; math.Abs(part-want) > 0.1*want {
			t.Errorf("%+v: %.1f %% of the slots, want %.1f", c, 100*part, 100*want)
		}
	}
}
