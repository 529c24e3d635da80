// Package lanes decides on which lane of a task type work goes to workers: a visit, or a
// run of a task. It is pure; the state is in the database (sql/ledger/lanes.go), the messages
// are package dispatch's.
//
// A lane is a queue with a time limit; a lane set has two or more, in growing order of
// the limits. Quick work doesn't wait behind slow work, as that is killed on the express
// lane when it times out, and requeued on the next one.
//
//	claim ──► in a lane's backlog ──► in its queue, or running ──► ended
//	   (predicted)   ▲         a slot is free             │
//	                 └──────────── time-out ──────────────┘
//	                            (to the next lane)
//
// A backlog is in this order: what timed out before, longest ago first, then first tries
// as they were claimed. The queue itself has the broker's order.
//
// # Rules
//
//   - Choose: work goes to the first lane whose limit covers its expected time. Unknown
//     work goes to the first, work that was tried before never does.
//   - Sizes: lanes lend each other slots that they don't need, within their bounds, the
//     next lane first. No lane has less than its smallest size. A lane whose backlog waits for
//     longer than its target gets slots that become free in lanes whose backlogs don't.
//   - Fill: a lane serves its own backlog. If nothing in it has timed out, its remaining
//     slots take what waits in the lanes before it.
//   - What takes a later lane's slot is what is expected to take longest of the first LookAhead
//     messages of the backlog, but first what has waited for as long as that lane's limit.
//
// # Predictions
//
// Work is expected to take what it took the last times, more if more has changed
// since (Expect); unknown work takes the median of its lister's, or of its type's
// (Sketch: counts by powers of 1.25 seconds, halved each week). A wrong prediction costs
// a wait, never a visit.
package lanes
