// Package dispatch carries messages from a claim to the broker: it counts the free slots
// of queues, routes what is claimed to queues or lanes, and delivers the ledger's
// outgoing messages.
//
// # Claim, then deliver
//
// A claim is one transaction. Slots.Open takes the queue's lock and counts the free slots. Slots.OpenTogether does so for
// several queues, which share the commit. The daemon marks that much work as scheduled (task and task_run, or
// last_scheduled); if groups share the queue, a Division sets the part of each group. Claim.Commit routes the work to
// the queue or to lanes, writes a row of the ledger (ledger.Work) for each message and commits. Then a Deliverer,
// of this process or another, locks outgoing messages, publishes them with publisher confirms and the mandatory
// flag, records the broker's confirmations, and commits.
//
//	      claim, route      slot free           confirmed
//	(work) ─────────► backlog ─────► outgoing ───────────► sent, if it has a group, lanes or hosters,
//	             └── no lanes ──────►  │    ▲               or gone
//	                           refused │    │ not_before has come
//	                                   ▼    │
//	                                  backed off (attempts, last_error; the delay doubles)
//
// Package settle has the states after that. Urgent messages (of tasks with priority) and the others are delivered in
// two parallel streams, so that an urgent message never waits for a batch of others.
//
// # Failures
//
//   - Killed before the claim commits: no effect.
//   - Killed after it: another Deliverer sends the message with the same task id.
//   - Killed, or the connection lost, between the broker's confirms and the commit: that batch, and those being sent, are
//     sent again with the same ids, except messages whose end arrived before: at most 500 per Deliverer.
//   - Not confirmed in time, on a connection that is still open: the messages are leased, and not sent again until the broker
//     answers or the connection is lost.
//   - Too large, or not serialisable: the message is backed off with its reason and retried, each time after twice the delay.
//     The others continue.
//   - A queue that can't be declared, rejects or doesn't answer: the queue is backed off, with all its messages, and tried
//     again, each time after twice the delay.
//   - PostgreSQL or the broker unavailable: retried with back-off, logged once.
//
// # Exact slots
//
// The free slots of a queue are its limit, minus an upper bound of the messages that it holds when the claim counts:
//
//	held ≤ ready(D) + min(prefetch, unacked(O) + max(0, ready(O) + R[O,D) − ready(D))) + R[D,S] + outgoing(S)
//
// prefetch is the sum of the consumers' prefetch limits, if all are known, and at least unacked(O).
//
// O is the earliest moment of the management API's figures. D is before the passive declare. S is the claim's
// statement on the ledger, after the queue's lock. R[x,y) are the deliveries recorded from x on and before y. All
// times are the database's. O and D are lower bounds: the last time read from the database, plus monotonic time
// since. O is also earlier by the greatest age of the figures (stats_age). A host's clock has no part in it. Both
// observations come before the lock, so no transaction waits for the broker. One statement reads R and outgoing(S).
//
// RabbitMQ answers a passive declare of a quorum queue without the queue's leader after 250 ms: neither messages nor
// consumers. After such an answer ready(D) counts as 0 and nothing bounds the prefetch, which leaves the count at O and
// the deliveries since.
//
// Every confirmation is recorded as a delivery, also of a message whose row is gone. An end that arrives while its
// message is still outgoing is recorded as a delivery too, as its worker may acknowledge later. So a message may
// count twice, and is never missed. Claims for a queue serialise on an advisory lock, so several processes never
// overfill it together.
//
// The bound covers the messages that we send. It doesn't cover messages that others publish into the queue, dead
// letters into it, and messages that are sent twice.
package dispatch
