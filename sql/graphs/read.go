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

// Summary is a graph with its tasks counted by state. NeverRun counts the states dependency, skipped,
// deadline and cancelled. More is whether the graph has uncounted tasks.
type Summary queries.GraphsRow

// Open returns the number of tasks that have not ended.
func (g Summary) Open() int64 { return g.Waiting + g.Ready + g.Sent + g.Running }

// Task is a task of a graph. Type is empty for a deleted task. FailedBy is the dependency that prevents it
// from running.
type Task = queries.GraphTasksRow

// Edge is a dependency between tasks. Needs is a Condition, nil for the task's AnyResult.
type Edge = queries.SchedulerGoGraphEdge

func summaryOf(r queries.GraphsRow) Summary { return Summary(r) }

// SearchedTasks bounds the tasks that a page reads: 20,000 in memory take some 20 ms. Tests set it lower.
var SearchedTasks = 20_000

// Search is a search for graphs. An empty field is no condition.
type Search struct {
	Name   string     `json:"name,omitempty"`   // a part of the name
	After  *time.Time `json:"after,omitempty"`  // submitted then or later
	Before *time.Time `json:"before,omitempty"` // submitted before then
	State  string     `json:"state,omitempty"`  // one of States
}

// States are the states in searches: open (a task has not ended), failed (a task failed or can never run,
// and the graph is not cancelled), completed (all tasks are) and cancelled.
var States = []string{"open", "failed", "completed", "cancelled"}

// String returns the search as JSON.
func (f Search) String() string {
	text, _ := json.Marshal(f) // all fields can be encoded
	return string(text)
}

// These bound the graphs that a page of a search reads. A search by state reads fewer, as it reads their
// tasks, too.
const (
	searchedGraphs = 20_000
	searchedStates = 300
)

// Found is a page of graphs, the newest first.
type Found struct {
	Graphs []Summary
	Next   int64 // the next page has numbers below it; 0: last page
}

// FindGraphs returns up to limit graphs with numbers below the given one (0: all). It counts the states of
// the last tasks of each graph, and derives the graph's state from them. It reads the next 20,000 graphs. A
// search by state reads 300, or, if tasks is math.MaxInt, the graphs of the next 20,000 tasks, at least
// one.
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
				first = min(at[0]+1, below-1) // leaves out a graph read only in part, unless it is the only one
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

// GraphHead returns the summary of a graph without counts of tasks, or model.ErrUnknownGraph.
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

// IsSmallGraph reports whether a graph has at most the numbers of tasks and dependencies.
func (a Queries) IsSmallGraph(ctx context.Context, graph int64, tasks, edges int) (bool, error) {
	size, err := a.q.SizeOfGraph(ctx, queries.SizeOfGraphParams{Graph: graph, MaxTasks: int64(tasks) + 1})
	return size.Tasks <= int64(tasks) && size.Edges <= int64(edges), stmt.Failed(err, "count the tasks and dependencies of graph %d", graph)
}

// GraphTasks returns the tasks of a graph, each after its dependencies.
func (a Queries) GraphTasks(ctx context.Context, graph int64) ([]Task, error) {
	rows, err := a.q.GraphTasks(ctx, graph)
	return rows, stmt.Failed(err, "read the tasks of graph %d", graph)
}

// GraphEdges returns the dependencies of the tasks of a graph, by task.
func (a Queries) GraphEdges(ctx context.Context, graph int64) ([]Edge, error) {
	rows, err := a.q.GraphEdges(ctx, graph)
	return rows, stmt.Failed(err, "read the dependencies of graph %d", graph)
}

// Dependency is a task that another waits for, or, if Broken, that prevents the other from running. For a
// deleted task, Type is empty and Status is "deleted". Name is empty and Graph is 0 for a task without a
// graph.
type Dependency = queries.UnmetDependenciesRow

// UnmetDependencies returns up to limit dependencies that a task waits for or that prevent it from running,
// by number. A task that depends on itself is among them.
func (a Queries) UnmetDependencies(ctx context.Context, task int64, limit int) ([]Dependency, error) {
	rows, err := a.q.UnmetDependencies(ctx, queries.UnmetDependenciesParams{Task: task, MaxDependencies: int32(limit)})
	return rows, stmt.Failed(err, "read what task %d depends on", task)
}

// Blocker is a task at the end of a path of dependencies that are not met. It is Links dependencies before Direct, where
// the path begins. State is its state in a graph, the status of a task without a graph, or "deleted".
type Blocker = queries.BlockersRow

// MaxLinks is the length at which Blockers stops to follow a path.
const MaxLinks = 1000

// Blockers returns for each of the tasks where one path of unmet dependencies ends: at a task that waits for no other
// one, or after MaxLinks dependencies.
func (a Queries) Blockers(ctx context.Context, tasks []int64) ([]Blocker, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	rows, err := a.q.Blockers(ctx, queries.BlockersParams{Tasks: tasks, MaxLinks: MaxLinks})
	return rows, stmt.Failed(err, "read what blocks tasks of graphs")
}

// Never is the next run of a task that waits in a graph (scheduler_go.never).
var Never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// GraphTask returns a task's row in its graph; nil for a task without a graph.
func (a Queries) GraphTask(ctx context.Context, task int64) (*Task, error) {
	rows, err := a.q.GraphTask(ctx, task)
	return stmt.First(stmt.List(rows, err, func(r queries.GraphTaskRow) Task { return Task(r) }))
}

// Runtimes returns the mean duration of recent successful runs by task type. Types without such runs are
// missing.
func (a Queries) Runtimes(ctx context.Context, types []string) (map[string]time.Duration, error) {
	rows, err := a.q.Runtimes(ctx, types)
	runtimes := make(map[string]time.Duration, len(rows))
	for _, row := range rows {
		runtimes[row.Type] = model.Duration(row.Seconds)
	}
	return runtimes, stmt.Failed(err, "read how long runs took")
}

// GraphEnds returns the end of the last ended run of each task of a graph. Tasks without one are missing.
func (a Queries) GraphEnds(ctx context.Context, graph int64) (map[int64]time.Time, error) {
	rows, err := a.q.GraphEnds(ctx, graph)
	ends := make(map[int64]time.Time, len(rows))
	for _, row := range rows {
		ends[row.Task] = row.Ended
	}
	return ends, stmt.Failed(err, "read when tasks of graph %d ended", graph)
}
