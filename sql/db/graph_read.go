package db

import (
	"context"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
)

// GraphState is the state of a task of a graph.
type GraphState string

// The states of a graph's tasks. Tasks in the last four never run unless somebody
// retries them, or what they depend on.
const (
	GraphWaiting   GraphState = "waiting"   // for its dependencies
	GraphReady     GraphState = "ready"     // to be sent, or to be tried again later
	GraphRunning   GraphState = "running"   // sent
	GraphCompleted GraphState = "completed" // for good
	GraphFailed    GraphState = "failed"    // for good, or disabled by hand, or deleted before it ended

	GraphByDependency GraphState = "dependency" // one of its dependencies failed
	GraphSkipped      GraphState = "skipped"    // a dependency ended otherwise than it asks for, and did not fail
	GraphByDeadline   GraphState = "deadline"   // it waited too long
	GraphCancelled    GraphState = "cancelled"  // with its graph
)

// GraphStates are all states, in the order of a task's life.
var GraphStates = []GraphState{
	GraphWaiting, GraphReady, GraphRunning, GraphCompleted,
	GraphFailed, GraphByDependency, GraphSkipped, GraphByDeadline, GraphCancelled,
}

// Open reports whether the task has not ended yet.
func (s GraphState) Open() bool { return s == GraphWaiting || s == GraphReady || s == GraphRunning }

// GraphSummary is a graph with the number of its tasks by state; NeverRun is dependency,
// skipped, deadline and cancelled together.
type GraphSummary queries.GraphsRow

// Open returns how many tasks have not ended.
func (g GraphSummary) Open() int64 { return g.Waiting + g.Ready + g.Running }

// GraphTask is a task of a graph.
type GraphTask struct {
	Graph        int64
	ID           int64
	Name         string
	Type         string // empty if it was deleted
	State        GraphState
	AnyResult    bool
	Dependencies int
	Deadline     *time.Time
	FailedBy     *int64 // the dependency because of which it never runs
}

func graphTaskOf(r queries.GraphTaskRow) GraphTask {
	return GraphTask{
		Graph: r.Graph, ID: r.Task, Name: r.Name, Type: r.Type, State: GraphState(r.State),
		AnyResult: r.AnyResult, Dependencies: int(r.Dependencies), Deadline: r.Deadline, FailedBy: r.FailedBy,
	}
}

// GraphEdge says that a task depends on another; Needs is a Condition, nil as the task's
// AnyResult says.
type GraphEdge = queries.SchedulerGoGraphEdge

func summaryOf(r queries.GraphsRow) GraphSummary { return GraphSummary(r) }

// Graphs lists the newest graphs.
func (a GraphQueries) Graphs(ctx context.Context, limit int) ([]GraphSummary, error) {
	rows, err := a.q.Graphs(ctx, queries.GraphsParams{MaxGraphs: int32(limit)})
	return list(rows, failed(err, "read graphs"), summaryOf)
}

// Graph returns the summary of a graph, or model.ErrUnknownGraph.
func (a GraphQueries) Graph(ctx context.Context, graph int64) (GraphSummary, error) {
	rows, err := a.q.Graphs(ctx, queries.GraphsParams{Graph: &graph, MaxGraphs: 1})
	if err == nil && len(rows) == 0 {
		err = model.ErrUnknownGraph
	}
	summary, err := first(rows, failed(err, "read graph %d", graph), summaryOf)
	return orZero(summary), err
}

// GraphTasks returns the tasks of a graph, each after those it depends on.
func (a GraphQueries) GraphTasks(ctx context.Context, graph int64) ([]GraphTask, error) {
	rows, err := a.q.GraphTasks(ctx, graph)
	return list(rows, failed(err, "read the tasks of graph %d", graph),
		func(r queries.GraphTasksRow) GraphTask { return graphTaskOf(queries.GraphTaskRow(r)) })
}

// GraphEdges returns the dependencies of the tasks of a graph, by task.
func (a GraphQueries) GraphEdges(ctx context.Context, graph int64) ([]GraphEdge, error) {
	rows, err := a.q.GraphEdges(ctx, graph)
	return rows, failed(err, "read the dependencies of graph %d", graph)
}

// Dependency is a task that another waits for, or, if Broken, because of whose end the other
// can't run. Type is empty and Status "deleted" if it was deleted;
// Name is empty and Graph 0 if it belongs to no graph.
type Dependency = queries.UnmetDependenciesRow

// UnmetDependencies returns up to limit dependencies that a task waits for, or
// because of which it can't run, by number; none for tasks that are in no graph. A task that depends
// on itself is among its own.
func (a GraphQueries) UnmetDependencies(ctx context.Context, task int64, limit int) ([]Dependency, error) {
	rows, err := a.q.UnmetDependencies(ctx, queries.UnmetDependenciesParams{Task: task, MaxDependencies: int32(limit)})
	return rows, failed(err, "read what task %d depends on", task)
}

// GraphTask returns a task's place in its graph; nil if it is in none.
func (a GraphQueries) GraphTask(ctx context.Context, task int64) (*GraphTask, error) {
	rows, err := a.q.GraphTask(ctx, task)
	return first(rows, err, graphTaskOf)
}

// Runtimes returns how long successful runs of task types took lately, on average;
// types of which none is known are missing.
func (a GraphQueries) Runtimes(ctx context.Context, types []string) (map[string]time.Duration, error) {
	rows, err := a.q.Runtimes(ctx, types)
	if err != nil {
		return nil, failed(err, "read how long runs took")
	}
	runtimes := make(map[string]time.Duration, len(rows))
	for _, row := range rows {
		runtimes[row.Type] = model.Duration(row.Seconds)
	}
	return runtimes, nil
}

// GraphPace returns how many tasks of a graph had a run that ended since a moment.
func (a GraphQueries) GraphPace(ctx context.Context, graph int64, since time.Time) (int64, error) {
	n, err := a.q.GraphPace(ctx, queries.GraphPaceParams{Graph: graph, Since: since})
	return n, failed(err, "read the pace of graph %d", graph)
}
