// Package lanesim compares the waits of work with lanes and without, in simulated time, so that an operator can
// choose the limits of lanes by observed runtimes.
//
// The rules are those of package lanes, as in production; work, workers and time are simulated. It uses neither a
// database nor a broker.
//
// Work arrives as a Poisson process, at the rate that keeps the workers busy for a given fraction of the time. Its
// runtimes come from a file or from the Python scheduler's model of origins. The model's origins have commits at even
// intervals from a second to ten years, evenly spread over the logarithm. A visit takes half a second, and a tenth of
// a second for each commit since the previous visit, at most two hours.
//
// All workers serve the queues of all lanes, in the order of the lanes, one job at a time. The slots of the lanes are
// scaled to sum to the workers, so that work waits only in the backlogs. The wait of a job is the time from its
// arrival to its end minus its runtime. Attempts that timed out count as waiting.
package lanesim
