package db

import (
	"context"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/migrate"
)

// TasksAhead counts the ready tasks that a runner claims before the task, up to limit.
func (a ExplainStore) TasksAhead(ctx context.Context, task int64, now time.Time, ageing time.Duration, limit int) (int, error) {
	n, err := a.q.TasksAhead(ctx, queries.TasksAheadParams{Task: task, Now: now, Ageing: ledger.AgeingSeconds(ageing), MaxTasks: int32(limit)})
	return int(n), stmt.Failed(err, "count the tasks before task %d", task)
}

// WaitingMessage is an outgoing message. Ahead counts the messages sent before it, Attempts the broker's
// refusals; its last refusal has a reason.
type WaitingMessage = queries.WaitingMessagesRow

// WaitingMessageOf returns the outgoing message of a run, by Celery task id, or nil if there is none.
func (a ExplainStore) WaitingMessageOf(ctx context.Context, backendID string, now time.Time) (*WaitingMessage, error) {
	return a.waitingMessage(ctx, queries.WaitingMessagesParams{TaskID: backendID, Now: now})
}

// WaitingVisit returns the outgoing message for a visit of the origin by the loader taskName, or nil if
// there is none.
func (a ExplainStore) WaitingVisit(ctx context.Context, taskName, url string, now time.Time) (*WaitingMessage, error) {
	return a.waitingMessage(ctx, queries.WaitingMessagesParams{TaskName: taskName, URL: url, Now: now})
}

func (a ExplainStore) waitingMessage(ctx context.Context, p queries.WaitingMessagesParams) (*WaitingMessage, error) {
	rows, err := a.q.WaitingMessages(ctx, p)
	return stmt.First(rows, stmt.Failed(err, "find outgoing messages"))
}

// FailuresInARow returns the number of the origin's last visits in a row that failed or found nothing. It
// is 0 for origins without such a record.
func (a ExplainStore) FailuresInARow(ctx context.Context, key model.OriginKey) (int, error) {
	rows, err := a.q.VisitFailures(ctx, stmt.Columns[queries.VisitFailuresParams]([]model.OriginKey{key}))
	f, err := stmt.FirstOrZero(rows, stmt.Failed(err, "read the failures of %q", key.URL))
	return int(f.InARow), err
}

// LanePlace is the place of a message of a task type with lanes. Lanes count from 0; a sent message has
// lane names. TimedOut is the number of lanes on which it timed out. Since is the time of its sending or of
// its entry into the backlog; Ahead counts the messages before it there. Started and SoftLimit are in
// seconds.
type LanePlace = queries.LanePlacesRow

// LanePlaceOf returns the place of a run's work, by Celery task id, or nil if it is not on lanes.
func (a ExplainStore) LanePlaceOf(ctx context.Context, backendID string) (*LanePlace, error) {
	id, ok := model.ParseTaskID(backendID)
	if !ok {
		return nil, nil // not an id of this program
	}
	return a.lanePlace(ctx, queries.LanePlacesParams{TaskID: id})
}

// LanePlaceOfVisit returns the place of an origin's visit, or nil if it is not on lanes.
func (a ExplainStore) LanePlaceOfVisit(ctx context.Context, url, visitType string) (*LanePlace, error) {
	return a.lanePlace(ctx, queries.LanePlacesParams{URL: url, VisitType: visitType})
}

func (a ExplainStore) lanePlace(ctx context.Context, p queries.LanePlacesParams) (*LanePlace, error) {
	rows, err := a.q.LanePlaces(ctx, p)
	return stmt.First(rows, stmt.Failed(err, "find work on lanes"))
}

// InfiniteDate is a date of infinity or -infinity, which time.Time cannot represent.
type InfiniteDate struct{ What, Value string }

// InfiniteDates lists the infinite dates of the task and its runs, and of the origin with the URL, its
// visits and its listers.
func (s *Store) InfiniteDates(ctx context.Context, task int64, url string) ([]InfiniteDate, error) {
	// sqlc doesn't support column names for a list of values.
	dates, err := stmt.Rows[InfiniteDate](ctx, s.Pool(), `
select distinct what, date::text from (
	select 'task.next_run', t.next_run from task t where t.id = $1
	union all
	select 'task_run.' || c.name || ' of run ' || r.id, c.date
	from task_run r, lateral (values ('scheduled', r.scheduled), ('started', r.started), ('ended', r.ended)) c (name, date)
	where r.task = $1
	union all
	select 'listed_origins.' || c.name || ' for ' || o.visit_type, c.date
	from listed_origins o, lateral (values ('first_seen', o.first_seen), ('last_seen', o.last_seen), ('last_update', o.last_update)) c (name, date)
	where o.url = $2
	union all
	select 'listers.' || c.name || ' of ' || l.name, c.date
	from listed_origins o join listers l on l.id = o.lister_id, lateral (values ('created', l.created), ('updated', l.updated),
		('last_listing_finished_at', l.last_listing_finished_at), ('first_visits_scheduled_at', l.first_visits_scheduled_at)) c (name, date)
	where o.url = $2
	union all
	select 'origin_visit_stats.' || c.name || ' for ' || v.visit_type, c.date
	from origin_visit_stats v, lateral (values ('last_successful', v.last_successful), ('last_visit', v.last_visit), ('last_scheduled', v.last_scheduled)) c (name, date)
	where v.url = $2
) d (what, date)
where not isfinite(date)
order by what`, task, url)
	return dates, stmt.Failed(err, "find infinite dates")
}

// GroupOfTask returns the group of a task's arguments.
func (s *Store) GroupOfTask(ctx context.Context, task int64, by model.ShareKey) (group string, err error) {
	err = s.Pool().QueryRow(ctx, "select "+migrate.TaskGroup(by)+" from task where id = $1", task).Scan(&group)
	return group, stmt.Failed(err, "find the group of task %d", task)
}

// ConnectedPrograms counts the connections of one of our commands to the database, as far as the user's
// rights show them.
func (s *Store) ConnectedPrograms(ctx context.Context, command string) (n int, err error) {
	// sqlc doesn't have the view pg_stat_activity.
	err = s.Pool().QueryRow(ctx, `select count(*) from pg_stat_activity
		where datname = current_database() and application_name = $1`, "swh-scheduler "+command).Scan(&n)
	return n, stmt.Failed(err, "count connections")
}
