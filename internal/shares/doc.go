// Package shares divides the free slots of a queue between groups, so that each
// gets its share of the workers' time and none starves.
//
// # The measure
//
// What is shared is time. A group's load is the work, in seconds, that it has in
// the queue and running, and what it used lately, which counts half as much after
// each half-life. Work that has not ended counts with what the group's work took
// so far on average, or with the time since it began if that is longer; so a
// group gains nothing by being slow.
//
// # The rule
//
// Each slot goes to the group whose load is the smallest for its weight, and adds
// to its load what its work costs (stride scheduling, with the loads as the
// clocks). Nothing is rounded from one division to the next: a group with a tenth
// of a slot a pass is behind the others for nine passes and gets the tenth slot.
//
// # States of a group
//
//	         has work                             gives fewer than asked,
//	idle ───────────────► busy (load raised to      or has no more work
//	  ▲                   the level of the others) ──────┐
//	  └───────────────────────────────────────────────────┘
//
// A group that was idle saves nothing up: when it comes back, what it did not use
// is counted as forgone, so that it starts at the level of the busy group that is
// furthest behind, and the others go on. What it used beyond its share stays with
// it, so leaving and coming back gains nothing either. The part of an idle group
// goes to the others by their weights, in the same division.
package shares
