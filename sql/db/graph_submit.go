package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
)

// NewGraph is a graph to submit.
type NewGraph struct {
	Name string // for people; may be empty
	// Tasks are in an order in which each comes after those it depends on.
	Tasks []NewGraphTask
}

// NewGraphTask is a task of a graph to submit. It is one-shot.
type NewGraphTask struct {
	Name      string // in its graph
	Type      string
	Arguments model.TaskArguments // nil: none
	Priority  model.TaskPriority
	Retries   *int64 // nil: as many as its type says

	DependsOn []int     // earlier tasks of the graph, or itself, by index in Tasks
	Existing  []int64   // numbers of existing tasks
	AnyResult bool      // waits until they have ended, not until they are completed
	Deadline  time.Time // never runs if it still waits then; zero: none
}

func (t NewGraphTask) dependencies() int { return len(t.DependsOn) + len(t.Existing) }

// SubmittedGraph is a graph that was stored.
type SubmittedGraph struct {
	ID    int64
	Tasks []int64 // numbers, in the order they were given
}

// submitChunk is how many rows one statement makes.
const submitChunk = 20_000

// DependencyError says that a task cannot depend on an existing one.
type DependencyError struct {
	Task       string // name in the graph
	Dependency int64
	Problem    string
}

func (e *DependencyError) Error() string {
	return fmt.Sprintf("task %q depends on task %d, %s", e.Task, e.Dependency, e.Problem)
}

// CheckGraph checks that the task types and existing dependencies of a graph exist.
// Errors are model.ErrUnknownTaskType or a *DependencyError.
func (a GraphQueries) CheckGraph(ctx context.Context, g NewGraph) error {
	types, err := TaskQueries{q: a.q}.TaskTypes(ctx)
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(types))
	for _, t := range types {
		known[t.Type] = true
	}
	for _, t := range g.Tasks {
		if !known[t.Type] {
			return fmt.Errorf("task %q: %w: %q", t.Name, model.ErrUnknownTaskType, t.Type)
		}
	}
	found, err := a.q.TasksToDependOn(ctx, existing(g))
	if err != nil {
		return fmt.Errorf("look for existing dependencies: %w", err)
	}
	policies := make(map[int64]model.TaskPolicy, len(found))
	for _, row := range found {
		policies[row.ID] = row.Policy
	}
	for _, t := range g.Tasks {
		for _, id := range t.Existing {
			switch policies[id] {
			case model.Oneshot:
			case "":
				return &DependencyError{t.Name, id, "which is not there"}
			default:
				return &DependencyError{t.Name, id, "which is recurring and never ends"}
			}
		}
	}
	return nil
}

// existing returns the existing tasks that a graph depends on, sorted, once each.
func existing(g NewGraph) []int64 {
	ids := []int64{}
	for _, t := range g.Tasks {
		ids = append(ids, t.Existing...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// SubmitGraph stores a graph, all of it or nothing. Tasks without dependencies
// may run from now on. The errors are those of CheckGraph.
func (s GraphStore) SubmitGraph(ctx context.Context, g NewGraph, now time.Time) (submitted SubmittedGraph, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		err := tx.CheckGraph(ctx, g)
		if err == nil {
			submitted, err = tx.storeGraph(ctx, g, now)
		}
		return err
	})
	return submitted, failed(err, "submit graph")
}

func (tx *Tx) storeGraph(ctx context.Context, g NewGraph, now time.Time) (stored SubmittedGraph, err error) {
	graph, err := tx.q.CreateGraph(ctx, queries.CreateGraphParams{Name: g.Name, Submitted: now})
	if err != nil {
		return stored, err
	}
	ids, err := tx.q.NextTaskIDs(ctx, int64(len(g.Tasks)))
	if err != nil {
		return stored, err
	}
	var edges []GraphEdge
	var check []int64 // those that depend on tasks that may have ended
	place := 0
	for chunk := range slices.Chunk(g.Tasks, submitChunk) {
		create := queries.CreateGraphTasksParams{At: now}
		record := queries.RecordGraphTasksParams{Graph: graph}
		for _, t := range chunk {
			id := ids[place]
			place++
			arguments, err := encodeArguments(t.Arguments)
			if err != nil {
				return stored, fmt.Errorf("task %q: %w", t.Name, err)
			}
			var watch int64
			for _, d := range t.DependsOn {
				edges = append(edges, GraphEdge{Task: id, DependsOn: ids[d]})
				watch = max(watch, ids[d]) // nobody else knows of it yet
			}
			for _, d := range t.Existing {
				edges = append(edges, GraphEdge{Task: id, DependsOn: d})
			}
			if len(t.Existing) > 0 {
				check, watch = append(check, id), 0
			}
			create.Ids = append(create.Ids, id)
			create.Types = append(create.Types, t.Type)
			create.Arguments = append(create.Arguments, string(arguments))
			create.Waits = append(create.Waits, t.dependencies() > 0)
			create.Retries = append(create.Retries, *cmp.Or(t.Retries, new(int64(-1))))
			create.Priorities = append(create.Priorities, string(t.Priority))
			record.Ids = append(record.Ids, id)
			record.Names = append(record.Names, t.Name)
			record.AnyResult = append(record.AnyResult, t.AnyResult)
			record.Dependencies = append(record.Dependencies, int32(t.dependencies()))
			record.Deadlines = append(record.Deadlines, t.Deadline.UTC())
			record.Watches = append(record.Watches, watch)
		}
		err := tx.q.CreateGraphTasks(ctx, create)
		if err == nil {
			err = tx.q.RecordGraphTasks(ctx, record)
		}
		if err != nil {
			return stored, err
		}
	}
	for chunk := range slices.Chunk(edges, submitChunk) {
		err := inOrder(ctx, arrays(chunk, tx.q.RecordGraphEdges, func(p *queries.RecordGraphEdgesParams, e GraphEdge) {
			p.Tasks = append(p.Tasks, e.Task)
			p.DependsOn = append(p.DependsOn, e.DependsOn)
		}))
		if err != nil {
			return stored, err
		}
	}
	if err := tx.checkLater(ctx, existing(g), check); err != nil {
		return stored, err
	}
	return SubmittedGraph{ID: graph, Tasks: ids}, tx.q.NotifyGraphs(ctx)
}

var errDependencyDeleted = errors.New("a task that it depends on was deleted meanwhile; try again")

// checkLater queues a check of tasks for after the commit. The dependencies are locked
// last, for a moment: listeners wait for those locks.
func (tx *Tx) checkLater(ctx context.Context, dependencies, tasks []int64) error {
	if len(tasks) == 0 {
		return nil
	}
	locked, err := tx.q.LockDependencies(ctx, dependencies)
	if err == nil && len(locked) != len(dependencies) {
		err = errDependencyDeleted
	}
	if err == nil {
		err = tx.q.CheckTasks(ctx, tasks)
	}
	return err
}

// CancelGraph cancels all unsent tasks of a graph, and the retries of those that were
// sent, in the next rounds of the drain. It returns ErrUnknownGraph if there is no such
// graph.
func (s GraphStore) CancelGraph(ctx context.Context, graph int64, now time.Time) error {
	n, err := s.q.CancelGraph(ctx, queries.CancelGraphParams{Graph: graph, At: now})
	if err == nil && n == 0 {
		err = model.ErrUnknownGraph
	}
	if err == nil {
		err = s.q.NotifyGraphs(ctx)
	}
	return failed(err, "cancel graph %d", graph)
}

// retryBatch is how many failed tasks one transaction reopens.
const retryBatch = 1000

// RetryGraph reopens the tasks of a graph that have failed, were cancelled, or missed
// their deadline, which is forgotten; what failed because of one of these will follow.
// It returns the number of tasks, or model.ErrUnknownGraph if there is no such graph.
func (s GraphStore) RetryGraph(ctx context.Context, graph int64) (int, error) {
	n, err := s.q.ReviveGraph(ctx, graph)
	if err == nil && n == 0 {
		err = model.ErrUnknownGraph
	}
	total := 0
	for after := int64(math.MinInt64); err == nil; {
		var ids []int64
		if ids, err = s.retryGraphTasks(ctx, graph, after); len(ids) == 0 {
			break
		}
		total += len(ids)
		after = slices.Max(ids)
	}
	return total, failed(err, "retry graph %d", graph)
}

func (s GraphStore) retryGraphTasks(ctx context.Context, graph, after int64) (ids []int64, err error) {
	err = retryLostRaces(func() error {
		return s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
			if err := tx.q.LockGraphs(ctx); err != nil {
				return err
			}
			ids, err = tx.q.RetryGraphTasks(ctx, queries.RetryGraphTasksParams{Graph: graph, After: after, MaxTasks: retryBatch})
			if err != nil {
				return err
			}
			return tx.q.NotifyGraphs(ctx)
		})
	})
	return ids, err
}

// ReleaseTask lets a waiting task run from now on, whatever it waits for, and
// reports whether it was waiting.
func (s GraphStore) ReleaseTask(ctx context.Context, task int64, now time.Time) (bool, error) {
	n, err := s.q.ReleaseTask(ctx, queries.ReleaseTaskParams{Task: task, At: now})
	if err == nil && n > 0 {
		err = s.q.NotifyGraphs(ctx)
	}
	return err == nil && n > 0, failed(err, "release task %d", task)
}
