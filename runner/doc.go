// Package runner turns ready tasks into messages: the daemon start-runner, for tasks
// without priority and, with --with-priority, for those with one (save code now).
// FirstVisits does the same for the first visits of newly listed origins: the daemon
// start-runner-first-visits.
//
// A pass asks the database which task types have something ready, and claims of each as
// many tasks as its queue has free slots (package dispatch). Passes follow each other
// until one claims nothing; then the daemon waits for its period, and a one-shot run ends.
//
// # The Python scheduler's rules kept here
//
//   - A type's tasks go to the queue of its backend name, or to "celery" if that
//     name doesn't begin with "swh.", unless the configuration routes them; tasks of
//     any priority go to save_code_now:<backend name>.
//   - A queue is refilled only when more than a fifth of it is free.
//   - At most 2,000 tasks a claim (the Python scheduler: 10,000); the next claim follows at once.
//   - First visits have no cooldowns, and a lister that is done is marked as changed
//     (updated), so that a stale copy of it can't undo the mark.
//
// # Where it differs
//
//   - Slots are exact, and the save_code_now queues have the type's limit too:
//     the Python scheduler fills those without looking.
//   - Tasks with priority are taken high first, and count as one priority higher for each
//     priority_ageing that they wait; the Python scheduler takes them by date only.
//   - A lister's first visits are done when a query says that none is left; the
//     Python scheduler counts an origin that was visited but never scheduled as scheduled.
//     A lister without an instance name gets its own origins only; the Python scheduler takes
//     those of every instance of that name.
//
// Before a pass, tasks of graphs (sql/graphs/drain.go) are released or marked as never to
// run, a bounded number at a time; a database notification wakes the runner.
//
// A runner doesn't claim while 10,000 messages of any process are outgoing and due: those of tasks with priority, or
// the others. So a broker that is away doesn't turn every ready task into a scheduled one.
//
// A type that fails doesn't stop the others; the pass reports all errors together at its
// end, and the next one retries.
package runner
