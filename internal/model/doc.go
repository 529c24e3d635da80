// Package model has the types that the whole program shares: task types, tasks, runs, listers, listed origins,
// visits, and the errors that callers test for.
//
// Names, statuses and defaults are those of the Python scheduler (swh.scheduler), as both work on the same database.
// The package imports no other package of the program and does no input or output.
package model
