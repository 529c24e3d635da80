// Package listener writes what Celery's workers report into the database: events
// from the exchange celeryev become outcomes of runs and of work in the ledger.
//
// # Flow
//
// Events are read from the durable queue celeryev.listener, up to 1,000 messages
// ahead, into a batch, until it has enough events or bytes, or is a tenth of a
// second old. Each event is interpreted as it is read (outcome.go). A batch is applied in one
// transaction, in parts after a time-out or a refused value, and then acknowledged with everything before it.
// Several listeners may share the queue.
//
// # Events
//
//	event             outcome   run                     work of groups, lanes and hosters
//	task-started      Start     started, its worker     started
//	task-succeeded    Runtime   its duration            charge, memory of the lane; deleted if it has ended
//	task-result       End       ends                    ends
//	task-failed       End       ends, or is retried     ends; by a time-out: the next lane
//	task-revoked, task-rejected
//	                  End       fails, not retried      ends
//
// task-result is an event of the archive's own workers. An end deletes a message that is still outgoing, and counts it
// as delivered.
//
// # A run's states
//
//	scheduled ──► started ──► eventful, uneventful, failed, permfailed or lost
//	    └────────────────────────┘
//
// Nothing leads out of the states on the right. Workers repeat events, and those
// that a pool's child sends overtake those of its parent; so the end state depends
// on which events came, not on their order or number:
//
//   - The first end that is applied counts. Further ones change neither the run
//     nor its task (but a failure without an error text takes a later one's). Only
//     where two ends contradict each other (a result and then a lost worker) does
//     the order decide: the child sends the result before its parent can know of a
//     failure.
//   - Of several starts, which Celery's own retries make, the newest by the
//     workers' clocks counts.
//   - A start that comes after the end adds the worker and the time, which is then
//     never after that of the end.
//
// The times of runs are those at which the listener got the events, as in the
// Python scheduler, so that a worker's wrong clock delays no task.
//
// A run that a person revoked, or whose worker dropped its message for good, has failed and is not
// retried: its metadata has not_retried. Where its failure was applied before, the retry is taken
// back, unless the task has been sent again. What expired in its queue is retried.
//
// # Time limits
//
// The prefork pool's parent process enforces a message's time limits
// (celery.TaskMessage): at the soft one it has the task raise SoftTimeLimitExceeded,
// at the hard one it ends the child by SIGTERM and, a tenth of a second later,
// SIGKILL. A run that ended so is marked as timed out ([swh-scheduler/internal/settle.End]).
// These are the events that a worker of Celery 5.7 with the Python scheduler's task class sends
// after task-started, by what happened:
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
// Those marked "no" are no time-outs; those marked "not told" are some that no event
// names: only how long they ran shows them. With acks_late and reject_on_worker_lost, the task of a killed
// child is rejected and runs again, as does that of a killed worker with acks_late:
// one run with two starts. With acks_late but not acks_on_timeout, a task at its
// hard limit is rejected, reported as failed, and run again nevertheless: its end is
// the time-out.
//
// A time-out is told by the class of the exception, not by a message that mentions
// it. Of several failures in one batch, one that names a time limit marks the run.
//
// Loaders catch the soft limit, and often SIGTERM too, and then write a visit with
// the status failed (or partial) to the archive, so that the journal has a failed
// visit where this package sees a time-out.
//
// # Failures
//
// Killed between commit and acknowledgement, the batch is delivered again and
// changes nothing. While the database or the broker is away the batch in hand is
// kept and retried with back-off; the number of messages read ahead bounds what
// waits behind it. When PostgreSQL refuses a batch, it is halved until the refused
// outcome is found; that one goes to the table scheduler_go.rejected_events, the
// others are applied. The same holds for one that meets a fault of the program (a panic):
// it is tried a second time, alone, and then set aside. Events that make no sense are counted,
// logged once a minute per kind, and acknowledged.
//
// # Bounds
//
// Events are read one at a time, and a batch has at most 2,000 of them, so a message may
// need several batches; it is acknowledged after the last one. A message with more than
// 10,000 events that is delivered again, perhaps because a listener died of it, is set aside.
// A message of more than 4 MiB is not read.
//
// Asked to stop, the listener takes no more messages, applies the batch in hand
// (unless the database is away) and acknowledges it.
package listener
