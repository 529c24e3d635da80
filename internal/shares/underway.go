package shares

import "math"

// RunningCost returns the cost, in seconds, of a message without an end that a worker started since seconds ago. It is
// the expected cost, or since if that is more. Beyond half a half-life and the expected cost, it halves after each
// further half-life. Long work can't be distinguished from that of a dead worker, which would keep its group from all
// slots. A message that ends later is charged in full.
func RunningCost(cost, since, halfLife float64) float64 {
	most := max(cost, halfLife/2)
	if since <= most {
		return max(cost, since)
	}
	return most * math.Exp2((most-since)/halfLife)
}
