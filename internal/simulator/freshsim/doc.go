// Package freshsim compares visit policies by the staleness of the archive, in simulated time and without a database.
// The policies are the Python scheduler's default policies, pools, freshness, and an oracle: freshness with each
// origin's true rate of change.
//
// Origins change by a model or as recorded in a file, and in the same way under each policy. For half of them, a
// lister reports once a day when they changed last; it misses a fiftieth of the changes. A tenth of the origins
// appears during the run. The queue is refilled as workers empty it. Each origin has its own cost of a visit, which
// grows by a tenth for each change, up to a hundred changes. Visits of an origin are at least half a day apart. The
// load is the fraction of the workers' time that visiting each origin once after each change, as soon as it has
// cooled down, would take. The costs are scaled to the configured load.
//
// Visits may fail at random. A failed visit costs as much as one without changes, and finds nothing. Hosters may have
// a limit of visits in flight; policies skip the origins of hosters at their limit.
//
// The staleness of an origin is the time since the oldest change that the archive lacks.
package freshsim
