package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"swh-scheduler/internal/testenv/swh"
)

// taskRun is a run of a one-shot task.
type taskRun struct {
	Priority, Status string
	Ended            *time.Time
}

// open reports whether the run has not ended.
func (r taskRun) open() bool { return r.Status == "scheduled" || r.Status == "started" }

// evidence has all facts for the verdict. They come from repeated queries to the scheduler's database, which has only
// the last visit of each origin, from the storage, the broker and the workers' logs.
type evidence struct {
	Listed    int
	Waiting   int // number of messages that have not been sent
	Runs      []taskRun
	Known     map[string]swh.Known   // by URL
	Claims    map[string][]time.Time // by URL: the times of its schedulings
	Stored    map[string][]swh.Visit // by URL
	Latencies []time.Duration        // from a visit's claim to its result in the scheduler's database
	Queues    map[string]queue

	Asked      time.Time // when save code now was requested
	Faults     []fault   // the faults that happened
	Expected   int       // the number of faults that should have happened
	Origins    []origin
	Executions executions
	Refusals   []string         // log lines about missing rights
	Stopped    map[string]error // by daemon: its exit after a stop; nil if they were left running
}

// update records the changes since its last call. All times are by the clock of the scheduler's database.
func (e *evidence) update(ctx context.Context, scheduler *pgxpool.Pool, storage *pgx.Conn) error {
	known, err := swh.KnownVisits(ctx, scheduler)
	if err != nil {
		return err
	}
	var now time.Time
	rows, _ := scheduler.Query(ctx, `select coalesce(task.priority::text, ''), run.status::text, run.ended
		from task_run run join task on task.id = run.task`) // CollectRows returns the error
	runs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[taskRun])
	err = cmp.Or(err, scheduler.QueryRow(ctx, `select clock_timestamp(), (select count(*) from listed_origins),
		(select count(*) from scheduler_go.work where state in ('backlog', 'outgoing'))`).Scan(&now, &e.Listed, &e.Waiting))
	if err != nil {
		return err
	}
	for url, k := range known {
		if claims := e.Claims[url]; k.Scheduled != nil && (len(claims) == 0 || !claims[len(claims)-1].Equal(*k.Scheduled)) {
			e.Claims[url] = append(claims, *k.Scheduled)
		}
		before := e.Known[url].Visited
		if k.Scheduled != nil && k.Visited != nil && (before == nil || !before.Equal(*k.Visited)) {
			e.Latencies = append(e.Latencies, now.Sub(*k.Scheduled))
		}
	}
	e.Known, e.Runs = known, runs
	e.Stored, err = swh.Visits(ctx, storage)
	return err
}

func (e *evidence) open() bool { return slices.ContainsFunc(e.Runs, taskRun.open) }

func (e *evidence) differences() []string { return swh.Differences(e.Known, e.Stored) }

// saveRun returns the run of save code now, if it exists. It is the only run of a task with priority.
func (e *evidence) saveRun() (run taskRun) {
	for _, r := range e.Runs {
		if r.Priority != "" {
			run = r
		}
	}
	return run
}

// full returns the number of full visits of an origin.
func (e *evidence) full(url string) (n int) {
	for _, v := range e.Stored[url] {
		if v.Status == "full" {
			n++
		}
	}
	return n
}

// overtaken returns the waits, sorted, of the first visits that were claimed before the request of save code now and
// began after it was served.
func (e *evidence) overtaken() (waits []time.Duration) {
	var served time.Time
	for _, o := range e.Origins {
		if visits := e.Stored[o.URL]; o.Kind == wanted && len(visits) > 0 {
			served = visits[0].Date
		}
	}
	for _, o := range e.Origins {
		claims, visits := e.Claims[o.URL], e.Stored[o.URL]
		if o.Type == "git" && len(claims) > 0 && len(visits) > 0 && claims[0].Before(e.Asked) && visits[0].Date.After(served) {
			waits = append(waits, visits[0].Date.Sub(claims[0]))
		}
	}
	slices.Sort(waits)
	return waits
}

// shared returns figures at the time of the last claim of the small forge: the first visits of each forge claimed by
// then, and the number that the large forge had left.
func (e *evidence) shared() (ofLarge, ofSmall, left int) {
	first := map[string][]time.Time{}
	for _, o := range e.Origins {
		if claims := e.Claims[o.URL]; len(claims) > 0 && o.Kind != wanted {
			first[o.Forge] = append(first[o.Forge], claims[0])
		}
	}
	if len(first[small]) == 0 {
		return 0, 0, 0
	}
	until := slices.MaxFunc(first[small], time.Time.Compare)
	for _, at := range first[large] {
		if at.After(until) {
			left++
		}
	}
	return len(first[large]) - left, len(first[small]), left
}

// twice returns the number of repeated executions of tasks.
func (e *evidence) twice() (n int) {
	for _, ended := range e.Executions.Ended {
		n += len(ended) - 1
	}
	return n
}

// repeats returns since when messages may be delivered twice: since the first kill of a sending daemon or cut of
// connections to the broker; zero if neither happened.
func (e *evidence) repeats() time.Time {
	for _, f := range e.Faults {
		if f.Name == connections || slices.Contains(senders, f.Name) {
			return f.At
		}
	}
	return time.Time{}
}

// executions are the executions of tasks by the workers' logs.
type executions struct {
	Received int                    // messages
	Ended    map[string][]time.Time // by task id: the ends of its executions
	TimedOut int
}

// Lines of a Celery worker's log, in UTC.
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
