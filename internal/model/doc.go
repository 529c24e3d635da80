// Package model has the types of the whole program: task types, tasks, runs, listers,
// listed origins, visits, and the errors that callers test for.
//
// Names, statuses and defaults are those of the Python scheduler (swh.scheduler),
// because both work on the same database. It imports none of the other packages and does
// no input or output.
package model
