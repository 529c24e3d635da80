package graphs

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// Summary is a graph with the number of its tasks by state; NeverRun is dependency,
// skipped, deadline and cancelled together. More is whether it has tasks that were not counted.
type Summary queries.GraphsRow

// Open returns how many tasks have not ended.
func (g Summary) Open() int64 { return g.Waiting + g.Ready + g.Sent + g.Running }

// Task is a task of a graph. Type is empty if it was deleted; FailedBy is the dependency because of
// which it never runs.
type Task = queries.GraphTasksRow

// Edge says that a task depends on another; Needs is a Condition, nil as the task's
// AnyResult says.
type Edge = queries.SchedulerGoGraphEdge

func summaryOf(r queries.GraphsRow) Summary { return Summary(r) }

// SearchedTasks is how many tasks a page looks at: 20,000 in memory take some 20 ms. Tests have fewer.
var SearchedTasks = 20_000

// Search says which graphs somebody asks for; an empty field does not matter.
type Search struct {
	Name   string     `json:"name,omitempty"`   // a part of it
	After  *time.Time `json:"after,omitempty"`  // submitted then or later
	Before *time.Time `json:"before,omitempty"` // submitted before then
	State  string     `json:"state,omitempty"`  // one of States
}

// States are the states that graphs are searched by: open (a task has not ended), failed (one failed or never
// runs, and the graph was not cancelled), completed (all are) and cancelled.
var States = []string{"open", "failed", "completed", "cancelled"}

// String returns the search as JSON, for people.
func (f Search) String() string {
	text, _ := json.Marshal(f) // which has nothing that can't be
	return string(text)
}

// How many graphs a page of a search looks at; fewer by state, for which it looks at tasks, too.
const (
	searchedGraphs = 20_000
	searchedStates = 300
)

// Found is a page of graphs, the newest first.
type Found struct {
	Graphs []Summary
	Next   int64 // the number below which the next page begins; 0: there is none
}

// FindGraphs returns up to limit graphs of numbers below a given one (0: all). It counts the states of
// the last so many tasks of each, which also tell the graph's state. It looks at the next 20,000
// graphs; in a search by state at 300, or, if tasks is math.MaxInt, at those of the next 20,000 tasks,
// at least one.
func (a Queries) FindGraphs(ctx context.Context, f Search, below int64, limit, tasks int) (found Found, err error) {
	if below <= 0 {
		below = math.MaxInt64
	}
	looked, first := int32(searchedGraphs), int64(0)
	if f.State != "" && f.State != "cancelled" {
		looked = searchedStates
		if tasks == math.MaxInt {
			at, err := a.q.GraphAtTask(ctx, queries.GraphAtTaskParams{EndGraph: below, Passed: int32(SearchedTasks)})
			if err != nil {
				return found, stmt.Failed(err, "search graphs")
			}
			if len(at) > 0 {
				first = min(at[0]+1, below-1) // leaves out the graph that is looked at in part, unless it is the only one
			}
		}
	}
	found.Graphs, err = a.graphs(ctx, queries.GraphsParams{
		FirstGraph: first, EndGraph: below, MaxLooked: int64(looked), PartOfName: f.Name, After: f.After, Before: f.Before, State: f.State, MaxGraphs: int64(limit), MaxTasks: int64(tasks),
	})
	if n := len(found.Graphs); err != nil || n == limit {
		if err == nil {
			found.Next = found.Graphs[n-1].ID
		}
		return found, err
	}
	found.Next = first
	last, err := a.q.PlaceOfGraphs(ctx, queries.PlaceOfGraphsParams{EndGraph: below, Passed: looked - 1})
	if err == nil && len(last) > 0 {
		found.Next = max(first, last[0])
	}
	return found, stmt.Failed(err, "search graphs")
}

func (a Queries) graphs(ctx context.Context, p queries.GraphsParams) ([]Summary, error) {
	rows, err := a.q.Graphs(ctx, p)
	return stmt.List(rows, stmt.Failed(err, "read graphs"), summaryOf)
}

// Graphs lists the newest graphs.
func (a Queries) Graphs(ctx context.Context, limit int) ([]Summary, error) {
	return a.graphs(ctx, queries.GraphsParams{EndGraph: math.MaxInt64, MaxLooked: int64(limit), MaxGraphs: int64(limit), MaxTasks: math.MaxInt64})
}

// Graph returns the summary of a graph, or model.ErrUnknownGraph.
func (a Queries) Graph(ctx context.Context, graph int64) (Summary, error) {
	return a.graph(ctx, graph, math.MaxInt64)
}

// GraphHead returns the summary of a graph without the numbers of its tasks, or model.ErrUnknownGraph.
func (a Queries) GraphHead(ctx context.Context, graph int64) (Summary, error) {
	return a.graph(ctx, graph, 0)
}

func (a Queries) graph(ctx context.Context, graph, tasks int64) (Summary, error) {
	graphs, err := a.graphs(ctx, queries.GraphsParams{FirstGraph: graph, EndGraph: graph + 1, MaxLooked: 1, MaxGraphs: 1, MaxTasks: tasks})
	if err == nil && len(graphs) == 0 {
		err = model.ErrUnknownGraph
	}
	if err != nil {
		return Summary{}, err
	}
	return graphs[0], nil
}

// IsSmallGraph reports whether a graph has no more than some tasks and dependencies.
func (a Queries) IsSmallGraph(ctx context.Context, graph int64, tasks, edges int) (bool, error) {
	size, err := a.q.SizeOfGraph(ctx, queries.SizeOfGraphParams{Graph: graph, MaxTasks: int64(tasks) + 1, MaxEdges: int64(edges) + 1})
	return size.Tasks <= int64(tasks) && size.Edges <= int64(edges), stmt.Failed(err, "count the tasks and dependencies of graph %d", graph)
}

// GraphTasks returns the tasks of a graph, each after those it depends on.
func (a Queries) GraphTasks(ctx context.Context, graph int64) ([]Task, error) {
	rows, err := a.q.GraphTasks(ctx, graph)
	return rows, stmt.Failed(err, "read the tasks of graph %d", graph)
}

// GraphEdges returns the dependencies of the tasks of a graph, by task.
func (a Queries) GraphEdges(ctx context.Context, graph int64) ([]Edge, error) {
	rows, err := a.q.GraphEdges(ctx, graph)
	return rows, stmt.Failed(err, "read the dependencies of graph %d", graph)
}

// Dependency is a task that another waits for, or, if Broken, because of whose end the other
// can't run. Type is empty and Status "deleted" if it was deleted;
// Name is empty and Graph 0 if it belongs to no graph.
type Dependency = queries.UnmetDependenciesRow

// UnmetDependencies returns up to limit dependencies that a task waits for, or because of which it
// can't run, by number; a task that depends on itself is among them.
func (a Queries) UnmetDependencies(ctx context.Context, task int64, limit int) ([]Dependency, error) {
	rows, err := a.q.UnmetDependencies(ctx, queries.UnmetDependenciesParams{Task: task, MaxDependencies: int32(limit)})
	return rows, stmt.Failed(err, "read what task %d depends on", task)
}

// Task returns a task's place in its graph; nil if it is in none.
func (a Queries) GraphTask(ctx context.Context, task int64) (*Task, error) {
	rows, err := a.q.GraphTask(ctx, task)
	return stmt.First(stmt.List(rows, err, func(r queries.GraphTaskRow) Task { return Task(r) }))
}

// Runtimes returns how long successful runs of task types took lately, on average;
// types of which none is known are missing.
func (a Queries) Runtimes(ctx context.Context, types []string) (map[string]time.Duration, error) {
	rows, err := a.q.Runtimes(ctx, types)
	runtimes := make(map[string]time.Duration, len(rows))
	for _, row := range rows {
		runtimes[row.Type] = model.Duration(row.Seconds)
	}
	return runtimes, stmt.Failed(err, "read how long runs took")
}

// GraphEnds returns when the last ended run of each task of a graph ended; tasks without one are missing.
func (a Queries) GraphEnds(ctx context.Context, graph int64) (map[int64]time.Time, error) {
	rows, err := a.q.GraphEnds(ctx, graph)
	ends := make(map[int64]time.Time, len(rows))
	for _, row := range rows {
		ends[row.Task] = row.Ended
	}
	return ends, stmt.Failed(err, "read when tasks of graph %d ended", graph)
}
