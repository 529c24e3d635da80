// Package services starts private PostgreSQL, RabbitMQ and Kafka servers for
// tests and the demonstration, in Docker or as local processes.
//
// Private means: their own data, free loopback ports, nothing of a system-wide
// server touched. Durability is off (fsync), as the data is thrown away, and a lone local PostgreSQL
// keeps its data in memory where there is room, unless [DurableVar] is set.
//
// # Life and death
//
// Servers live no longer than the process that started them. Local ones are
// watched by a reaper, a small shell that reads a pipe whose other end only
// that process holds: when the pipe closes, by [Services.Stop] or because the
// process was killed, the reaper kills every server and removes the data.
// There is one way to stop, so the rare one is tried each time. Containers are
// removed by Stop; if the process is killed, Docker ends them after
// containerLife.
//
// A server that cannot be started, or dies while starting, stops the others;
// the error holds the end of its log, or the command that installs it.
package services
