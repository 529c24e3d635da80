// Package lanes chooses the lane of a task type for a message: a visit, or a run of a task. It is pure. The database
// has the state (sql/ledger/lanes.go), and package dispatch sends the messages.
//
// A lane is a queue with a time limit. A lane set has two or more, in growing order of the limits. Quick work doesn't
// wait behind slow work: the express lane kills slow work at its limit, and the next lane gets it.
//
//	claim ──► in a lane's backlog ──► in its queue, or running ──► ended
//	   (predicted)   ▲         a slot is free             │
//	                 └──────────── time-out ──────────────┘
//	                            (to the next lane)
//
// A backlog has messages that timed out first, the earliest time-out first, then first tries in the order of their
// claims. The queue itself has the broker's order.
//
// # Rules
//
//   - Choose: a message goes to the first lane whose limit covers its expected time.
//     Unknown work goes to the first lane; work that was tried before never does.
//   - Sizes: lanes lend each other free slots within their bounds, the next lane first.
//     No lane has less than its smallest size. A lane whose backlog waits for longer than
//     its target gets slots that become free in lanes whose backlogs don't.
//   - Fill: a lane serves its own backlog. If nothing in it has timed out, its remaining
//     slots take messages from the backlogs of the lanes before it.
//   - The messages for a later lane's slot are first those that have waited for as long as that
//     lane's limit, then those with the longest expected time among the first LookAhead of the backlog.
//
// # Predictions
//
// The expected time of work is that of its last runs, and longer if more has changed since (Expect). Unknown work
// takes the median of its lister's, or of its type's (Sketch: counts by powers of 1.25 seconds, halved each week). A
// wrong prediction delays a visit, but never loses it.
package lanes
