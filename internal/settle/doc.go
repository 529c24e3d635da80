// Package settle decides which changes the events of workers make: to runs of tasks, messages of the ledger, charges
// of groups, and the recorded runtimes of work.
//
// The decisions are pure functions of the events and of locked rows. ledger.Store.Settle loads these rows under
// locks and writes the result, in one transaction.
//
// Events come in any order, in any batches, and more than once. A worker's child process sends results, which
// overtake the events of its parent. A batch that was applied but not acknowledged comes again. In every order, the
// first end and the newest start of a run count, and a repeat changes nothing.
//
// # Steps of a batch
//
// Store.ApplyOutcomes merges the outcomes by task id (gather) and calls ledger.Store.Settle (sql/ledger/settle.go),
// which db.Store embeds. Settle locks the runs, then the work, and calls decide within the transaction. decide is
// pure and returns the changes. Settle writes them in the order of locks and commits. After the commit,
// Metrics.count counts what the batch added.
//
// # States of a message
//
//	state              event                               next state
//	outgoing or sent   a start                             the same, with the time of its start
//	outgoing or sent   an end, and its runtime             deleted; its group is charged
//	outgoing or sent   an end, no start or runtime known   settled
//	outgoing or sent   a runtime without an end            deleted; its group is charged (by a lane's limit: the same)
//	outgoing or sent   a time-out, with a lane after it    backlog of that lane, under a new task id
//	settled            its runtime, or ten minutes         deleted
package settle
