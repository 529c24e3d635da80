package sql

import (
	"context"
	"fmt"
	"time"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// GraphState is how a task of a graph stands.
type GraphState string

// The states of a graph's tasks. The last three are of tasks that never run
// unless somebody takes them up again.
const (
	GraphWaiting   GraphState = "waiting"   // for its dependencies
	GraphReady     GraphState = "ready"     // to be sent, or to be tried again later
	GraphRunning   GraphState = "running"   // sent
	GraphCompleted GraphState = "completed" // for good
	GraphFailed    GraphState = "failed"    // for good, or disabled by hand, or deleted before it ended

	GraphByDependency GraphState = "dependency" // one of its dependencies failed
	GraphByDeadline   GraphState = "deadline"   // it waited too long
	GraphCancelled    GraphState = "cancelled"  // with its graph
)

// GraphStates are all states, in the order of a task's life.
var GraphStates = []GraphState{
	GraphWaiting, GraphReady, GraphRunning, GraphCompleted,
	GraphFailed, GraphByDependency, GraphByDeadline, GraphCancelled,
}

// Open says that the task has not ended yet.
func (s GraphState) Open() bool { return s == GraphWaiting || s == GraphReady || s == GraphRunning }

// GraphSummary is a graph with how many of its tasks stand where.
type GraphSummary struct {
	ID        int64
	Name      string
	Submitted time.Time
	Cancelled *time.Time
	Tasks     int64
	Waiting   int64
	Ready     int64
	Running   int64
	Completed int64
	Failed    int64
	NeverRun  int64 // dependency, deadline and cancelled together
}

// Open is how many tasks have not ended.
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

// GraphEdge says that a task depends on another.
type GraphEdge struct{ Task, DependsOn int64 }

// Graphs lists the newest graphs.
func (a asker) Graphs(ctx context.Context, limit int) ([]GraphSummary, error) {
	rows, err := a.q.Graphs(ctx, queries.GraphsParams{MaxGraphs: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("read graphs: %w", err)
	}
	graphs := make([]GraphSummary, len(rows))
	for i, row := range rows {
		graphs[i] = GraphSummary(row)
	}
	return graphs, nil
}

// Graph is a graph's summary; scheduler.ErrUnknownGraph if there is none.
func (a asker) Graph(ctx context.Context, graph int64) (GraphSummary, error) {
	rows, err := a.q.Graphs(ctx, queries.GraphsParams{Graph: &graph, MaxGraphs: 1})
	if err == nil && len(rows) == 0 {
		err = scheduler.ErrUnknownGraph
	}
	if err != nil {
		return GraphSummary{}, fmt.Errorf("read graph %d: %w", graph, err)
	}
	return GraphSummary(rows[0]), nil
}

// GraphTasks are the tasks of a graph, each after those it depends on.
func (a asker) GraphTasks(ctx context.Context, graph int64) ([]GraphTask, error) {
	rows, err := a.q.GraphTasks(ctx, graph)
	if err != nil {
		return nil, fmt.Errorf("read the tasks of graph %d: %w", graph, err)
	}
	tasks := make([]GraphTask, len(rows))
	for i, r := range rows {
		tasks[i] = GraphTask{
			Graph: graph, ID: r.Task, Name: r.Name, Type: r.Type, State: GraphState(r.State),
			AnyResult: r.AnyResult, Dependencies: int(r.Dependencies), Deadline: r.Deadline, FailedBy: r.FailedBy,
		}
	}
	return tasks, nil
}

// GraphEdges are the dependencies of the tasks of a graph, by task.
func (a asker) GraphEdges(ctx context.Context, graph int64) ([]GraphEdge, error) {
	rows, err := a.q.GraphEdges(ctx, graph)
	if err != nil {
		return nil, fmt.Errorf("read the dependencies of graph %d: %w", graph, err)
	}
	edges := make([]GraphEdge, len(rows))
	for i, row := range rows {
		edges[i] = GraphEdge(row)
	}
	return edges, nil
}

// Dependency is a task that another depends on and that is not completed.
type Dependency struct {
	ID     int64
	Type   string // empty if it was deleted
	Status string // of the task, or "deleted"
	Failed bool   // for good; otherwise it has not ended
	Name   string // in its graph; empty if it belongs to none
	Graph  int64  // 0: none
}

// UnmetDependencies are those that a task waits for, or that failed, by number,
// limit of them at most; none for tasks that are in no graph. A task that depends
// on itself is among its own.
func (a asker) UnmetDependencies(ctx context.Context, task int64, limit int) ([]Dependency, error) {
	rows, err := a.q.UnmetDependencies(ctx, queries.UnmetDependenciesParams{Task: task, MaxDependencies: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("read what task %d depends on: %w", task, err)
	}
	dependencies := make([]Dependency, len(rows))
	for i, r := range rows {
		dependencies[i] = Dependency{ID: r.DependsOn, Type: r.Type, Status: r.Status, Failed: r.Failed, Name: r.Name, Graph: r.Graph}
	}
	return dependencies, nil
}

// GraphTask is a task's place in its graph; nil if it is in none.
func (a asker) GraphTask(ctx context.Context, task int64) (*GraphTask, error) {
	rows, err := a.q.GraphTask(ctx, task)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	r := rows[0]
	return &GraphTask{
		Graph: r.Graph, ID: r.Task, Name: r.Name, Type: r.Type, State: GraphState(r.State),
		AnyResult: r.AnyResult, Dependencies: int(r.Dependencies), Deadline: r.Deadline, FailedBy: r.FailedBy,
	}, nil
}

// Runtimes are how long successful runs of task types took lately, on average;
// types of which none is known are missing.
func (a asker) Runtimes(ctx context.Context, types []string) (map[string]time.Duration, error) {
	rows, err := a.q.Runtimes(ctx, types)
	if err != nil {
		return nil, fmt.Errorf("read how long runs took: %w", err)
	}
	runtimes := make(map[string]time.Duration, len(rows))
	for _, row := range rows {
		runtimes[row.Type] = time.Duration(row.Seconds * float64(time.Second))
	}
	return runtimes, nil
}

// GraphPace is how many tasks of a graph had a run that ended since a moment.
func (a asker) GraphPace(ctx context.Context, graph int64, since time.Time) (int64, error) {
	n, err := a.q.GraphPace(ctx, queries.GraphPaceParams{Graph: graph, Since: since})
	if err != nil {
		return 0, fmt.Errorf("read the pace of graph %d: %w", graph, err)
	}
	return n, nil
}
