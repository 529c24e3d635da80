// Package shares divides the free slots of a queue between groups, so that each gets its
// share of the workers' time and none starves.
//
// What is shared is time. A group's load is the work, in seconds, that it has in the
// queue and running, and what it used lately, halved after each half-life. Work that has
// not ended counts with the average of the group's work so far, or with the time since
// it started if that is longer, within a bound (Underway); so a group gains nothing by being slow.
//
// Each slot goes to the group with the smallest load for its weight, and adds the cost
// of its work to its load (stride scheduling). Nothing is rounded from one division to
// the next: a group with a tenth of a slot a pass gets every tenth slot.
//
//	         has work                             gives fewer than asked,
//	idle ───────────────► busy (load raised to      or has no more work
//	  ▲                   the level of the others) ──────┐
//	  └───────────────────────────────────────────────────┘
//
// An idle group saves nothing up: when it comes back, what it did not use is counted as
// forfeited, so that it starts at the level of the busy group that is furthest behind.
// What it used beyond its share stays with it. The part of an idle group goes to the
// others by their weights, in the same division. So does that of a group at its ceiling,
// which saves nothing up either.
package shares
