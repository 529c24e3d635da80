// Package lanes decides on which lane of a task type a piece of work goes to
// workers: a visit, or a run of a task. It computes and nothing else; the state is
// in the database (lanes.go of package sql), the messages are package dispatch's.
//
// A lane is a queue with a time limit for each piece of its work, in growing order
// of the limits (Launchpad's express lane, of two or more). Quick work doesn't wait
// behind slow work, as that is thrown out of the express lane when its time is over
// and goes on in the next one.
//
// # States of a piece of work
//
//	claim ──► in a lane's line ──► in its queue, or running ──► ended
//	   (predicted)   ▲      a slot is free                │
//	                 └──────────── time-out ──────────────┘
//	                            (to the next lane)
//
// A line is kept in the database, in this order: what timed out before, longest ago
// first, then first-timers as they were claimed. So what timed out passes by all
// that has not got a slot yet; in the queue itself the broker's order holds.
//
// # Rules
//
//   - Choose: a piece of work goes to the first lane whose time it is expected to
//     need. Unknown work goes to the first, work that was tried before never does.
//   - Sizes: lanes lend each other slots that they have no use for, within their
//     bounds, the next lane first. No lane has less than its smallest size.
//   - Fill: a lane serves its own line. If nothing in it has timed out, what it has
//     left takes the first of what waits in the lanes before it.
//
// # Predictions
//
// Work is expected to take what it took the last times, more if more has changed
// since (Expect); what was never seen takes what the middle one of its lister's did,
// or of its type's (Sketch: counts by powers of 1.25 seconds, halved each week). A
// wrong prediction costs a wait, never a visit.
package lanes
