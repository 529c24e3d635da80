// Package lanesim compares how long work waits with lanes and without, in simulated time, so
// that an operator can choose the limits of lanes by observed runtimes.
//
// The rules are those of package lanes, as in production; the work, the workers and the
// time are simulated. Neither a database nor a broker is used.
//
// Work arrives as a Poisson process, at the rate that keeps the workers busy for a given part
// of the time. Its runtimes come from a file or from the Python scheduler's model of
// origins: they have commits at even intervals from a second to ten years, evenly spread over the
// logarithm. A visit takes half a second, and a tenth of a second for each commit since the previous visit, at most
// two hours.
//
// All workers serve the queues of all lanes, in the order of the lanes, one piece of work at a
// time. The slots of the lanes are scaled so that they add up to the workers, so work waits only in the
// backlogs. The wait of a piece of work is the time from its arrival to its end minus its
// runtime. Attempts that timed out count as waiting.
package lanesim
