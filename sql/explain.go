package sql

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

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

// LanePlace is where a piece of work of a task type with lanes is.
type LanePlace struct {
	Line     string // the key of the lanes in the configuration
	Number   int    // of the lane, from 0
	Lane     string // its name when it was sent
	Queue    string // to which it was sent
	Sent     bool   // or it waits in the lane's line
	Ahead    int    // in the line before it
	TimedOut int    // in how many lanes its time was over
	Claimed  time.Time
	Since    time.Time // when it was sent, or came into the line
	Started  *time.Time
	Limit    time.Duration // soft limit of what was sent
}

// LanePlaceOf is where the work of a run is, by Celery's id of it, if it is on lanes.
func (a asker) LanePlaceOf(ctx context.Context, backendID string) (*LanePlace, error) {
	id, err := uuid.Parse(backendID)
	if err != nil {
		return nil, nil // none of ours
	}
	return a.lanePlace(ctx, queries.LanePlacesParams{TaskID: id})
}

// LanePlaceOfVisit is where the visit of an origin is, if it is on lanes.
func (a asker) LanePlaceOfVisit(ctx context.Context, url, visitType string) (*LanePlace, error) {
	return a.lanePlace(ctx, queries.LanePlacesParams{URL: url, VisitType: visitType})
}

func (a asker) lanePlace(ctx context.Context, p queries.LanePlacesParams) (*LanePlace, error) {
	rows, err := a.q.LanePlaces(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("look into the lanes: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	r := rows[0]
	place := &LanePlace{
		Line: r.Line, Number: int(r.Lane), Lane: r.LaneName, Queue: r.Queue, Sent: r.Sent, Ahead: int(r.Ahead), TimedOut: int(r.TimedOut),
		Claimed: r.Claimed, Since: r.Since, Limit: time.Duration(r.SoftLimit * float64(time.Second)),
	}
	if r.Started != nil {
		place.Started = new(time.UnixMicro(int64(*r.Started * 1e6)).UTC())
	}
	return place, nil
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
