package sql

import (
	"context"
	"fmt"
	"time"

	"swh-scheduler/sql/internal/queries"
)

// TasksAhead counts the ready tasks that a runner takes before a task, up to
// limit.
func (a asker) TasksAhead(ctx context.Context, task int64, now time.Time, limit int) (int, error) {
	n, err := a.q.TasksAhead(ctx, queries.TasksAheadParams{Task: task, Now: now, MaxTasks: int32(limit)})
	if err != nil {
		return 0, fmt.Errorf("count the tasks before task %d: %w", task, err)
	}
	return int(n), nil
}

// WaitingMessage is a message in the outbox.
type WaitingMessage struct {
	Queue    string
	Since    time.Time
	Ahead    int    // messages that are sent before it
	Attempts int32  // how often the broker refused it
	Reason   string // the last time
	Again    time.Time
}

// WaitingMessageOf is the message of a run, by Celery's id of it, if it is still
// in the outbox.
func (a asker) WaitingMessageOf(ctx context.Context, backendID string, now time.Time) (*WaitingMessage, error) {
	return a.waitingMessage(ctx, queries.WaitingMessagesParams{TaskID: backendID, Now: now})
}

// WaitingVisit is the message that sends an origin to the loader of a name, if it
// is still in the outbox.
func (a asker) WaitingVisit(ctx context.Context, taskName, url string, now time.Time) (*WaitingMessage, error) {
	return a.waitingMessage(ctx, queries.WaitingMessagesParams{TaskName: taskName, URL: url, Now: now})
}

func (a asker) waitingMessage(ctx context.Context, p queries.WaitingMessagesParams) (*WaitingMessage, error) {
	rows, err := a.q.WaitingMessages(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("look into the outbox: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	r := rows[0]
	return &WaitingMessage{Queue: r.Queue, Since: r.CreatedAt, Ahead: int(r.Ahead), Attempts: r.Attempts, Reason: r.Reason, Again: r.Again}, nil
}

// ConnectedPrograms counts the connections of one of our commands to the
// database, as far as this user may see them.
func (s *Store) ConnectedPrograms(ctx context.Context, command string) (n int, err error) {
	// Not with sqlc, which doesn't know the view.
	err = s.pool.QueryRow(ctx, `select count(*) from pg_stat_activity
		where datname = current_database() and application_name = $1`, "swh-scheduler "+command).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("look who is connected: %w", err)
	}
	return n, nil
}
