package sql

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"swh-scheduler/internal/scheduler"
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
	Arguments scheduler.TaskArguments // nil: none
	Priority  scheduler.TaskPriority
	Retries   *int64 // nil: as many as its type says

	DependsOn []int     // earlier tasks of the graph, or itself, by place in Tasks
	Existing  []int64   // tasks that are there already, by number
	AnyResult bool      // waits until they have ended, not until they are completed
	Deadline  time.Time // never runs if it still waits then; zero: waits for ever
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

// CheckGraph finds out whether a graph could be submitted: its task types and
// existing dependencies are there. Errors are scheduler.ErrUnknownTaskType or a
// *DependencyError.
func (s *Store) CheckGraph(ctx context.Context, g NewGraph) error {
	return s.checkGraph(ctx, g)
}

func (a asker) checkGraph(ctx context.Context, g NewGraph) error {
	rows, err := a.q.TaskTypes(ctx)
	if err != nil {
		return fmt.Errorf("read task types: %w", err)
	}
	known := make(map[string]bool, len(rows))
	for _, row := range rows {
		known[row.Type] = true
	}
	for _, t := range g.Tasks {
		if !known[t.Type] {
			return fmt.Errorf("task %q: %w: %q", t.Name, scheduler.ErrUnknownTaskType, t.Type)
		}
	}
	found, err := a.q.TasksToDependOn(ctx, existing(g))
	if err != nil {
		return fmt.Errorf("look for existing dependencies: %w", err)
	}
	policies := make(map[int64]scheduler.TaskPolicy, len(found))
	for _, row := range found {
		policies[row.ID] = row.Policy
	}
	for _, t := range g.Tasks {
		for _, id := range t.Existing {
			switch policies[id] {
			case scheduler.Oneshot:
			case "":
				return &DependencyError{t.Name, id, "which is not there"}
			default:
				return &DependencyError{t.Name, id, "which is recurring and never ends"}
			}
		}
	}
	return nil
}

// existing are the existing tasks that a graph depends on, by number, once each.
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
func (s *Store) SubmitGraph(ctx context.Context, g NewGraph, now time.Time) (SubmittedGraph, error) {
	var submitted SubmittedGraph
	err := s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		err := tx.checkGraph(ctx, g)
		if err == nil {
			submitted, err = tx.storeGraph(ctx, g, now)
		}
		return err
	})
	if err != nil {
		return SubmittedGraph{}, fmt.Errorf("submit graph: %w", err)
	}
	return submitted, nil
}

func (tx *Tx) storeGraph(ctx context.Context, g NewGraph, now time.Time) (SubmittedGraph, error) {
	graph, err := tx.q.CreateGraph(ctx, queries.CreateGraphParams{Name: g.Name, Submitted: now})
	if err != nil {
		return SubmittedGraph{}, err
	}
	ids, err := tx.q.NextTaskIDs(ctx, int64(len(g.Tasks)))
	if err != nil {
		return SubmittedGraph{}, err
	}
	var edges queries.RecordGraphEdgesParams
	var check []int64 // those that depend on tasks of which it is not known whether they have ended
	place := 0
	for chunk := range slices.Chunk(g.Tasks, submitChunk) {
		create := queries.CreateGraphTasksParams{At: now}
		record := queries.RecordGraphTasksParams{Graph: graph}
		for _, t := range chunk {
			id := ids[place]
			place++
			arguments, err := encodeArguments(t.Arguments)
			if err != nil {
				return SubmittedGraph{}, fmt.Errorf("task %q: %w", t.Name, err)
			}
			watch := int64(0)
			for _, d := range t.DependsOn {
				edges.Tasks, edges.DependsOn = append(edges.Tasks, id), append(edges.DependsOn, ids[d])
				watch = max(watch, ids[d]) // nobody else knows of it yet
			}
			for _, d := range t.Existing {
				edges.Tasks, edges.DependsOn = append(edges.Tasks, id), append(edges.DependsOn, d)
			}
			if len(t.Existing) > 0 {
				check, watch = append(check, id), 0
			}
			retries := int64(-1)
			if t.Retries != nil {
				retries = *t.Retries
			}
			create.Ids = append(create.Ids, id)
			create.Types = append(create.Types, t.Type)
			create.Arguments = append(create.Arguments, string(arguments))
			create.Waits = append(create.Waits, t.dependencies() > 0)
			create.Retries = append(create.Retries, retries)
			create.Priorities = append(create.Priorities, string(t.Priority))
			record.Ids = append(record.Ids, id)
			record.Names = append(record.Names, t.Name)
			record.AnyResult = append(record.AnyResult, t.AnyResult)
			record.Dependencies = append(record.Dependencies, int32(t.dependencies()))
			record.Deadlines = append(record.Deadlines, t.Deadline.UTC())
			record.Watches = append(record.Watches, watch)
		}
		if err := tx.q.CreateGraphTasks(ctx, create); err != nil {
			return SubmittedGraph{}, err
		}
		if err := tx.q.RecordGraphTasks(ctx, record); err != nil {
			return SubmittedGraph{}, err
		}
	}
	for from := 0; from < len(edges.Tasks); from += submitChunk {
		to := min(from+submitChunk, len(edges.Tasks))
		err := tx.q.RecordGraphEdges(ctx, queries.RecordGraphEdgesParams{Tasks: edges.Tasks[from:to], DependsOn: edges.DependsOn[from:to]})
		if err != nil {
			return SubmittedGraph{}, err
		}
	}
	if err := tx.checkLater(ctx, existing(g), check); err != nil {
		return SubmittedGraph{}, err
	}
	return SubmittedGraph{ID: graph, Tasks: ids}, tx.q.NotifyGraphs(ctx)
}

var errDependencyDeleted = errors.New("a task that it depends on was deleted meanwhile; try again")

// checkLater has tasks looked at once they are committed. The dependencies are
// locked last, for a moment: listeners wait for those locks.
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

// CancelGraph has what of a graph has not been sent never run, and what was sent
// not tried again, in some of the next rounds of the drain. It is an error,
// ErrUnknownGraph, if there is no such graph.
func (s *Store) CancelGraph(ctx context.Context, graph int64, now time.Time) error {
	n, err := s.q.CancelGraph(ctx, queries.CancelGraphParams{Graph: graph, At: now})
	if err == nil && n == 0 {
		err = scheduler.ErrUnknownGraph
	}
	if err == nil {
		err = s.q.NotifyGraphs(ctx)
	}
	if err != nil {
		return fmt.Errorf("cancel graph %d: %w", graph, err)
	}
	return nil
}

// retryBatch is how many failed tasks one transaction takes up again.
const retryBatch = 1000

// RetryGraph takes up again what of a graph has failed, was cancelled, or waited
// longer than its deadline, which is forgotten; what failed by one of these will
// follow. It returns how many tasks that were. scheduler.ErrUnknownGraph if there
// is no such graph.
func (s *Store) RetryGraph(ctx context.Context, graph int64) (int, error) {
	n, err := s.q.ReviveGraph(ctx, graph)
	if err == nil && n == 0 {
		err = scheduler.ErrUnknownGraph
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
	if err != nil {
		return total, fmt.Errorf("retry graph %d: %w", graph, err)
	}
	return total, nil
}

func (s *Store) retryGraphTasks(ctx context.Context, graph, after int64) (ids []int64, err error) {
	for range lockTries {
		err = s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
			if err := tx.q.LockGraphs(ctx); err != nil {
				return err
			}
			ids, err = tx.q.RetryGraphTasks(ctx, queries.RetryGraphTasksParams{Graph: graph, After: after, MaxTasks: retryBatch})
			if err != nil {
				return err
			}
			return tx.q.NotifyGraphs(ctx)
		})
		if !lostLockRace(err) {
			break
		}
	}
	return ids, err
}

// ReleaseTask lets a waiting task run from now on, whatever it waits for, and
// says whether it was waiting.
func (s *Store) ReleaseTask(ctx context.Context, task int64, now time.Time) (bool, error) {
	n, err := s.q.ReleaseTask(ctx, queries.ReleaseTaskParams{Task: task, At: now})
	if err == nil && n > 0 {
		err = s.q.NotifyGraphs(ctx)
	}
	if err != nil {
		return false, fmt.Errorf("release task %d: %w", task, err)
	}
	return n > 0, nil
}
