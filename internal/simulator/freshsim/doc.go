// Package freshsim compares visit policies by how stale they let the archive become, in simulated
// time and without a database: the Python scheduler's default policies, pools, freshness, and an oracle, which is
// freshness that knows each origin's rate of change.
//
// Origins change by a model or as recorded in a file, and in the same way under each policy. For half of
// them, a lister tells once a day when they changed last; it misses a fiftieth of the changes.
// A tenth of the origins appears during the run. The queue is refilled as workers empty it. Each origin has its own
// cost of a visit, which grows by a tenth for each change, of up to a hundred changes. Visits of an origin are at least
// half a day apart. The costs are scaled so that visiting each origin once after
// each change, as soon as it has cooled down, takes the given part of the workers' time, the load.
//
// Visits may fail at random: then they cost as much as a visit without changes, and find nothing. Hosters may
// have a limit of visits in flight; policies skip the origins of hosters that have reached it.
//
// The staleness of an origin is the time since the oldest change that the archive lacks.
package freshsim
