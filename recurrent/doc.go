// Package recurrent schedules the visits of listed origins: the daemon
// schedule-recurrent. One loop a visit type looks at the free slots of the
// queue of its task type (load-<visit type>), picks that many origins by the
// configured policies, and hands them over as messages.
//
// # One round of a loop
//
//	task type ──► free slots ──► origins by policy ──► outbox
//	(read anew)      │                 │                 │
//	                 │ fewer than 5 %  │ none            │ some
//	                 ▼                 ▼                 ▼
//	             wait 60 s     wait 20 minutes      go on at once
//
// each wait lengthened by up to 5 s at random, so that the loops spread out
// (waits and splay are the peer's; the first two can be configured).
//
// # Claim, then deliver
//
// Counting the slots, picking the origins, marking them (last_scheduled) and
// writing their messages to the outbox is one transaction: an origin is never
// marked without its message, and never sent without its mark. See package
// dispatch for the rest of the way.
//
// # Weights
//
// Free slots are divided among a visit type's policies by their weights, in
// whole slots. What one policy cannot fill goes to those that could give more,
// again by weight, until the slots or the origins are used up; the peer leaves
// such slots empty. An origin that several policies pick is sent once.
//
// The policy pools stands for four, and sets their weights itself, as the design
// of recurrent visits has it. Of n slots, with r the part of the origins whose
// lister tells their last update, (1-r) n go to the others by visit target, and a
// third of r n each to those never loaded (oldest update first), to those that
// changed since they were loaded (longest lag first), and to the rest by visit
// target. By visit target, the visit type's global position moves forward.
//
// # Candidates
//
// Origins are picked from a copy of what the policies order by (see candidates.go
// of package sql). Whoever changes an origin leaves a note, and a keeper beside
// the loops works through the notes in the background, builds the copy anew where
// a table was emptied, and puts origins back whose cooldown has ended. Rounds are
// right whether it keeps up or not; the metric
// swh_scheduler_recurrent_candidates_backlog says how far behind it is, and above
// 10,000 for a visit type its rounds take as long as the peer's.
//
// # Failures
//
// A loop that fails says so once and tries again with back-off; the others go
// on. A visit type without a task type is such a failure: it is cured when the
// type is added.
package recurrent
