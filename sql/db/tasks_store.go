package db

import (
	"context"

	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/postgres"
)

// TasksQueries are statements on task types, tasks and runs, in a transaction or not.
type TasksQueries struct {
	q     *queries.Queries
	route func(task string) string // the queue of a task type's tasks by their Celery name; nil leaves it to model.TaskType
}

// A TasksStore runs its own transactions.
type TasksStore struct {
	TasksQueries
	db *postgres.DB
}

// A TasksTx is a transaction with what is done to tasks in it.
type TasksTx struct {
	*postgres.Tx
	TasksQueries
}

// NewTasks returns the store of a database. route may be nil.
func NewTasks(db *postgres.DB, route func(task string) string) TasksStore {
	return TasksStore{TasksQueries{postgres.QueriesOf(db), route}, db}
}

// On returns what is done to tasks in a transaction.
func (s TasksStore) On(tx *postgres.Tx) TasksTx { return TasksTx{tx, TasksQueries{tx.Q, s.route}} }

func (s TasksStore) inTx(ctx context.Context, begin postgres.Beginning, do func(context.Context, *TasksTx) error) error {
	return s.db.Transact(ctx, begin, func(ctx context.Context, tx *postgres.Tx) error {
		on := s.On(tx)
		return do(ctx, &on)
	})
}
