// Package runner turns ready tasks into messages. The daemon start-runner sends tasks without priority and, with
// --with-priority, those with one (save code now). FirstVisits sends the first visits of newly listed origins: the
// daemon start-runner-first-visits.
//
// A pass reads which task types have ready tasks, and claims of each type as many tasks as its queue has free slots
// (package dispatch). It claims for four queues at once; types of the same queue follow each other. Passes follow each
// other until one claims nothing. Then the daemon waits for its period, and a
// one-shot run ends.
//
// # Rules of the Python scheduler that it follows
//
//   - A type's tasks go to the queue of its backend name, or to "celery" if that
//     name doesn't begin with "swh.", unless the configuration routes them; tasks of
//     any priority go to save_code_now:<backend name>.
//   - A queue is refilled only when more than a fifth of it is free.
//   - At most 2,000 tasks a claim (the Python scheduler: 10,000); the next claim follows at once.
//   - First visits have no cooldowns. A lister that is done is marked as changed (updated), so that an older copy of its
//     row can't undo the mark.
//
// # Differences from the Python scheduler
//
//   - Slots are exact, and the save_code_now queues have the type's limit too: the Python scheduler fills these queues
//     without a limit.
//   - Tasks with priority are taken in the order of their priority. Each priority_ageing of waiting counts as one priority more. The
//     Python scheduler takes them by date only.
//   - A lister's first visits are done when a query finds none left; the Python scheduler counts an origin that was visited
//     but never scheduled as scheduled. A lister without an instance name gets its own origins only; the Python scheduler
//     takes those of every instance of that name.
//
// Before a pass, the runner releases tasks of graphs (sql/graphs/drain.go) or marks them as never to run, a bounded
// number at a time. A database notification wakes the runner.
//
// A runner doesn't claim while 10,000 messages of any process are outgoing and due; messages of tasks with and
// without priority are counted separately. So an unavailable broker doesn't turn every ready task into a scheduled
// one.
//
// A type that fails doesn't stop the others. The pass reports all errors together at its end, and the next one
// retries.
package runner
