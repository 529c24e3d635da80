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

	"swh-scheduler/internal/archive"
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
	Scheduled, Visited *time.Time
	Status             string // "" before a visit's result
	Snapshot           string
}

// taskRun is one of a one-shot task.
type taskRun struct {
	Priority, Status string
	Ended            *time.Time
}

const viewQuery = `select json_build_object('At', clock_timestamp(), 'Listed', (select count(*) from listed_origins),
	'Waiting', (select count(*) from scheduler_go.work where state in ('backlog', 'outgoing')),
	'Known', (select json_object_agg(url, json_build_object('Scheduled', last_scheduled, 'Visited', last_visit,
		'Status', last_visit_status, 'Snapshot', encode(last_snapshot, 'hex'))) from origin_visit_stats),
	'Runs', (select json_agg(json_build_object('Priority', task.priority, 'Status', run.status, 'Ended', run.ended) order by run.id)
		from task_run run join task on task.id = run.task))`

// evidence is all that the verdict is drawn from. It is put together from looks at the
// scheduler's database, which keeps only the last visit of each origin, from the storage, the
// broker and the workers' logs.
type evidence struct {
	view
	Claims    map[string][]time.Time     // by URL: each time it was scheduled
	Stored    map[string][]archive.Visit // by URL
	Latencies []time.Duration            // from a visit's claim to its result in the scheduler's database
	Queues    map[string]queue

	Asked      time.Time // when save code now was
	Faults     []fault   // that fell
	Expected   int       // faults that should have fallen
	Origins    []origin
	Executions executions
	Stopped    map[string]error // how our daemons ended when told to; nil if they were left running
}

// look notes what has changed since the look before.
func (e *evidence) look(ctx context.Context, scheduler *pgxpool.Pool, storage *pgx.Conn) error {
	var v view
	if err := scheduler.QueryRow(ctx, viewQuery).Scan(&v); err != nil {
		return fmt.Errorf("look at the scheduler's database: %w", err)
	}
	visits, err := archive.Visits(ctx, storage)
	if err != nil {
		return fmt.Errorf("look at the storage's database: %w", err)
	}
	e.Stored = map[string][]archive.Visit{}
	for _, visit := range visits {
		e.Stored[visit.Origin] = append(e.Stored[visit.Origin], visit)
	}
	for url, k := range v.Known {
		if claims := e.Claims[url]; k.Scheduled != nil && (len(claims) == 0 || !claims[len(claims)-1].Equal(*k.Scheduled)) {
			e.Claims[url] = append(claims, *k.Scheduled)
		}
		before := e.Known[url].Visited
		if k.Scheduled != nil && k.Visited != nil && (before == nil || !before.Equal(*k.Visited)) {
			e.Latencies = append(e.Latencies, v.At.Sub(*k.Scheduled))
		}
	}
	e.view = v
	return nil
}

// open reports whether a run of a task is.
func (e *evidence) open() bool {
	return slices.ContainsFunc(e.Runs, func(r taskRun) bool { return r.Status == "scheduled" || r.Status == "started" })
}

// saveRun returns the run of save code now, if it has one: the only run of a task with a
// priority.
func (e *evidence) saveRun() (run taskRun) {
	for _, r := range e.Runs {
		if r.Priority != "" {
			run = r
		}
	}
	return run
}

// differences names the origins of which the scheduler knows something else than the
// storage has.
func (e *evidence) differences() (differences []string) {
	for url, visits := range e.Stored {
		v, k := visits[len(visits)-1], e.Known[url]
		status := map[string]string{"full": "successful"}[v.Status]
		if k.Status != cmp.Or(status, v.Status) || v.Status == "full" && k.Snapshot != v.Snapshot {
			differences = append(differences, fmt.Sprintf("%s: stored is %s %.8s, known %s %.8s", url, v.Status, v.Snapshot, k.Status, k.Snapshot))
		}
	}
	for url, k := range e.Known {
		if k.Status != "" && e.Stored[url] == nil {
			differences = append(differences, fmt.Sprintf("%s: known %s, nothing stored", url, k.Status))
		}
	}
	return differences
}

// full counts the visits of an origin that archived all of it.
func (e *evidence) full(url string) (n int) {
	for _, v := range e.Stored[url] {
		if v.Status == "full" {
			n++
		}
	}
	return n
}

// overtaken returns how long each first visit waited that was claimed before save code now was
// asked for, and began after it was served, in increasing order.
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

// shared returns how many first visits of each forge were claimed until all of the small one
// were, and how many the large one had left then.
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

// twice returns how often tasks were run that had been run before.
func (e *evidence) twice() (n int) {
	for _, ended := range e.Executions.Ended {
		n += len(ended) - 1
	}
	return n
}

// repeats returns from when messages may come twice: since a daemon was killed that sends, with
// some in its hands, or connections to the broker were cut; zero if neither was.
func (e *evidence) repeats() time.Time {
	for _, f := range e.Faults {
		if f.Name == connections || slices.Contains(senders, f.Name) {
			return f.At
		}
	}
	return time.Time{}
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
