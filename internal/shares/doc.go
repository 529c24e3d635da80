// Package shares divides the free slots of a queue between groups, so that each gets its share of the workers' time
// and none starves.
//
// The shared resource is workers' time. A group's load is its work in the queue and running, in seconds, plus the
// work that it used lately, halved after each half-life. Work without an end counts with the average cost of the
// group's work. If it has run for longer, that time counts, within a bound (RunningCost). So a group gains nothing by
// being slow.
//
// Each slot goes to the group with the smallest load for its weight, and adds the cost of a message to its load
// (stride scheduling). Fractions carry over between divisions: a group with a tenth of a slot a pass gets every tenth
// slot.
//
//	         has work                             gives fewer than asked,
//	idle ───────────────► busy (load raised to      or has no more work
//	  ▲                   the level of the others) ──────┐
//	  └───────────────────────────────────────────────────┘
//
// An idle group saves nothing up: when it becomes busy, the load that it didn't use is added as forfeited, so that it
// starts at the lowest level of the busy groups. It keeps a load beyond its share. The share of an idle group goes to
// the others by their weights, in the same division. So does the share of a group at its ceiling, which saves nothing
// up either.
package shares
