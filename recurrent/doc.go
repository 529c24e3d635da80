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
// Each wait gets up to 5 s at random on top. The splay and the waits are the Python scheduler's; both waits
// can be configured. After a round without origins, a visit type looks each second whether a candidate is
// due, and runs a round if so. It looks less often if the query is slow, or if the round then claims
// nothing.
//
// # Weights
//
// A visit type's policies divide the free slots by their weights, in whole slots. The policies that fill
// their part divide the slots that the others leave, again by weight, until no slot or no origin is left.
// The Python scheduler leaves such slots empty. A round sends an origin once, even if several policies pick
// it.
//
// The policy pools stands for four policies, with the weights of the design of recurrent visits. Let n be
// the number of slots, and r the part of the origins with a known last update. Origins without a last
// update get (1-r) n slots, by visit target. The others get r n/3 slots each for: never loaded, oldest
// update first; changed since the last load, longest lag first; the rest, by visit target. The two policies
// by visit target move the visit type's global position forward.
//
// # Candidates
//
// Policies pick from a table of candidates, which holds the columns that they order by
// (sql/origins/candidates.go). A keeper beside the loops drains the queue of changes, rebuilds the table
// after a truncate, and unparks origins whose cooldown has ended. A round counts pending changes in, so it
// is exact even if the keeper lags. With more than 10,000 pending changes of a visit type
// (swh_scheduler_candidate_changes), a round takes as long as the Python scheduler's.
//
// # Failures
//
// A loop that fails logs the first failure and retries with back-off; the other loops continue. A visit
// type that is given by name and has no task type is such a failure, until someone adds the type. Without
// names, loops start and stop with the task types, within 10 s.
package recurrent
