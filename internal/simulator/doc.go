// Package simulator runs a scheduler in simulated time, to see the effect of a policy before
// it is used. It does what the Python scheduler's simulator does.
//
//	           ┌─ claim ◄── PostgreSQL ◄── settle ◄─┐
//	           │   (real, at the simulated time)     │
//	every 10 s │                                     │ statuses
//	           ▼                                     │
//	      virtual queue ──────► virtual workers ─────┘
//	                            (the model of origins)
//	      virtual lister ─────► PostgreSQL, every hour
//
// Production code makes the decisions on a real database, which the simulation writes to:
// claims are those of schedule-recurrent (recurrent.Picker) or start-runner (ClaimTasks and
// the ledger), outcomes are written by the journal client's rules (journal.Rules) or the
// listener's statements (ApplyOutcomes). The clock, the queues, the workers, the lister and
// the origins (origins.go) are simulated. As with the Python scheduler, a queue holds 10,000
// messages and is refilled when it has room for 1,000.
//
// On an RPC server (Options.Server) a simulation makes the daemons' calls instead: the server claims,
// counts the origins each hour, and does not tell when something is due, so that it is asked each time.
//
// There is one goroutine, and time stands still while the database works. A run depends only
// on the database's content and order of equal rows, the start, and the random draws of the
// journal's rules.
//
// Writes are batched until the database is next read: listings until a claim, statuses until
// a claim or the hourly count. The Python scheduler writes 100 statuses at a time and never
// those after the last whole hundred, and so does the simulation. Claims that would find
// nothing are left out: after an incomplete one the database tells when the next origin or
// task is due. Nothing else may write to the database meanwhile.
//
// An error of the database ends the run. If ctx ends, the report covers the time until then.
package simulator
