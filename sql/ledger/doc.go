// Package ledger is the ledger of work: the messages from their claim until their ends are known.
//
// [Tx.ClaimTasks] claims tasks, [Tx.AddWork] writes the messages of a claim, and [Tx.NextOutgoing] and
// [Tx.Confirm] are for deliverers. [Store.Settle] writes the outcomes of events to runs and work,
// [Store.UpdateVisitStats] those of journal records to the stats of visits. Lanes and shares have tables of their own.
//
// It decides nothing. The package internal/settle decides how runs and work end, internal/dispatch where work goes.
package ledger
