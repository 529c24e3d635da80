// Package explain explains why a task or an origin has not been scheduled, and when it will be.
//
// [Gatherer] reads the facts ([Task], [Origin]); all else is pure. The rules are those of the schedulers: the
// statuses of tasks (sql/db), the cooldowns and orders of visit policies (sql/origins/grab.go), the free slots of
// queues (internal/dispatch). The dates of an explanation are estimates, as other processes schedule and change rows
// at the same time.
package explain
