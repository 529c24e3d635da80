// Package ledger is the ledger of work: messages from their claim until their ends are known.
//
// [Tx.ClaimTasks] claims tasks and [Tx.AddWork] writes the messages of a claim. Deliverers use
// [Tx.NextOutgoing] and [Tx.Confirm]. [Store.Settle] applies events to runs and work;
// [Store.UpdateVisitStats] applies journal records to the stats of visits. Lanes and shares have tables of
// their own.
//
// The package makes no decisions: internal/settle decides how runs and work end, internal/dispatch where
// work goes.
package ledger
