package graphs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
	"swh-scheduler/sql/tasks"
)

// NewGraph is a graph to submit.
type NewGraph struct {
	Name string // may be empty
	Key  Key
	// Tasks are ordered: each follows its dependencies.
	Tasks []NewTask
}

// Key is a client's key for a submission or extension, so that it is stored only once. The zero value is no
// key.
type Key struct {
	Text   string
	Digest []byte // of the request; another request with the same key is an error
}

// NewTask is a task of a graph to submit. It is one-shot.
type NewTask struct {
	Name      string // in its graph
	Type      string
	Arguments model.TaskArguments // nil: none; may have References to the task's dependencies
	Priority  model.TaskPriority
	Retries   *int64 // nil: as its type says

	DependsOn []NewDependency
	AnyResult bool      // without a condition of their own, dependencies must have ended, not be completed
	Deadline  time.Time // a task that still waits then never runs; zero: none
}

// NewDependency is a dependency of a task to submit.
type NewDependency struct {
	Name  string // the name for references in the task's arguments; may be empty
	Task  int64  // number of an existing task; 0: see Place
	Place int    // index in Tasks of an earlier task of the graph, or of the task itself
	On    Condition
}

// Condition is how a dependency must end for the task to run.
type Condition string

// These are the conditions. The empty one means OnCompleted, or OnResolved with NewTask.AnyResult.
const (
	OnCompleted Condition = "completed"
	OnResolved  Condition = "resolved" // any end
	OnFailed    Condition = "failed"
)

// Submitted is a stored graph.
type Submitted struct {
	ID    int64
	Tasks []int64 // numbers, in the order of the call; empty if Known
	Known bool    // it was stored earlier with the same key
}

// MaxDependencies is the maximum number of dependencies of a task.
const MaxDependencies = 10_000

// submitChunk is the number of rows that one statement inserts.
const submitChunk = 20_000

// DependencyError reports that a task cannot depend on an existing one.
type DependencyError struct {
	Task       string // name in the graph
	Dependency int64
	Problem    string
}

func (e *DependencyError) Error() string {
	return fmt.Sprintf("task %q depends on task %d, %s", e.Task, e.Dependency, e.Problem)
}

// Error reports why a graph can't be submitted or extended.
type Error struct{ Problem string }

func (e *Error) Error() string { return e.Problem }

func graphErrorf(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// CheckGraph checks that a graph's task types and existing dependencies exist. It returns
// model.ErrUnknownTaskType or a *DependencyError.
func (a Queries) CheckGraph(ctx context.Context, g NewGraph) error {
	types, err := a.q.TaskTypes(ctx)
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
	return a.checkDependencies(ctx, g.Tasks)
}

// checkDependencies checks that the tasks can depend on their existing dependencies.
func (a Queries) checkDependencies(ctx context.Context, tasks []NewTask) error {
	found, err := a.q.TasksToDependOn(ctx, existing(tasks))
	if err != nil {
		return fmt.Errorf("find existing dependencies: %w", err)
	}
	policies := make(map[int64]model.TaskPolicy, len(found))
	for _, row := range found {
		policies[row.ID] = row.Policy
	}
	for _, t := range tasks {
		for _, d := range t.DependsOn {
			switch {
			case d.Task == 0 || policies[d.Task] == model.Oneshot:
			case policies[d.Task] == "":
				return &DependencyError{t.Name, d.Task, "which is not there"}
			default:
				return &DependencyError{t.Name, d.Task, "which is recurring and never ends"}
			}
		}
	}
	return nil
}

// existing returns the existing tasks that others depend on, sorted, once each.
func existing(tasks []NewTask) []int64 {
	ids := []int64{}
	for _, t := range tasks {
		for _, d := range t.DependsOn {
			if d.Task != 0 {
				ids = append(ids, d.Task)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// SubmitGraph stores a graph, all or nothing. Tasks without dependencies are ready at now. The errors are
// those of CheckGraph, a *Error if another request has the key, and a *postgres.RefusedError.
func (s Store) SubmitGraph(ctx context.Context, g NewGraph, now time.Time) (submitted Submitted, err error) {
	var known *knownGraph
	err = s.inTx(ctx, postgres.Plainly, func(ctx context.Context, tx *Tx) error {
		graph, err := tx.q.CreateGraph(ctx, queries.CreateGraphParams{Name: g.Name, Submitted: now})
		if err == nil {
			err = tx.takeKey(ctx, g.Key, graph)
		}
		if err == nil {
			err = tx.CheckGraph(ctx, g)
		}
		if err == nil {
			submitted, err = tx.storeTasks(ctx, graph, g.Tasks, now)
		}
		if err == nil {
			err = tx.q.NotifyGraphs(ctx)
		}
		return err
	})
	if errors.As(err, &known) {
		submitted, err = Submitted{ID: known.graph, Known: true}, nil
	}
	return submitted, stmt.Failed(postgres.AsRefused(err), "submit graph")
}

// knownGraph is the error for a request that is stored already, under its key.
type knownGraph struct{ graph int64 }

func (k *knownGraph) Error() string { return fmt.Sprintf("the key is that of graph %d", k.graph) }

// takeKey writes a key, if there is one. It returns a *knownGraph if the same request is stored with it.
func (tx *Tx) takeKey(ctx context.Context, key Key, graph int64) error {
	if key.Text == "" {
		return nil
	}
	n, err := tx.q.TakeGraphKey(ctx, queries.TakeGraphKeyParams{Key: key.Text, Graph: graph, Digest: key.Digest})
	if err != nil || n > 0 {
		return err
	}
	before, err := tx.q.GraphKey(ctx, key.Text)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(before.Digest, key.Digest):
		return graphErrorf("the key %q was given before, for something else in graph %d", key.Text, before.Graph)
	}
	return &knownGraph{before.Graph}
}

// storeTasks adds tasks to a graph.
func (tx *Tx) storeTasks(ctx context.Context, graph int64, tasks []NewTask, now time.Time) (stored Submitted, err error) {
	ids, err := tx.q.NextTaskIDs(ctx, int64(len(tasks)))
	if err != nil {
		return stored, err
	}
	var edges []Edge
	var check []int64 // tasks with dependencies that may have ended
	place := 0
	type row struct {
		NewTask
		ID, Retries, Watch int64
		Arguments          string
		Waits              bool
		Dependencies       int
	}
	for chunk := range slices.Chunk(tasks, submitChunk) {
		var rows []row
		for _, t := range chunk {
			id := ids[place]
			place++
			own, watch, outside := t.edges(id, ids)
			edges = append(edges, own...)
			if outside {
				check = append(check, id)
			}
			arguments, err := t.arguments(own)
			if err != nil {
				return stored, fmt.Errorf("task %q: %w", t.Name, err)
			}
			rows = append(rows, row{t, id, *cmp.Or(t.Retries, new(int64(-1))), watch, string(arguments), len(t.DependsOn) > 0, len(t.DependsOn)})
		}
		create, record := stmt.Columns[queries.CreateGraphTasksParams](rows), stmt.Columns[queries.RecordGraphTasksParams](rows)
		create.At, record.Graph = now, graph
		err := tx.q.CreateGraphTasks(ctx, create)
		if err == nil {
			err = tx.q.RecordGraphTasks(ctx, record)
		}
		if err != nil {
			return stored, err
		}
	}
	if err := tx.recordEdges(ctx, edges); err != nil {
		return stored, err
	}
	return Submitted{ID: graph, Tasks: ids}, tx.checkLater(ctx, existing(tasks), check)
}

// edges returns the dependencies of the task with number id, and the one to watch first. outside is whether
// some are outside the graph; these may have ended, so then none is watched. ids are the numbers of the
// graph's tasks.
func (t *NewTask) edges(id int64, ids []int64) (edges []Edge, watch int64, outside bool) {
	for _, d := range t.DependsOn {
		on := d.number(ids)
		outside = outside || d.Task != 0
		edges = append(edges, Edge{Task: id, DependsOn: on, Needs: new(string(d.On))})
		if on != id || len(t.DependsOn) == 1 { // a dependency on itself is watched last
			watch = max(watch, on) // no other transaction sees the task yet
		}
	}
	if outside {
		watch = 0
	}
	return edges, watch, outside
}

// arguments returns the task's arguments with task numbers in place of references. edges are the task's
// dependencies, in their order.
func (t *NewTask) arguments(edges []Edge) ([]byte, error) {
	named := map[string]int64{}
	for i, d := range t.DependsOn {
		named[d.Name] = edges[i].DependsOn
	}
	filled, err := withReferences(t.Arguments, func(name string) int64 { return named[name] })
	if err != nil {
		return nil, err
	}
	return tasks.EncodeArguments(filled)
}

// number returns the number of the dependency's task. ids are the numbers of the graph's tasks.
func (d NewDependency) number(ids []int64) int64 {
	if d.Task != 0 {
		return d.Task
	}
	return ids[d.Place]
}

func (tx *Tx) recordEdges(ctx context.Context, edges []Edge) error {
	for chunk := range slices.Chunk(edges, submitChunk) {
		if err := tx.q.RecordGraphEdges(ctx, stmt.Columns[queries.RecordGraphEdgesParams](chunk)); err != nil {
			return err
		}
	}
	return nil
}

var errDependencyDeleted = errors.New("a task that it depends on was deleted meanwhile; try again")

// checkLater queues checks of tasks, for after the commit. It locks the dependencies last, for a short
// time: listeners wait for these locks.
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

// CancelGraph cancels all unsent tasks of a graph and the retries of sent ones: the first drainGraphTasks
// at once, the others in the next rounds of the drain. It waits for concurrent extensions. It returns
// model.ErrUnknownGraph if there is no such graph.
func (s Store) CancelGraph(ctx context.Context, graph int64, now time.Time) error {
	err := postgres.RetryLostRaces(func() error {
		return s.locked(ctx, func(tx *Tx) error {
			n, err := tx.q.CancelGraph(ctx, queries.CancelGraphParams{Graph: graph, At: now})
			if err == nil && n == 0 {
				err = model.ErrUnknownGraph
			}
			if err == nil {
				_, err = tx.advanceGraph(ctx, graph, math.MinInt64, now)
			}
			if err == nil {
				err = tx.q.NotifyGraphs(ctx)
			}
			return err
		})
	})
	return stmt.Failed(err, "cancel graph %d", graph)
}

// retryBatch is the number of tasks that one statement reopens.
const retryBatch = 1000

// RetryGraph reopens the tasks of a graph that have failed or couldn't run, and deletes their deadlines
// that have passed. It is one transaction: the drain sees all or none of them open. The drain disables
// tasks that still can't run. RetryGraph returns the number of tasks, or model.ErrUnknownGraph.
func (s Store) RetryGraph(ctx context.Context, graph int64, now time.Time) (total int, err error) {
	err = postgres.RetryLostRaces(func() error {
		total = 0
		return s.locked(ctx, func(tx *Tx) error {
			n, err := tx.q.ReviveGraph(ctx, graph)
			if err == nil && n == 0 {
				err = model.ErrUnknownGraph
			}
			for after := int64(math.MinInt64); err == nil; {
				var ids []int64
				ids, err = tx.q.RetryGraphTasks(ctx, queries.RetryGraphTasksParams{Graph: graph, After: after, MaxTasks: retryBatch, At: now})
				if len(ids) == 0 {
					break
				}
				total += len(ids)
				after = slices.Max(ids)
			}
			if err == nil {
				err = tx.q.NotifyGraphs(ctx)
			}
			return err
		})
	})
	return total, stmt.Failed(err, "retry graph %d", graph)
}

// ReleaseTask lets a waiting task run from now on, even with unmet dependencies. It reports whether the
// task was waiting.
func (s Store) ReleaseTask(ctx context.Context, task int64, now time.Time) (bool, error) {
	n, err := s.q.ReleaseTask(ctx, queries.ReleaseTaskParams{Task: task, At: now})
	if err == nil && n > 0 {
		err = s.q.NotifyGraphs(ctx)
	}
	return err == nil && n > 0, stmt.Failed(err, "release task %d", task)
}
