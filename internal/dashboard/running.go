package dashboard

import (
	"cmp"
	"context"
	"slices"
	"time"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
)

var runningPage = Page{Path: "/running", Title: "Running now", Menu: "Running", Template: "running.html", Query: []string{"type"}, Fragments: []string{"running"}, Data: showRunning}

type runningData struct {
	Type    string      `json:"type"` // "": all types
	Running []running   `json:"running"`
	Types   []typeRuns  `json:"types"` // numbers of running runs by type
	Part    part        `json:"read"`  // when durations were read
	Actions []operation `json:"-"`
}

type typeRuns struct {
	Type string `json:"type"`
	Runs int64  `json:"runs"`
}

// running is a run or a visit in progress.
type running struct {
	Type      string    `json:"type"`      // task type; "": unknown
	Task      int64     `json:"task"`      // 0: a visit
	Arguments string    `json:"arguments"` // of a task
	URL       string    `json:"url"`       // of a visit
	Queue     string    `json:"queue"`     // of a visit
	Worker    string    `json:"worker"`    // of a task
	ID        string    `json:"celery_id"`
	Started   time.Time `json:"started"`
	Seconds   float64   `json:"seconds"`
	P95       *float64  `json:"p95"` // of its type in the last 30 days; nil if unknown
}

// Slow reports whether it has taken longer than 95 % of its type's runs.
func (r running) Slow() bool { return r.P95 != nil && r.Seconds > *r.P95 }

func showRunning(ctx context.Context, r *Request) (any, error) {
	d := runningData{Type: r.Word("type"), Types: []typeRuns{}}
	for _, o := range taskOperations {
		if o.Word == "revoke" || o.Word == "revoke terminate" {
			d.Actions = append(d.Actions, o)
		}
	}
	counts, err := r.Reads.RunningByType(ctx)
	if err != nil {
		return nil, err
	}
	for taskType, runs := range counts {
		d.Types = append(d.Types, typeRuns{taskType, runs})
	}
	slices.SortFunc(d.Types, func(a, b typeRuns) int { return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Type, b.Type)) })
	d.Types = d.Types[:min(len(d.Types), maxRows)]
	d.Running, d.Part, err = r.running(ctx, d.Type, maxRows)
	return d, err
}

// running returns what runs of a task type, or of all types if it is "". The oldest is first.
func (r *Request) running(ctx context.Context, taskType string, limit int) ([]running, part, error) {
	types, err := r.Reads.TaskTypes(ctx)
	if err != nil {
		return nil, part{}, err
	}
	name, byName := "", map[string]string{}
	for _, t := range types {
		if byName[t.BackendName] = t.Type; t.Type == taskType {
			name = t.BackendName
		}
	}
	runs, visits, err := r.Reads.Running(ctx, taskType, cmp.Or(name, taskType), limit)
	if err != nil {
		return nil, part{}, err
	}
	took, read := r.now.took.part(ctx, r.Dashboard)
	all := []running{}
	add := func(one running) {
		one.Seconds = max(0, r.Now.Sub(one.Started).Seconds())
		if s := took[one.Type]; s.Weight() > 0 {
			one.P95 = new(s.Quantile(0.95))
		}
		all = append(all, one)
	}
	for _, run := range runs {
		add(running{Type: run.Type, Task: run.Task, Arguments: run.Arguments, Worker: run.Worker, ID: run.BackendID, Started: run.Started})
	}
	for _, v := range visits {
		add(running{Type: byName[v.TaskName], URL: v.URL, Queue: v.Queue, ID: v.TaskID.String(), Started: v.Started})
	}
	slices.SortStableFunc(all, func(a, b running) int { return a.Started.Compare(b.Started) })
	return all[:min(len(all), limit)], read, nil
}

// readTook reads the durations of each task type in the last 30 days.
func (d *Dashboard) readTook(ctx context.Context) (map[string]lanes.Sketch, error) {
	return d.Reads.Took(ctx, ledger.EndedByWorker, d.Reads.Now().Add(-30*24*time.Hour), string(model.RunEventful), string(model.RunUneventful))
}
