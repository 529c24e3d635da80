package db

import (
	"context"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/stmt"
)

// This file doesn't use sqlc, which types a nullable case expression as not null.

// FoundRun is a run of a task. Infinite dates are nil.
type FoundRun struct {
	Task      int64           `json:"task"`
	ID        int64           `json:"id"`
	BackendID string          `json:"backend_id"`
	Status    model.RunStatus `json:"status"`
	Scheduled *time.Time      `json:"scheduled"`
	Started   *time.Time      `json:"started"`
	Ended     *time.Time      `json:"ended"`
	Metadata  string          `json:"metadata"` // the first 1,000 characters of the JSON text
}

// LastRuns returns up to limit last runs of each task, the newest first.
func (s SearchStore) LastRuns(ctx context.Context, limit int, tasks ...int64) ([]FoundRun, error) {
	runs, err := stmt.Rows[FoundRun](ctx, s.db.Pool(), `
select r.task, r.id, coalesce(r.backend_id, ''), r.status, case when isfinite(r.scheduled) then r.scheduled end, case when isfinite(r.started) then r.started end,
       case when isfinite(r.ended) then r.ended end, coalesce(left(r.metadata::text, 1000), '')
from unnest($2::bigint[]) t (id)
cross join lateral (select * from task_run where task = t.id order by id desc limit $1) r
order by r.id desc`, limit, tasks)
	return runs, stmt.Failed(err, "read the runs of tasks %d", tasks)
}

// TaskText returns a task's arguments as indented JSON, at most 20,000 characters, or "" if there is no
// such task.
func (s SearchStore) TaskText(ctx context.Context, task int64) (string, error) {
	texts, err := stmt.Column[string](ctx, s.db.Pool(), "select left(jsonb_pretty(arguments), 20000) from task where id = $1", task)
	text, err := stmt.FirstOrZero(texts, err)
	return text, stmt.Failed(err, "read the arguments of task %d", task)
}

// AsideTask is a task that is set aside.
type AsideTask struct {
	Task   int64     `json:"task"`
	Type   string    `json:"type"` // "" for a deleted task
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"` // a retry follows then, even without a change
}

// AsideOrigin is an origin that is set aside.
type AsideOrigin struct {
	URL          string    `json:"url"`
	VisitType    string    `json:"visit_type"`
	ListerID     uuid.UUID `json:"lister_id"`
	Lister       string    `json:"lister"`
	InstanceName string    `json:"instance_name"`
	Reason       string    `json:"reason"`
	Since        time.Time `json:"since"`
	Until        time.Time `json:"until"`
}

// AsideEvent is a worker's event that is set aside.
type AsideEvent struct {
	Received  time.Time `json:"received"`
	BackendID string    `json:"backend_id"`
	Task      int64     `json:"task"` // 0: unknown
	Event     string    `json:"event"`
	Reason    string    `json:"reason"`
}

// AsideRecord is a journal record that is set aside.
type AsideRecord struct {
	Rejected  time.Time `json:"rejected"`
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Kind      string    `json:"kind"`
	Detail    string    `json:"detail"`
}

// Aside lists what is set aside: the first tasks and origins, the newest events and records.
type Aside struct {
	Tasks   []AsideTask   `json:"tasks"`
	Origins []AsideOrigin `json:"origins"`
	Events  []AsideEvent  `json:"events"`
	Records []AsideRecord `json:"records"`
}

// SetAsides returns up to limit set-aside rows of each kind.
func (s SearchStore) SetAsides(ctx context.Context, limit int) (a Aside, err error) {
	defer func() { err = stmt.Failed(err, "list what is set aside") }()
	if a.Tasks, err = stmt.Rows[AsideTask](ctx, s.db.Pool(), `
select s.task, coalesce(t.type, ''), s.reason, s.since, s.until
from scheduler_go.set_aside_tasks s left join task t on t.id = s.task order by s.task limit $1`, limit); err != nil {
		return a, err
	}
	if a.Origins, err = stmt.Rows[AsideOrigin](ctx, s.db.Pool(), `
select s.url, s.visit_type, s.lister_id, coalesce(l.name, ''), coalesce(l.instance_name, ''), s.reason, s.since, s.until
from scheduler_go.set_aside_origins s left join listers l on l.id = s.lister_id order by s.lister_id, s.url, s.visit_type limit $1`, limit); err != nil {
		return a, err
	}
	if a.Events, err = stmt.Rows[AsideEvent](ctx, s.db.Pool(), `
select e.received, e.backend_id, coalesce((select r.task from task_run r where r.backend_id = e.backend_id limit 1), 0), left(e.event, 500),
       concat_ws(' ', e.reason, '(SQLSTATE ' || nullif(e.sqlstate, '') || ')')
from (select * from scheduler_go.rejected_events order by id desc limit $1) e order by e.id desc`, limit); err != nil {
		return a, err
	}
	a.Records, err = stmt.Rows[AsideRecord](ctx, s.db.Pool(), `
select rejected_at, topic, partition, record_offset, kind, left(detail, 500) from scheduler_go.rejected_records order by id desc limit $1`, limit)
	return a, err
}
