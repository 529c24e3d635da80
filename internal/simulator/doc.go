// Package simulator runs a scheduler in simulated time, to see what a policy makes
// of many origins before it is used. It does what the peer's simulator does.
//
// # What is real, what is not
//
//	           ┌─ claim ◄── PostgreSQL ◄── settle ◄─┐
//	           │   (real, at the simulated time)     │
//	every 10 s │                                     │ statuses
//	           ▼                                     │
//	      virtual queue ──────► virtual workers ─────┘
//	                            (the model of origins)
//	      virtual lister ─────► PostgreSQL, every hour
//
// Claims are those of schedule-recurrent (recurrent.Picker, on the store's
// GrabNextVisits) or of start-runner (ClaimTasks and the outbox), and what visits
// changed is written by the rules of the journal client (journal.Rules) or the
// listener's statements (ApplyOutcomes): what decides what is visited when is the
// code that runs in production, on a real database, which the simulation writes to.
//
// The clock, the queues, the workers, the lister and the origins are simulated; see
// origins.go for these. A queue takes 10,000 messages, and is refilled when there
// is room for 1,000, as with the peer.
//
// # The clock
//
// Clock keeps what is to happen in the order of its time, and of its making where
// times are the same. There is one goroutine: nothing happens while the database is
// asked, however long that takes. So a run follows from the database's content, the
// moment of the start, the draws of the journal's rules and the database's order of
// rows that a policy does not tell apart.
//
// # Batches
//
// Nothing of what is simulated depends on when the database hears of it, as long as
// that is before it is next asked. So listings are gathered until a claim, and
// statuses until a claim or the hourly count of origins (the peer writes 100 at a
// time, and those after the last whole hundred never; so they are not written here
// either). A claim that can find nothing is left out: after one that found less than
// it was asked for, the database tells when the next origin or task is due, and until
// then, or until something changes, the queue is left alone. Origins are counted once
// by the database, and then by what changes of them (census.go).
//
// For all this, nothing else may write to the database meanwhile.
//
// # Failures
//
// An error of the database ends the run. When ctx ends, the run is over sooner, and
// is reported as far as it got.
package simulator
