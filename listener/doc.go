// Package listener records the events of Celery's workers in the database: events from the exchange celeryev become
// outcomes of runs and of work in the ledger.
//
// # Flow
//
// The listener reads events from the durable queue celeryev.listener into a batch, with a prefetch of 1,500
// messages. A batch ends when it has enough events or bytes, or is a tenth of a second old. Each event is
// interpreted when it is read (outcome.go). The listener applies a batch in one transaction, or in parts after a
// time-out or a refused value. Two batches are applied at the same time, and their changes keep the order of events (turn.go).
// The listener acknowledges a batch once it and all before it are written. Several listeners may share the queue.
//
// # Events
//
//	event             outcome   run                     work of groups, lanes and hosters
//	task-started      Start     started, its worker     started
//	task-succeeded    Runtime   its duration            charge, memory of the lane; deleted, unless the lane's limit may have ended it
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
// The states on the right are final. Workers repeat events, and events of a pool's child process overtake those of
// its parent. So the end state depends on the set of events, not on their order or number:
//
//   - The first end that is applied counts. Further ones change neither the run nor its task, except that a failure
//     without an error text takes a later one's. The order decides only if two ends contradict each other (a result and then
//     a lost worker): the child sends the result before its parent detects a failure.
//   - Of several starts, which Celery's own retries make, the newest by the workers' clocks counts.
//   - A start that comes after the end adds the worker and the time, which is then never after that of the end.
//
// The times of runs are those at which the listener received the events, as in the Python scheduler, so that a
// worker's wrong clock delays no task.
//
// A run that an operator revoked, or whose worker dropped its message for good, has failed and is not retried: its
// metadata has not_retried. If its failure was applied before, the retry is cancelled, unless the task has been sent
// again. A task that expired in its queue is retried.
//
// # Time limits
//
// The prefork pool's parent process enforces a message's time limits
// (celery.TaskMessage): at the soft one it has the task raise SoftTimeLimitExceeded,
// at the hard one it ends the child by SIGTERM and, a tenth of a second later,
// SIGKILL. A run that ended so is marked as timed out ([swh-scheduler/internal/settle.End]).
// These are the events that a worker of Celery 5.7 with the Python scheduler's task class sends after task-started.
// The last column says whether the run counts as timed out, if not yes:
//
//	soft limit                    task-failed, exception SoftTimeLimitExceeded()
//	  caught, as loaders do       task-result, failed, error "SoftTimeLimitExceeded()"; task-succeeded
//	  caught, loaders of packages task-result, failed, without an error; task-succeeded   unknown
//	  became another exception    task-failed, that exception                             unknown
//	hard limit                    task-failed twice, exception ExceptionWithTraceback(), the last line of
//	                              both tracebacks billiard.exceptions.TimeLimitExceeded: …
//	child killed                  task-failed, exception ExceptionWithTraceback(), the last line of
//	                              the traceback billiard.exceptions.WorkerLostError: …    no
//	revoked with terminate        task-revoked                                            no
//	whole worker killed           none                                                    no
//
// The events of the rows "unknown" name no time limit: only the runtime shows the time-out. With acks_late and
// reject_on_worker_lost, the task of a killed child is rejected and runs again, and so does the task of a killed
// worker with acks_late: one run with two starts. With acks_late but not acks_on_timeout, a task at its hard limit
// is rejected, reported as failed, and run again: its end is the time-out.
//
// The class of the exception identifies a time-out; a message that mentions one does not. Of several failures in one
// batch, one that names a time limit marks the run.
//
// Loaders catch the soft limit, and often SIGTERM too. They then write a visit with the status failed (or partial)
// to the archive, so that the journal has a failed visit where this package has a time-out.
//
// # Failures
//
// Killed between commit and acknowledgement, batches are delivered again and change nothing. While the database or
// the broker is unavailable, the listener keeps its batches and retries them with back-off; the prefetch bounds the
// messages that wait behind it. When PostgreSQL refuses a batch, the listener halves it until it finds the refused
// outcome. That one goes to the table scheduler_go.rejected_events, the others are applied. The same holds for an
// outcome that causes a fault of the program (a panic): it is tried a second time, alone, and then set aside.
// Malformed events are counted, logged once a minute per kind, and acknowledged.
//
// # Bounds
//
// Events are read one at a time, and a batch has at most 2,000 of them, so a message may need several batches; it is
// acknowledged after the last one. A message with more than 10,000 events that is delivered again is set aside: it
// may have ended a listener. A message of more than 4 MiB is not read.
//
// When it is stopped, the listener takes no more messages, applies the batches in hand (unless the database is
// unavailable) and acknowledges them.
package listener
