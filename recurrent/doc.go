// Package recurrent schedules the visits of listed origins: the daemon
// schedule-recurrent. One loop per visit type counts the free slots of the queue of its
// task type (load-<visit type>), picks that many origins by the configured policies, and
// claims them as messages (package dispatch).
//
//	task type ──► free slots ──► origins by policy ──► ledger
//	(read anew)      │                 │                 │
//	                 │ fewer than 5 %  │ none            │ some
//	                 ▼                 ▼                 ▼
//	             wait 60 s     wait 20 minutes      go on at once
//
// Each wait is lengthened by up to 5 s at random (waits and splay are the Python scheduler's; the
// first two can be configured). A visit type that found none asks candidates each second, less often
// if that takes long or was in vain, whether an origin has become due, and ends its wait if so.
//
// # Weights
//
// Free slots are divided among a visit type's policies by their weights, in whole slots.
// What one policy cannot fill goes to those that could give more, again by weight, until
// the slots or the origins are used up; the Python scheduler leaves such slots empty. An
// origin that several policies pick is sent once.
//
// The policy pools stands for four, with the weights of the design of recurrent visits.
// Of n slots, with r the part of the origins whose lister tells their last update,
// (1-r) n go to the others by visit target, and a third of r n each to those never loaded
// (oldest update first), to those that changed since they were loaded (longest lag
// first), and to the rest by visit target. By visit target, the visit type's global
// position moves forward.
//
// # Candidates
//
// Origins are picked from a copy of what the policies order by (sql/origins/candidates.go). A
// keeper beside the loops drains the changes in the background, rebuilds the copy after
// a truncate, and unparks origins whose cooldown has ended. Rounds are exact whether it
// keeps up or not; above 10,000 pending changes of a visit type
// (swh_scheduler_candidate_changes) they take as long as the Python scheduler's.
//
// # Failures
//
// A loop that fails logs it once and retries with back-off; the others go on. A visit
// type that was asked for by name and has no task type is such a failure, until the type is
// added. Otherwise loops come and go with the task types, within 10 s.
package recurrent
