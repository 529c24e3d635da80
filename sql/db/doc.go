// Package db is the store. It joins the rooms of the database (sql/tasks, sql/origins, sql/ledger,
// sql/graphs) on one connection or transaction. It also holds the statements over several rooms: search,
// explanations, metrics, actions, maintenance jobs.
//
// # Two schemas
//
// The schema public is that of the Python scheduler (swh.scheduler) at version 38 ([migrate.PythonSchemaVersion]).
// The Python scheduler may use the same database at the same time. So this program writes the same rows
// there, and doesn't change the Python scheduler's objects. On an empty database [migrate.Run] creates
// these objects from the files in sql/base.
//
// The schema scheduler_go holds our additions; the files in sql/migrations create it and [migrate.Remove]
// drops it. The Python scheduler doesn't use this schema. Triggers on the Python scheduler's tables record
// its changes there (sql/origins/candidates.go, sql/graphs/drain.go).
//
// # Queries
//
// Queries are in sql/queries, one file per subject; sqlc compiles them to sql/internal/queries ("make
// generate"). Methods convert rows to the types of internal/model. Queries find the Python scheduler's
// tables by the search path, and qualify our names.
//
// # Transactions and locks
//
// A method of Store is one transaction, unless it says otherwise. [Store.InTx] joins several methods of Tx;
// [Store.ByKey] does so where tables may be larger than PostgreSQL's statistics say. Read committed is
// enough: a transaction locks the rows that its changes depend on before it reads them. Transactions take
// locks in this order, so our programs cannot deadlock:
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
//  7. the advisory lock of hosters' first refusals, then rows of refusing_hosters by hoster
//
// Runs come before tasks because ending a run fires the trigger that moves its task on.
// There is one exception: the journal client inserts rows of origin_visit_stats after it has locked known ones, so
// that a claim of an origin without a row may deadlock with it.
// The Python scheduler takes no advisory lock and locks rows in no fixed order. A deadlock
// is an ordinary error, which the caller retries.
//
// # Failures
//
// [Open] fails only for an unusable DSN. Any other error may be a lost connection; the next call makes a
// new one. [migrate.Checks.CheckVersion] reports whether this program can work with the database.
package db
