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
// # Time limits
//
// A message's time limits (celery.TaskMessage) are enforced by its worker, the
// prefork pool's parent process: at the soft one it has the task raise
// SoftTimeLimitExceeded, at the hard one it ends the child by SIGTERM and, a
// tenth of a second later, SIGKILL. A run that ended so is marked as timed out
// ([swh-scheduler/sql.RunEnd]). These are the events that a worker of Celery 5.7
// with the peer's task class sends after task-started, by what happened:
//
//	soft limit                    task-failed, exception SoftTimeLimitExceeded()
//	  caught, as loaders do       task-result, failed, error "SoftTimeLimitExceeded()"; task-succeeded
//	  caught, loaders of packages task-result, failed, without an error; task-succeeded   not told
//	  became another exception    task-failed, that exception                             not told
//	hard limit                    task-failed twice, exception ExceptionWithTraceback(), the last line of
//	                              both tracebacks billiard.exceptions.TimeLimitExceeded: …
//	child killed                  task-failed, exception ExceptionWithTraceback(), the last line of
//	                              the traceback billiard.exceptions.WorkerLostError: …    no
//	revoked with terminate        task-revoked                                            no
//	whole worker killed           none                                                    no
//
// Those marked "not told" are time-outs that no event names: only how long they
// ran shows them. With acks_late and reject_on_worker_lost, a killed child's task
// is rejected and runs again, and so does the task of a killed worker with
// acks_late: that is one run with two starts. With acks_late but not
// acks_on_timeout, a task at its hard limit is rejected, reported as failed, and
// run again nevertheless: its end is the time-out.
//
// The exception must be named by its class where the event names an exception; a
// message that only mentions one is no time-out. Of several ends in one batch
// that say failed, one that names a time limit marks the run.
//
// Loaders catch the soft limit, and often SIGTERM too, and then write a visit
// with the status failed (or partial) to the archive, so that the journal tells
// of a failed visit where this package hears of a time-out.
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
