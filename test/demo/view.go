package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// view is what the scheduler's database holds at one moment. All times are its own.
type view struct {
	At      time.Time
	Listed  int
	Waiting int              // messages that are not sent yet
	Known   map[string]known // by URL
	Runs    []taskRun
}

// known is what the scheduler knows of an origin's visits.
type known struct {
	URL       string
	Scheduled *time.Time
	Visited   *time.Time
	Status    string // "" before a visit's result
	Snapshot  string
}

// taskRun is one of a one-shot task.
type taskRun struct {
	Type, Priority, Status string
	Ended                  *time.Time
}

func (r taskRun) open() bool { return r.Status == "scheduled" || r.Status == "started" }

func look(ctx context.Context, db *pgxpool.Pool) (view, error) {
	v := view{Known: map[string]known{}}
	var batch pgx.Batch
	batch.Queue(`select clock_timestamp(), (select count(*) from listed_origins),
			(select count(*) from scheduler_go.work where state in ('backlog', 'outgoing'))`).
		QueryRow(func(row pgx.Row) error { return row.Scan(&v.At, &v.Listed, &v.Waiting) })
	batch.Queue(`select url, last_scheduled, last_visit, coalesce(last_visit_status::text, ''), coalesce(encode(last_snapshot, 'hex'), '')
		from origin_visit_stats`).Query(func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[known])
		for _, k := range all {
			v.Known[k.URL] = k
		}
		return err
	})
	batch.Queue(`select task.type, coalesce(task.priority::text, ''), run.status::text, run.ended
		from task_run run join task on task.id = run.task order by run.id`).Query(func(rows pgx.Rows) (err error) {
		v.Runs, err = pgx.CollectRows(rows, pgx.RowToStructByPos[taskRun])
		return err
	})
	if err := db.SendBatch(ctx, &batch).Close(); err != nil {
		return v, fmt.Errorf("look at the scheduler's database: %w", err)
	}
	return v, nil
}

// executions are what the workers' logs say of tasks, by their ids.
type executions struct {
	Received int                    // messages
	Ended    map[string][]time.Time // more than one: it was run twice
	TimedOut int
}

// The log of a Celery worker, in UTC.
var (
	received = regexp.MustCompile(`(?m)^\[[^]]*\] Task \S+\[\S+\] received`)
	ended    = regexp.MustCompile(`(?m)^\[(\S+ \S+): [^]]*\] Task \S+\[(\S+)\] (?:succeeded|raised)`)
	timedOut = regexp.MustCompile(`(?m)^\[[^]]*\] Soft time limit \(\S+\) exceeded for `)
)

func readExecutions(dir string) (executions, error) {
	x := executions{Ended: map[string][]time.Time{}}
	logs, err := filepath.Glob(filepath.Join(dir, "worker-*.log"))
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return x, err
		}
		x.Received += len(received.FindAll(text, -1))
		x.TimedOut += len(timedOut.FindAll(text, -1))
		for _, m := range ended.FindAllStringSubmatch(string(text), -1) {
			at, err := time.Parse("2006-01-02 15:04:05,000", m[1])
			if err != nil {
				return x, fmt.Errorf("%s: %w", log, err)
			}
			x.Ended[m[2]] = append(x.Ended[m[2]], at)
		}
	}
	return x, err
}
