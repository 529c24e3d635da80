// Package listener brings what Celery's workers report back into the database:
// events from the exchange celeryev become outcomes of runs.
//
// # Flow
//
// Events are read from the durable queue celeryev.listener, up to 1,000 messages
// ahead. They are gathered into a batch until it has enough events or bytes, or
// is a tenth of a second old. A batch is interpreted (outcome.go, pure), applied
// in one transaction, and then acknowledged with everything before it. Several
// listeners may share the queue.
//
// # A run's states
//
//	scheduled ──► started ──► eventful, uneventful, failed, permfailed or lost
//	    └────────────────────────┘
//
// Nothing leads out of the states on the right. Workers repeat events, and those
// that a pool's child sends overtake those that its parent sends; so the end
// state depends on which events came, not on their order or number:
//
//   - The first end that is applied counts. Further ones change neither the run
//     nor its task (only a failure without an error text takes a later one's).
//     Two ends that contradict each other (a result and then a lost worker) are
//     the one case in which order decides, as there it carries the meaning: the
//     result is sent by the child before its parent can know of a failure.
//   - Of several starts, which Celery's own retries make, the newest by the
//     workers' clocks counts.
//   - A start that comes after the end fills in the worker and the time, which
//     is then never after that of the end.
//
// The times of runs are those at which the listener got the events, as in the
// peer, so that a worker's wrong clock delays no task.
//
// # Failures
//
// Killed between commit and acknowledgement, the batch is delivered again and
// changes nothing. While the database or the broker is away the batch in hand is
// kept and tried again with back-off; what waits behind it is bounded by the
// number of messages read ahead. When PostgreSQL refuses a batch, it is halved
// until the guilty outcome is found; that one goes to the table
// scheduler_go.rejected_events, the others are applied. Events that make no
// sense are counted, logged once a kind a minute, and acknowledged.
//
// Asked to stop, the listener takes no more messages, applies the batch in hand
// (unless the database is away) and acknowledges it.
package listener
