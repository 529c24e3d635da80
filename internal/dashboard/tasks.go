package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"swh-scheduler/internal/explain"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/taskinput"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/graphs"
)

var (
	tasksPage = Page{
		Path: "/tasks", Title: "Tasks", Menu: "Tasks", Template: "tasks.html", Data: showTasks,
		Query: []string{"id", "type", "status", "priority", "policy", "graph", "exception", "after", "before", "argument", "containing", "below"},
	}
	taskPage = Page{Path: "/tasks/{id}", Template: "task.html", Fragments: []string{"state", "runs"}, Data: task}
)

const (
	listed     = 50 // rows on a page
	runsListed = 20

	// explainTime is the time limit of an explanation, the slowest part of a page.
	explainTime    = 3 * time.Second
	explainDeepest = 200 // origins of a policy that are searched; the command searches 10,000
)

// These are the allowed values of a task's fields.
var (
	taskStatuses   = []model.TaskStatus{model.TaskNotScheduled, model.TaskScheduled, model.TaskCompleted, model.TaskDisabled}
	taskPriorities = []model.TaskPriority{model.PriorityHigh, model.PriorityNormal, model.PriorityLow}
	taskPolicies   = []model.TaskPolicy{model.Oneshot, model.Recurring}
)

type tasksData struct {
	Form    url.Values    `json:"-"` // the query
	Types   []string      `json:"-"`
	Filter  db.TaskSearch `json:"filter"`
	Query   template.URL  `json:"-"` // of the filter, for actions and the next page
	Found   db.Found      `json:"found"`
	Last    lastRuns      `json:"last_runs"` // by task, without tasks that were never sent
	Actions []operation   `json:"-"`
}

// lastRuns are the last runs of tasks, by task.
type lastRuns map[int64]lastRun

// lastRun is the last run of a task.
type lastRun struct {
	db.FoundRun
	Took  *float64 `json:"took"`  // seconds; nil: it runs, or its start is unknown
	Error string   `json:"error"` // the last line, if it failed and a worker reported one
}

// lastRunsOf reads the last runs of tasks.
func (r *Request) lastRunsOf(ctx context.Context, found []db.FoundTask) (lastRuns, error) {
	ids := make([]int64, len(found))
	for i, t := range found {
		ids[i] = t.ID
	}
	runs, err := r.Reads.LastRuns(ctx, 1, ids...)
	last := lastRuns{}
	for _, run := range runs {
		one := lastRun{FoundRun: run}
		if run.Started != nil && run.Ended != nil {
			one.Took = new(max(0, run.Ended.Sub(*run.Started).Seconds()))
		}
		var metadata struct{ Error string }
		if run.Status.Failed() && json.Unmarshal([]byte(run.Metadata), &metadata) == nil {
			lines := strings.Split(strings.TrimSpace(metadata.Error), "\n")
			one.Error = lines[len(lines)-1]
		}
		last[run.Task] = one
	}
	return last, err
}

// preset is a common search.
type preset struct{ Name, Path string }

// Presets returns common searches within the searched type, or within all types.
func (d tasksData) Presets() []preset {
	with := func(words ...any) string {
		if t := d.Form.Get("type"); t != "" {
			words = append(words, "type", t)
		}
		return address("/tasks", words...)
	}
	return []preset{
		{"waiting", with("status", model.TaskNotScheduled)}, {"sent or running", with("status", model.TaskScheduled)},
		{"completed", with("status", model.TaskCompleted)}, {"failed or disabled", with("status", model.TaskDisabled)},
	}
}

func (tasksData) Statuses() []model.TaskStatus     { return taskStatuses }
func (tasksData) Priorities() []model.TaskPriority { return taskPriorities }
func (tasksData) Policies() []model.TaskPolicy     { return taskPolicies }

// More reports whether a condition is set that the form hides at first.
func (d tasksData) More() bool {
	return slices.ContainsFunc([]string{"priority", "policy", "after", "before", "id", "graph"}, func(name string) bool { return d.Form.Get(name) != "" })
}

func showTasks(ctx context.Context, r *Request) (any, error) {
	query := r.URL.Query()
	filter, err := taskFilter(query)
	if err != nil {
		return nil, err
	}
	below, err := wholeNumber(query, "below")
	if err != nil {
		return nil, err
	}
	types, err := r.Reads.TaskTypes(ctx)
	if err != nil {
		return nil, err
	}
	query.Del("below")
	d := tasksData{Form: query, Filter: filter, Query: template.URL(query.Encode()), Actions: taskOperations}
	for _, t := range types {
		d.Types = append(d.Types, t.Type)
	}
	if d.Found, err = r.Reads.FindTasks(ctx, filter, below, listed); errors.Is(err, db.ErrSearchTooLong) {
		err = Errorf(http.StatusServiceUnavailable, "%s.", db.ErrSearchTooLong)
	}
	if err != nil {
		return nil, err
	}
	d.Last, err = r.lastRunsOf(ctx, d.Found.Tasks)
	return d, err
}

// taskFilter reads the filter of a query.
func taskFilter(query url.Values) (f db.TaskSearch, err error) {
	refuse := func(name, should string) error { return refuseWord(query, name, should) }
	for _, word := range strings.FieldsFunc(query.Get("id"), func(r rune) bool { return r == ',' || r == ' ' }) {
		id, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return f, refuse("id", "numbers of tasks")
		}
		f.IDs = append(f.IDs, id)
	}
	if len(f.IDs) == 0 && strings.TrimSpace(query.Get("id")) != "" { // without it, all tasks would match
		return f, refuse("id", "numbers of tasks")
	}
	if t := query.Get("type"); t != "" {
		f.Types = []string{t}
	}
	if exception := query.Get("exception"); exception != "" {
		if f.Exception = new(strings.TrimPrefix(exception, noException)); len(f.Types) == 0 {
			return f, refuse("exception", "together with a type")
		}
	}
	if s := model.TaskStatus(query.Get("status")); s != "" {
		if f.Statuses = []model.TaskStatus{s}; !slices.Contains(taskStatuses, s) {
			return f, refuse("status", "next_run_not_scheduled, next_run_scheduled, completed or disabled")
		}
	}
	if p := model.TaskPriority(query.Get("priority")); p != "" {
		if f.Priorities = []model.TaskPriority{p}; !slices.Contains(taskPriorities, p) {
			return f, refuse("priority", "high, normal or low")
		}
	}
	if f.Policy = model.TaskPolicy(query.Get("policy")); f.Policy != "" && !slices.Contains(taskPolicies, f.Policy) {
		return f, refuse("policy", "oneshot or recurring")
	}
	if f.Graph, err = wholeNumber(query, "graph"); err != nil {
		return f, err
	}
	if f.Graph == 0 && query.Get("graph") != "" { // without it, all tasks would match
		return f, refuse("graph", "the number of a graph")
	}
	if f.After, err = dateOf(query, "after"); err != nil {
		return f, err
	}
	if f.Before, err = dateOf(query, "before"); err != nil {
		return f, err
	}
	if words := strings.Fields(query.Get("argument")); len(words) > 0 {
		a, err := taskinput.ParseArguments(words)
		if err != nil {
			return f, refuse("argument", "arguments such as url=https://example.org/")
		}
		f.Arguments = json.RawMessage(fmt.Sprintf(`{"args":%s,"kwargs":%s}`, a.Args, a.Kwargs))
		f.Containing = query.Get("containing") != ""
	}
	return f, nil
}

// refuseWord returns the error for an invalid parameter of a query. should is the allowed form.
func refuseWord(query url.Values, name, should string) error {
	return Errorf(http.StatusBadRequest, "%s is %q, and should be %s.", name, query.Get(name), should)
}

// dateOf returns a query's parameter as a date in UTC; nil if it is missing.
func dateOf(query url.Values, name string) (*time.Time, error) {
	text := strings.Replace(strings.TrimSuffix(strings.TrimSpace(query.Get(name)), "Z"), "T", " ", 1)
	if text == "" {
		return nil, nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return &at, nil
		}
	}
	return nil, refuseWord(query, name, "a date such as 2030-01-31 12:00, in UTC")
}

// wholeNumber returns a query's parameter as a number; 0 if it is missing.
func wholeNumber(query url.Values, name string) (int64, error) {
	if query.Get(name) == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(query.Get(name), 10, 64)
	if err != nil || n < 0 {
		return 0, refuseWord(query, name, "a whole number, not negative")
	}
	return n, nil
}

type taskData struct {
	Task        db.FoundTask         `json:"task"`
	Arguments   string               `json:"arguments"`
	Explanation *explain.Explanation `json:"explanation"` // nil: see Unexplained
	Unexplained string               `json:"unexplained,omitempty"`
	Graph       *graphs.Task         `json:"graph"`
	Runs        []runData            `json:"runs"`
	Labels      []label              `json:"-"`                // for the runs' timeline
	Queue       string               `json:"queue"`            // "" if the task's type is unknown or has lanes
	Laned       bool                 `json:"-"`                // messages go to the queue of a lane
	Origin      string               `json:"origin,omitempty"` // of a loader's task; "" if its arguments name none

	now time.Time
}

// Actions returns the operations that would change the task.
func (d taskData) Actions() []operation { return applicable(d, d.now) }

func (d taskData) PageTitle() string { return fmt.Sprintf("Task %d", d.Task.ID) }

// runData is a run with its wait for a worker and its duration, in seconds.
type runData struct {
	db.FoundRun
	Waited float64   `json:"waited"`
	Ran    float64   `json:"ran"`
	Line   []stretch `json:"-"`
}

func task(ctx context.Context, r *Request) (any, error) {
	id, err := r.id("a task")
	if err != nil {
		return nil, err
	}
	found, err := r.Reads.FindTasks(ctx, db.TaskSearch{IDs: []int64{id}}, 0, 1)
	if err != nil {
		return nil, err
	}
	if len(found.Tasks) == 0 {
		return nil, Errorf(http.StatusNotFound, "There is no task %d.", id)
	}
	d := taskData{Task: found.Tasks[0], now: r.Now}
	if d.Arguments, err = r.Reads.TaskText(ctx, id); err != nil {
		return nil, err
	}
	switch tt, err := r.Reads.TaskType(ctx, d.Task.Type); {
	case err == nil:
		lanes := tt.Type
		if d.Queue = tt.Queue(); d.Task.Priority != "" {
			d.Queue, lanes = model.PriorityLanes(tt.BackendName), model.PriorityLanes(lanes)
		}
		if d.Laned = len(r.Config.Lanes[lanes]) > 0; d.Laned {
			d.Queue = ""
		}
	case !errors.Is(err, model.ErrUnknownTaskType):
		return nil, err
	}
	if _, loader := model.LoadedVisitType(d.Task.Type); loader {
		var arguments struct{ Kwargs struct{ URL string } }
		if json.Unmarshal([]byte(d.Arguments), &arguments) == nil {
			d.Origin = arguments.Kwargs.URL
		}
	}
	runs, err := r.Reads.LastRuns(ctx, runsListed, id)
	if err != nil {
		return nil, err
	}
	d.Runs, d.Labels = timedRuns(runs, r.Now)
	if d.Graph, err = r.Reads.GraphTask(ctx, id); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, explainTime)
	defer cancel()
	if e, err := r.gatherer().Task(ctx, id); err == nil {
		d.Explanation = &e
	} else {
		d.Unexplained = r.unexplained(err)
	}
	return d, nil
}

// timedRuns adds durations to runs, the newest first, and returns the labels of their timeline.
func timedRuns(runs []db.FoundRun, now time.Time) (timed []runData, labels []label) {
	var lines [][]stretch
	for i, run := range runs {
		var before *time.Time
		if i+1 < len(runs) {
			before = runs[i+1].Ended
		}
		d := runData{FoundRun: run, Line: lineOf(run, before, now)}
		for _, s := range d.Line {
			switch s.Kind {
			case "queued":
				d.Waited = s.Seconds()
			case "ran", "failed":
				d.Ran = s.Seconds()
			}
		}
		timed, lines = append(timed, d), append(lines, d.Line)
	}
	return timed, timeline(lines...)
}

func (r *Request) gatherer() *explain.Gatherer {
	return &explain.Gatherer{
		Store: r.Reads, Config: r.Config, Log: r.Log, Now: r.Now,
		Broker: r.Broker, NoBroker: errors.New("the configuration names no broker"), SearchDepth: explainDeepest,
	}
}

// unexplained logs why there is no explanation, and returns the page's text for it.
func (r *Request) unexplained(err error) string {
	r.Log.Warn("no explanation", "path", r.URL.Path, "error", err)
	return fmt.Sprintf(`The explanation failed, or took longer than %s; the log of the dashboard says why. "swh-scheduler explain" takes all the time it needs.`, explainTime)
}
