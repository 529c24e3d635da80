package shares

import "math"

// Underway returns for how many seconds a message counts that a worker began some seconds ago and whose end is not
// known. That is its expected cost, or the time since it began if that is more. Beyond half a half-life, and its
// expected cost, it counts half as much after each further half-life: nobody can tell long work
// from that of a worker that died, which would keep its group from all slots. What ends after all is
// charged in full.
func Underway(cost, since, halfLife float64) float64 {
	most := max(cost, halfLife/2)
	if since <= most {
		return max(cost, since)
	}
	return most * math.Exp2((most-since)/halfLife)
}
