package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"swh-scheduler/sql/db"
)

var daemonsPage = Page{Path: "/daemons", Title: "Daemons", Menu: "Daemons", Template: "daemons.html", Fragments: []string{"daemons", "workers", "jobs"}, Data: daemonsOf}

type daemonsData struct {
	Daemons     []daemonData `json:"daemons"`      // at most maxRows; silent ones last
	Found       int          `json:"found"`        // number of daemons, at most maxDaemons
	Workers     []workerData `json:"workers"`      // known to any listener; at most maxRows, those with most failures first
	WorkerCount int          `json:"worker_count"` // number of workers
	Jobs        []jobData    `json:"jobs"`
}

type workerData struct {
	Name string `json:"name"`
	db.Worker
}

type daemonData struct {
	db.Daemon
	Silent bool       `json:"silent"` // last seen at least overdueAfter ago
	Away   []lasting  `json:"away"`   // services that it waits for
	Late   []lasting  `json:"late"`   // loops whose round is overdue
	Last   *time.Time `json:"last"`   // the last successful round of any loop
}

type lasting struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// jobData is the last run of a maintenance job.
type jobData struct {
	Job     string    `json:"job"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	Result  string    `json:"result"`
	Failed  bool      `json:"failed"`
}

// maxDaemons bounds the rows that are read: each restart of a daemon adds a row.
const maxDaemons = 1000

func daemonsOf(ctx context.Context, r *Request) (any, error) {
	rows, err := r.Reads.Daemons(ctx, maxDaemons)
	if err != nil {
		return nil, err
	}
	jobs, err := r.Reads.MaintenanceJobs(ctx)
	if err != nil {
		return nil, err
	}
	silent := func(d db.Daemon) bool { return isSilent(d, r.Now) }
	workers := workersOf(rows, r.Now)
	d := daemonsData{Daemons: []daemonData{}, Found: len(rows), Workers: workers[:min(len(workers), maxRows)], WorkerCount: len(workers), Jobs: []jobData{}}
	slices.SortFunc(rows, func(a, b db.Daemon) int {
		if silent(a) || silent(b) {
			return b.LastReport.Compare(a.LastReport)
		}
		return cmp.Or(strings.Compare(a.Name, b.Name), a.Started.Compare(b.Started))
	})
	for _, row := range rows[:min(len(rows), maxRows)] {
		row.State.Workers = nil // they are in Workers
		one := daemonData{Daemon: row, Silent: silent(row), Away: longest(row.State.Waiting), Late: longest(row.State.Overdue)}
		for _, at := range row.State.Last {
			if one.Last == nil || at.After(*one.Last) {
				one.Last = new(at)
			}
		}
		d.Daemons = append(d.Daemons, one)
	}
	for _, j := range jobs {
		d.Jobs = append(d.Jobs, jobData{j.Job, j.Began, j.Seconds, j.Result, j.Failed})
	}
	return d, nil
}

// isSilent reports whether a daemon, which updates its row once a minute, has not done so for overdueAfter.
func isSilent(d db.Daemon, now time.Time) bool { return now.Sub(d.LastReport) >= overdueAfter }

// workersOf adds up the reports of all listeners that aren't silent. Each listener receives a part of the workers'
// events.
func workersOf(daemons []db.Daemon, now time.Time) []workerData {
	known := make(map[string]db.Worker)
	for _, l := range daemons {
		if isSilent(l, now) {
			continue
		}
		for name, w := range l.State.Workers {
			all := known[name]
			if w.LastEvent.After(all.LastEvent) {
				all.LastEvent, all.Active = w.LastEvent, w.Active
			}
			all.Ended, all.Failed = all.Ended+w.Ended, all.Failed+w.Failed
			known[name] = all
		}
	}
	workers := []workerData{}
	for name, w := range known {
		workers = append(workers, workerData{name, w})
	}
	slices.SortFunc(workers, func(a, b workerData) int {
		return cmp.Or(cmp.Compare(b.Failed, a.Failed), strings.Compare(a.Name, b.Name))
	})
	return workers
}

// noticeable is the shortest delay that is shown: each round of a loop is a moment late.
const noticeable = 30 * time.Second

// longest returns the five longest noticeable delays, the longest first.
func longest(seconds map[string]float64) []lasting {
	all := []lasting{}
	for name, s := range seconds {
		if s >= noticeable.Seconds() {
			all = append(all, lasting{name, s})
		}
	}
	slices.SortFunc(all, func(a, b lasting) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), strings.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), 5)]
}
