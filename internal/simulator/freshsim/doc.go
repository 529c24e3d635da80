// Package freshsim compares policies of visits by how stale they let the archive be, in simulated
// time, without a database: the Python scheduler's default policies, pools, freshness, and an oracle, which is
// freshness that is told each origin's rate of change.
//
// Origins change by a model, or as recorded in a file, the same way under each policy. Of half of
// them a lister tells once a day when they changed last, and leaves out a fiftieth of the changes.
// A tenth appears during the run. A queue is filled as workers empty it. A visit costs each origin
// its own time, and a tenth of that for each change, up to a hundred. An origin's visits are half a
// day apart at least. The costs are scaled to the load: the work of visiting each origin once after
// each change, as soon as it has cooled down, as a part of what the workers can do.
//
// Visits may fail at random: they cost what one without news does, and find out nothing. Hosters may
// take so many visits in flight each, which policies then pass by.
//
// The staleness of an origin is for how long the archive has lacked the oldest change that it lacks.
package freshsim
