// Package settle decides what the events of workers change: runs of tasks, messages of
// the ledger, charges of groups, and the memory of how long work takes.
//
// The decisions are pure functions of the events and of what the database holds;
// ledger.Store.Settle loads that under locks and writes the result, in one transaction.
//
// Events come in any order, in any batches, and more than once: results are sent by a
// worker's child and overtake the events of its parent, and a batch that was applied
// but not acknowledged comes again. Whatever the order, the first end of a run counts,
// its newest start too, and a repeat changes nothing.
//
// # The way of a batch
//
// Store.ApplyOutcomes merges the outcomes by task id (gather) and calls ledger.Store.Settle (sql/ledger/settle.go), which db.Store embeds. That locks the runs, then the work,
// and calls decide within the transaction: decide is pure and says what to write. Settle writes it in the order
// of locks and commits. Metrics.count counts what became known only after the commit.
//
// # States of a message
//
//	in                 what comes                            then
//	outgoing or sent   a start                               the same, with the time of its start
//	outgoing or sent   an end, and how long it took          gone; its group is charged
//	outgoing or sent   an end, without how long it took      settled
//	outgoing or sent   a time-out, and a lane comes after    backlog of that lane, under a new task id
//	settled            how long it took, or ten minutes      gone
package settle
