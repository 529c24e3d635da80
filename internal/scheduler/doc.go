// Package scheduler holds the words the whole program speaks: task types,
// tasks, listers, listed origins, visits, and the errors everyone can test for.
//
// It mirrors the model of the Python swh.scheduler ("the peer"): names,
// statuses and defaults are the peer's, because both read and write the same
// database. It imports none of the other packages and does no input or output.
package scheduler
