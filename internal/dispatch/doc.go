// Package dispatch carries messages from a claim to the broker: it counts the free slots
// of queues, routes what is claimed to queues or lanes, and delivers the ledger's
// outgoing messages.
//
// # Claim, then deliver
//
// A claim is one transaction. Slots.Open takes the queue's lock and counts the free slots; the daemon marks
// that much work as scheduled (task and task_run, or last_scheduled), in the parts that a Division gives
// if groups share the queue; Claim.Commit routes it to the queue or to lanes,
// writes a row of the ledger (ledger.Work) for each message and commits. Then a Deliverer, of this
// process or another, locks outgoing messages, publishes them with publisher confirms
// and the mandatory flag, records what the broker confirmed, and commits.
//
//	      claim, route      slot free           confirmed
//	(work) ─────────► backlog ─────► outgoing ───────────► sent, if it has a group, lanes or hosters,
//	             └── no lanes ──────►  │    ▲               or gone
//	                           refused │    │ not_before has come
//	                                   ▼    │
//	                                  backed off (attempts, last_error; the delay doubles)
//
// Package settle has the states after that. Urgent messages (of tasks with priority) and the
// others are delivered beside each other, so that an urgent one never waits for a batch.
//
// # Failures
//
//   - Killed before the claim commits: nothing happened.
//   - Killed after it: another Deliverer sends the message with the same task id.
//   - Killed, or the connection lost, between the broker's confirms and the commit: that
//     batch, and those being sent, are sent again with the same ids, except messages
//     whose end is heard before: 500 per Deliverer at most.
//   - Not confirmed in time, on a connection that lives: the messages are leased, and not
//     sent again until the broker answers or the connection is lost.
//   - Too large, not serialisable: the message is backed off with its reason and retried,
//     each time after twice the delay; the others go on.
//   - A queue that can't be declared, rejects or doesn't answer: it is backed off, with all
//     its messages, and tried again, each time after twice the delay.
//   - PostgreSQL or the broker away: retried with back-off, logged once.
//
// # Exact slots
//
// Free slots of a queue are its limit, minus an upper bound of what it holds when the claim counts:
//
//	held ≤ ready(D) + min(prefetch, unacked(O) + max(0, ready(O) + R[O,D) − ready(D))) + R[D,S] + outgoing(S)
//
// O is the earliest moment of the management API's figures, D is before the broker itself is asked, and S is the claim's
// statement on the ledger, after the queue's lock. R[x,y) are the deliveries recorded from x on and before y. All of it is
// in the database's time: O and D are lower bounds, by what the database told before and the monotonic clock; O is also
// earlier by the age that the figures may have. A host's clock has no part in it. Both questions come before the lock, so
// no transaction waits for the broker. R and outgoing(S) are read in one statement.
//
// Every confirmation is recorded as a delivery, also of a message whose row is gone. An end that is heard while its message is
// still outgoing is recorded as one, too: its worker may acknowledge later. A message may so count twice, and is never missed.
// Claims for a queue wait for each other on an advisory lock, so several processes never overfill it together.
//
// The bound is of what we send. It doesn't cover what others publish into the queue, dead letters into it, and messages that
// are sent twice.
package dispatch
