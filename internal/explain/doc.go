// Package explain says in words why a task or an origin has not been scheduled
// and when it will be.
//
// It is pure: whoever asks gathers the facts ([Task], [Origin]) and hands them
// over with the moment that is now. The rules are those of the programs that do
// the scheduling, told backwards: the statuses of a task as package sql moves them,
// the cooldowns and orders of visit policies (sql/visits.go), the free slots of
// queues (internal/dispatch).
//
// An explanation is what can be told, not a promise: others schedule and change
// things at the same time.
package explain
