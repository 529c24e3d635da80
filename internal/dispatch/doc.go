// Package dispatch carries every message from a claim to the broker: slots say
// how many messages a queue can take, the outbox keeps what was claimed until
// the broker has it.
//
// # Claim, then deliver
//
// A claim runs in one transaction: it takes the queue's lock, counts the free
// slots, marks the work as scheduled (task and task_run, or last_scheduled) and
// writes one outbox row a message. Nothing is sent yet. Then a Deliverer, of
// this process or of any other, locks outbox rows, publishes them with publisher
// confirms and the mandatory flag, deletes the rows that the broker confirmed,
// and commits.
//
// # States of a message
//
//	         claim              confirmed
//	(work) ────────► outbox row ───────────► in the queue, row deleted
//	                  │      ▲
//	          refused │      │ not_before has come
//	                  ▼      │
//	                 put off ┘ (attempts, last_error; the delay doubles)
//
// # Failures
//
//   - Killed before the claim commits: nothing happened.
//   - Killed after it: the row is sent by whoever delivers next, with the same
//     task id. Nothing is lost.
//   - Killed between the broker's confirms and the delete's commit: that batch,
//     and the one being sent, are sent again with the same ids. At most twice
//     DeliverBatch messages a deliverer.
//   - Connection lost while messages are unconfirmed: their rows stay; the same.
//   - Unroutable, too large, not serialisable: the row is put off with its reason
//     and tried again later, each time after twice the delay; the others go on.
//   - PostgreSQL or the broker away: retried with back-off, said once.
//
// # Exact slots
//
// Free slots of a queue are its limit, less what is in the outbox for it, less
// what the broker holds (ready and unacknowledged). The outbox is counted before
// the broker is asked, so that a message on its way between the two is counted
// twice and never not at all; claims for one queue wait for each other on an
// advisory lock, so several dispatchers on several machines never overfill it
// together.
package dispatch
