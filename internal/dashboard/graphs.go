package dashboard

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/taskgraph"
	"swh-scheduler/sql/graphs"
)

var (
	graphsPage = Page{Path: "/graphs", Title: "Graphs", Menu: "Graphs", Template: "graphs.html", Query: []string{"name", "after", "before", "state", "below"}, Fragments: []string{"graphs"}, Data: showGraphs}
	graphPage  = Page{Path: "/graphs/{id}", Template: "graph.html", Fragments: []string{"progress", "steps", "path"}, Data: graph}
)

const (
	// countedTasks is the number of tasks that the list counts for each graph: the last ones, which end last.
	countedTasks = 200
	// maxPicture is the largest picture of a graph that is shown, in bytes.
	maxPicture = 100_000
	// graphRows is the number of a graph's tasks on its timeline, with their last graphRuns runs.
	graphRows = 50
	graphRuns = 2
	// If a graph has more tasks or dependencies, its page shows only the head.
	maxGraphTasks = 5000
	maxGraphEdges = 20_000
)

type graphsData struct {
	Form    url.Values       `json:"-"` // the query
	Filter  graphs.Search    `json:"filter"`
	Query   template.URL     `json:"-"` // of the filter, for actions and the next page
	Actions []operation      `json:"-"`
	Graphs  []taskgraph.Line `json:"graphs"` // with the numbers of the last countedTasks tasks
	Next    int64            `json:"next"`   // the next page has the numbers below this one; 0: there is none
}

func (graphsData) Counted() int64 { return countedTasks }

func (graphsData) States() []string { return graphs.States }

func showGraphs(ctx context.Context, r *Request) (any, error) {
	query := r.URL.Query()
	filter, err := graphFilter(query)
	if err != nil {
		return nil, err
	}
	below, err := wholeNumber(query, "below")
	if err != nil {
		return nil, err
	}
	found, err := r.Reads.FindGraphs(ctx, filter, below, listed, countedTasks)
	query.Del("below")
	d := graphsData{Form: query, Filter: filter, Query: template.URL(query.Encode()), Actions: graphOperations, Graphs: []taskgraph.Line{}, Next: found.Next}
	for _, g := range found.Graphs {
		d.Graphs = append(d.Graphs, taskgraph.Line(g))
	}
	return d, err
}

// graphFilter reads the filter of a query.
func graphFilter(query url.Values) (f graphs.Search, err error) {
	f.Name = query.Get("name")
	if f.State = query.Get("state"); f.State != "" && !slices.Contains(graphs.States, f.State) {
		return f, refuseWord(query, "state", "open, failed, completed or cancelled")
	}
	if f.After, err = dateOf(query, "after"); err != nil {
		return f, err
	}
	f.Before, err = dateOf(query, "before")
	return f, err
}

type graphData struct {
	taskgraph.Report
	TooLarge bool          `json:"too_large,omitempty"` // only the head was read
	Counts   []stateCount  `json:"-"`
	Picture  template.HTML `json:"-"`
	Timeline []graphRow    `json:"timeline"`
	Labels   []label       `json:"-"` // of the timeline
}

// graphRow contains a task's runs and expected runs.
type graphRow struct {
	taskgraph.Step
	Critical bool      `json:"critical"` // it is on the critical path or before it
	Line     []stretch `json:"line"`
}

// Left returns the number of tasks that are not on the timeline.
func (d graphData) Left() int { return d.Tasks - len(d.Timeline) }

type stateCount struct {
	State model.GraphState
	Tasks int
	Page  string // of these tasks and others with the same status
}

// tasksOfGraph returns the address of a graph's tasks in a state, by the tasks' status.
func tasksOfGraph(graph int64, state model.GraphState) string {
	status := model.TaskDisabled
	switch state {
	case model.GraphWaiting, model.GraphReady:
		status = model.TaskNotScheduled
	case model.GraphSent, model.GraphRunning:
		status = model.TaskScheduled
	case model.GraphCompleted:
		status = model.TaskCompleted
	}
	return address("/tasks", "graph", graph, "status", status)
}

// Actions returns the operations that would change the graph: all of them if the graph is too large to read.
func (d graphData) Actions() []operation {
	return slices.DeleteFunc(slices.Clone(graphOperations), func(o operation) bool {
		if d.TooLarge {
			return false
		}
		if o.Word == "retry graph" {
			return len(d.Failed) == 0 && d.Cancelled == nil
		}
		return d.Ended == d.Tasks
	})
}

func (d graphData) PageTitle() string { return fmt.Sprintf("Graph %d", d.Graph) }

func graph(ctx context.Context, r *Request) (any, error) {
	id, err := r.id("a graph")
	if err != nil {
		return nil, err
	}
	summary, err := r.Reads.GraphHead(ctx, id)
	small := false
	if err == nil {
		small, err = r.Reads.IsSmallGraph(ctx, id, maxGraphTasks, maxGraphEdges)
	}
	if errors.Is(err, model.ErrUnknownGraph) {
		return nil, Errorf(http.StatusNotFound, "There is no graph %d.", id)
	}
	if err != nil {
		return nil, err
	}
	if !small {
		return graphData{TooLarge: true, Report: taskgraph.Report{Graph: id, Name: summary.Name, Submitted: summary.Submitted, Cancelled: summary.Cancelled}}, nil
	}
	at := r.Now.Truncate(time.Minute).Add(time.Minute) // the next minute: an open page changes once a minute, and no expected end is in the past
	g, err := taskgraph.Read(ctx, r.Reads, id, at)
	if err != nil {
		return nil, err
	}
	d := graphData{Report: g.Report(at)}
	if picture, ok := g.Draw().SVGWithin(maxPicture, func(b taskgraph.Box) string {
		if b.Task > 0 {
			return r.link(fmt.Sprintf("/tasks/%d", b.Task))
		}
		return r.link("/tasks", "graph", id, "type", b.Type)
	}); ok {
		d.Picture = template.HTML(picture) // its texts are escaped for XML
	}
	if d.Timeline, d.Labels, err = r.graphTimeline(ctx, g, d.Report, at); err != nil {
		return nil, err
	}
	for _, state := range model.GraphStates {
		if n := d.States[state]; n > 0 {
			d.Counts = append(d.Counts, stateCount{state, n, tasksOfGraph(id, state)})
		}
	}
	return d, nil
}

// graphTimeline returns past and expected runs of tasks, sorted by time. It contains the critical path, the tasks that
// the path waited for, and other tasks up to graphRows, the latest first.
func (r *Request) graphTimeline(ctx context.Context, g taskgraph.Graph, report taskgraph.Report, now time.Time) (rows []graphRow, labels []label, err error) {
	rows = []graphRow{}
	var ids []int64
	place := make(map[int64]int)
	add := func(step taskgraph.Step, critical bool) {
		if _, there := place[step.Task]; !there && len(rows) < graphRows {
			place[step.Task] = len(rows)
			ids, rows = append(ids, step.Task), append(rows, graphRow{Step: step, Critical: critical})
		}
	}
	for _, step := range report.PathBefore[max(0, len(report.PathBefore)-graphRows/2):] {
		add(step, true)
	}
	for _, step := range report.CriticalPath {
		add(step, true)
	}
	for _, step := range g.Ran() {
		add(step, false)
	}
	runs, err := r.Reads.LastRuns(ctx, graphRuns, ids...)
	if err != nil {
		return nil, nil, err
	}
	for _, run := range runs { // the newest first
		row := &rows[place[run.Task]]
		row.Line = append(lineOf(run, nil, now), row.Line...)
	}
	at := now
	for _, step := range report.CriticalPath {
		if i, there := place[step.Task]; there && step.Seconds > 0 {
			end := at.Add(time.Duration(step.Seconds * float64(time.Second)))
			rows[i].Line = append(rows[i].Line, stretch{Kind: "expected", From: at, To: end})
			at = end
		}
	}
	slices.SortStableFunc(rows, func(a, b graphRow) int {
		if len(a.Line) == 0 || len(b.Line) == 0 { // the last ones
			return len(b.Line) - len(a.Line)
		}
		return a.Line[0].From.Compare(b.Line[0].From)
	})
	var lines [][]stretch
	for i := range rows {
		if len(rows[i].Line) > 0 {
			rows[i].Line = append(rows[i].Line, stretch{Kind: "now", From: now, To: now})
		}
		lines = append(lines, rows[i].Line)
	}
	return rows, timeline(lines...), nil
}
