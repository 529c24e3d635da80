// Package db is the store: the rooms of the database (sql/tasks, sql/origins, sql/ledger, sql/graphs) on one
// connection or transaction, and what reads or writes several of them (search, explanations, metrics, actions,
// maintenance jobs).
//
// # Two schemas
//
// The schema public is that of the Python scheduler (swh.scheduler) at version 38
// ([migrate.PeerVersion]). The Python scheduler may work on the same database at the same time, so we write
// what it would write and change none of its objects. On an empty database [migrate.Run]
// creates them from the files in sql/base.
//
// Our additions are in the schema scheduler_go, created by the files in
// sql/migrations. [migrate.Remove] removes them. The Python scheduler reads and writes nothing there,
// but triggers on its tables note there what it changes (sql/origins/candidates.go, sql/graphs/drain.go).
//
// # Queries
//
// Queries are in sql/queries, one file per subject, and compiled by sqlc to sql/internal/queries
// ("make generate"). Methods convert their rows to the types of internal/model. The Python scheduler's tables are
// found by the search path; our names are always qualified.
//
// # Transactions and locks
//
// A method of Store is one transaction, unless it says otherwise. [Store.InTx] joins several methods of Tx,
// and so does [Store.ByKey], where tables may be larger than PostgreSQL knows.
// Read committed is enough: whoever changes a row on what it read has locked it first.
// Locks are taken in this order, so that our programs cannot deadlock:
//
//  1. the advisory lock of a queue ([Tx.LockQueues]), of hosters, of a visit type, of candidates,
//     of graphs
//  2. rows of task_run by id, then outgoing, sent and settled rows of work by task id
//  3. rows of task by id (claims and the drain of graphs skip locked ones), each before
//     its row of graph_tasks
//  4. rows of origin_visit_stats by URL and visit type, then rows of work in a backlog
//     (and, by the journal client, outgoing and sent ones, which it keeps from being requeued)
//  5. rows of listed_origins by lister, URL and visit type
//  6. outgoing rows of work, by deliveries, which skip locked ones
//
// Runs come before tasks because ending a run fires the trigger that moves its task on.
// The Python scheduler takes no advisory lock and locks rows in no fixed order: a deadlock with it
// is an ordinary error, which the caller retries.
//
// # Failures
//
// [Open] fails only for an unusable DSN. Any other error may be one of the connection, which the next call
// makes anew. [migrate.Checks.CheckVersion] reports whether the database is one this program can work with.
package db
