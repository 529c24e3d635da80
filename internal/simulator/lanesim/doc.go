// Package lanesim compares how long work waits with lanes and without, in simulated
// time, so that an operator can choose the lanes' limits from the runtimes seen.
//
// # What is real, what is not
//
// The rules are those of package lanes, which production runs: to which lane a piece
// of work goes, what is remembered of it, how slots are lent, which line is served
// first, and what becomes of a time-out. The work, the workers and the time are
// simulated; there is no database and no broker.
//
// # The model
//
// Work arrives at random (a Poisson process), at the rate by which the workers are
// busy for a given part of their time. How long each piece takes comes from a file of
// runtimes, or from the peer's model of origins: one has commits at even intervals,
// of a second to ten years, evenly spread over the logarithm, and a visit takes half
// a second and a tenth for each commit since the one before, two hours at most.
//
// All workers serve the queues of all lanes, the first lanes' first, and take one
// piece of work at a time. The lanes' slots are scaled so that they add up to the
// workers: so a slot is a worker, and what waits, waits in the lines.
//
// The wait of a piece of work is its time from the arrival to the end, less the time
// that it takes: what a try took that was thrown out counts as waiting.
package lanesim
