package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// observation is what the database holds at one moment. All times are the
// database's own, so that they can be compared with those it stores.
type observation struct {
	At     time.Time
	Listed int
	Visits []visitRow
	Runs   []runRow
	Outbox int // messages claimed and not yet confirmed by the broker
}

// visitRow is what is known of an origin's visits.
type visitRow struct {
	URL           string
	LastScheduled *time.Time
	LastVisit     *time.Time
	Status        string
	Snapshot      []byte
}

// runRow is a run of a one-shot task.
type runRow struct {
	ID        string // Celery's task id
	Type      string
	Priority  string
	Scheduled *time.Time
	Started   *time.Time
	Ended     *time.Time
	Status    string
}

func (r runRow) open() bool { return r.Status == "scheduled" || r.Status == "started" }

// observe reads the database.
func observe(ctx context.Context, db *pgx.Conn) (observation, error) {
	var o observation
	var batch pgx.Batch
	batch.Queue("select clock_timestamp(), (select count(*) from listed_origins), (select count(*) from scheduler_go.work where state = 'outgoing')").
		QueryRow(func(row pgx.Row) error { return row.Scan(&o.At, &o.Listed, &o.Outbox) })
	batch.Queue(`select url, last_scheduled, last_visit, coalesce(last_visit_status::text, ''), last_snapshot
		from origin_visit_stats`).Query(func(rows pgx.Rows) (err error) {
		o.Visits, err = pgx.CollectRows(rows, pgx.RowToStructByPos[visitRow])
		return err
	})
	batch.Queue(`select run.backend_id, task.type, coalesce(task.priority::text, ''), run.scheduled, run.started, run.ended, run.status::text
		from task_run run join task on task.id = run.task order by run.id`).Query(func(rows pgx.Rows) (err error) {
		o.Runs, err = pgx.CollectRows(rows, pgx.RowToStructByPos[runRow])
		return err
	})
	if err := db.SendBatch(ctx, &batch).Close(); err != nil {
		return o, fmt.Errorf("observe the database: %w", err)
	}
	return o, nil
}
