// Package simulator runs a scheduler in simulated time, to show the effect of a policy before its use. It replaces
// the Python scheduler's simulator.
//
//	           ┌─ claim ◄── PostgreSQL ◄── settle ◄─┐
//	           │   (real, at the simulated time)     │
//	every 10 s │                                     │ statuses
//	           ▼                                     │
//	      virtual queue ──────► virtual workers ─────┘
//	                            (the model of origins)
//	      virtual lister ─────► PostgreSQL, every hour
//
// Production code decides on a real database, which the simulation writes to. Claims are those of schedule-recurrent
// (recurrent.Picker) or start-runner (ClaimTasks and the ledger). The journal client's rules (journal.Rules) or the
// listener's statements (ApplyOutcomes) write outcomes. The clock, the queues, the workers, the lister and the
// origins (origins.go) are simulated. As with the Python scheduler, a queue holds 10,000 messages and is refilled
// when it has room for 1,000.
//
// There is one goroutine, and the simulated time stands still while the database works. A result depends only on the
// content of the database and its order of equal rows, the start time, and the random draws of the journal's rules.
//
// Writes are batched until the next read of the database: listings until a claim, statuses until a claim or the
// hourly count. Like the Python scheduler, the simulation writes 100 statuses at a time and never those after the
// last whole hundred. It omits claims that would find nothing: after a claim that found too little, it reads from the
// database when the next origin or task is due. No other process may write to the database meanwhile.
//
// A database error ends the run. If ctx ends, the report covers the time until then.
package simulator
