// Package freshsim compares visit policies by the staleness of the archive, in simulated time and without a database.
// Three policies are of the Python scheduler, with its default weights for git (python), and with those of the archive's
// production, in general (40/40/20) and for git (15/80/5). The last one considers a sample: a thousandth of the origins,
// or twenty times the claim if that is more. Others are pools, freshness, freshness with a fixed trust of 97 % in news
// (fixed), and an oracle: freshness with each origin's true rate of change and the true quality of news.
//
// Origins change by a model or as recorded in a file, and in the same way under each policy. For half of them, a
// lister, or one of four, reports once a day when they changed last. It misses some of the changes. Some of its reports come without a
// change: each stands for a true report of the two months before, so that origins that change often get more of them.
// Reports may be late, and dated by the day. Hints may report changes within half an hour. A tenth of the origins
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
