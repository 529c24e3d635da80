// Package ledger is the ledger of work: the messages from their claim until their ends are known.
//
// [Tx.ClaimTasks] claims tasks, [Tx.AddWork] writes the messages of a claim, and [Tx.NextOutgoing] and
// [Tx.Confirm] are for deliverers. [Store.Settle] writes what events change of runs and work,
// [Store.UpdateVisitStats] what records of the journal change of visits. Lanes and shares are tables beside it.
//
// It decides nothing: what becomes of a run or of work is decided by internal/settle, where work goes by
// internal/dispatch.
package ledger
