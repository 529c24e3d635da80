package dispatch

import "math"

// A Refill returns how many slots of a queue must be free before a daemon claims for it, so that claims are not too
// small. limit is the queue's, nil if it has none; of a large queue only MaxClaim slots count.
type Refill func(limit *int64) int

// Refills of the daemons. The Python scheduler has the same for runners and visits, and no limit for tasks with priority.
var (
	RefillByRunner   Refill = func(limit *int64) int { return int(claimed(limit)/5) + 1 } // more than a fifth
	RefillByPriority Refill = func(*int64) int { return 1 }
	// A twentieth, rounded up as the Python scheduler's comparison does.
	RefillByVisits Refill = func(limit *int64) int { return max(1, int(math.Ceil(float64(claimed(limit))*0.05))) }
)

// claimed returns the most slots that a claim takes of a queue with a limit; 0 without a limit.
func claimed(limit *int64) int64 {
	if limit == nil {
		return 0
	}
	return max(0, min(*limit, MaxClaim))
}
