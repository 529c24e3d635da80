// Package throwaway starts private PostgreSQL, RabbitMQ and Kafka servers for
// tests and the demonstration, in Docker or as local processes.
//
// Private means that they have their own data and free loopback ports, and don't touch system-wide servers.
// Durability is off (fsync), as the data is thrown away. A single local PostgreSQL keeps its data in memory if there
// is room. [DurableVar] changes both.
//
// # Lifetime
//
// Servers don't outlive the process that started them. A reaper watches local ones: a small shell script that reads
// from a pipe whose other end only that process holds. The pipe is closed by [Services.Stop], or by the kernel when
// the process is killed. Then the reaper kills all servers and removes their data. Both cases take the same path, so
// that each test run tests the rare one. Stop removes containers; if the process is killed, Docker ends them after
// containerLife.
//
// If a server can't be started, or dies while starting, the others are stopped, too.
// The error has the end of the server's log, or the command that installs the server.
package throwaway
