// Package sql is the scheduler's database: its schema, its migrations, and the
// Store, whose methods are the questions the programs ask of it.
//
// # What is the peer's, what is ours
//
// The tables, types and functions in the schema public are those of the Python
// swh.scheduler ("the peer") at its schema version 38 ([PeerVersion]). Its
// daemons, listers and RPC clients may work on the same database at the same
// time, so we write what it would write and change none of its objects. On an
// empty database [Migrate] makes them as the peer's own commands would (the
// files in base/).
//
// What we add lives in the schema scheduler_go, made by numbered migrations
// (the files in migrations/) and recorded in scheduler_go.migrations. It can be
// dropped again ([DropOwn]); the peer then finds its database as it left it.
// The peer reads and writes nothing there, but triggers on its tables note there
// what it changes (see candidates.go).
//
// # Queries
//
// Queries are named and commented in queries/, one file a concern, and compiled
// to Go by sqlc ("sqlc generate" in this directory; it needs no database). The
// methods in the file of the same name turn their rows into the domain types of
// internal/scheduler. Names of the peer's tables are found by the search path,
// as the peer's are; ours are always qualified.
//
// # Transactions
//
// A method of Store is one transaction. What must happen together is done in
// [Store.InTx] with the methods of Tx; read committed is enough everywhere,
// because whoever changes a row on what it read has locked it first. Locks are
// taken in one order, so that no two programs wait for each other:
//
//  1. the advisory lock of a queue ([Tx.LockQueue]), of a visit type, of candidates,
//     of graphs, in this order,
//  2. rows of task_run, by id, then those of lane_work that were sent,
//  3. rows of task, by id (a claim waits for none: it skips locked ones, and so does
//     the drain of graphs), each before its row of graph_tasks,
//  4. rows of origin_visit_stats, by URL and visit type, then those of lane_work that
//     wait (and, by the journal client, those that were sent, which it only keeps from
//     moving),
//  5. rows of listed_origins, by lister, URL and visit type,
//  6. rows of the outbox, by id (a delivery skips locked ones).
//
// Runs come before tasks because ending a run fires the trigger that moves its
// task on. The peer takes no advisory lock and locks rows in no certain order: a
// deadlock with one of its statements is an ordinary error that the caller tries
// again.
//
// # Failures
//
// [Open] fails only for a DSN that cannot be used. Every other error may be one
// of the connection; pgx opens a new one at the next call, so daemons log and
// try again. [Store.CheckVersion] tells whether the database is one that this
// program can work with at all. No error holds a password.
//
// # Poolers
//
// Behind PgBouncer in transaction mode, add default_query_exec_mode=exec to the
// DSN, so that no prepared statement is expected to outlive its transaction.
// Migrations need a direct connection: their lock belongs to the session.
//
// # Time
//
// Times are UTC, to the microsecond. Intervals become time.Duration as the peer's
// driver has it: a year is 365 days, a month 30, a day 24 hours.
package sql
