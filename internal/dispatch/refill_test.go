package dispatch

import "testing"

// A runner refills a queue of which more than a fifth is free, or any slot for tasks with priority. Visits need a
// twentieth. Of a queue with a large limit, this is a part of the largest claim.
func TestRefill(t *testing.T) {
	for name, tc := range map[string]struct {
		limit                    *int64
		runner, priority, visits int
	}{
		"a limit":      {new(int64(1000)), 201, 1, 50},
		"a tiny queue": {new(int64(4)), 1, 1, 1},
		"rounded up":   {new(int64(21)), 5, 1, 2},
		"a large one":  {new(int64(250000)), 2001, 1, 500},
		"none":         {nil, 1, 1, 1},
		"0 is none":    {new(int64(0)), 1, 1, 1},
		"no messages":  {new(int64(-1)), 1, 1, 1},
	} {
		for kind, want := range map[*Refill]int{&RefillByRunner: tc.runner, &RefillByPriority: tc.priority, &RefillByVisits: tc.visits} {
			if got := (*kind)(tc.limit); got != want {
				t.Errorf("%s: %d slots, want %d", name, got, want)
			}
		}
	}
}
