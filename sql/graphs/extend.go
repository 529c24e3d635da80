package graphs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// Extension is a set of changes to a graph.
type Extension struct {
	Tasks  []NewTask // as in a NewGraph
	Add    []MoreDependency
	Remove []Edge // between tasks of the graph; Needs is ignored
}

// MoreDependency is a dependency to add to a task of a graph.
type MoreDependency struct {
	Task int64
	On   NewDependency // Place is an index in Extension.Tasks
}

// ExtendGraph adds tasks and dependencies to a graph and removes dependencies, all or nothing. extend gets
// the graph's tasks and returns the changes. Only the dependencies of tasks that wait, or can't run because
// of others, can change. The errors are those of SubmitGraph and model.ErrUnknownGraph.
func (s Store) ExtendGraph(ctx context.Context, graph int64, key Key, extend func([]Task) (Extension, error), now time.Time) (stored Submitted, err error) {
	var known *knownGraph
	err = postgres.RetryLostRaces(func() error {
		return s.locked(ctx, func(tx *Tx) error {
			summary, err := tx.GraphHead(ctx, graph)
			if err == nil {
				err = tx.takeKey(ctx, key, graph)
			}
			if err == nil && summary.Cancelled != nil {
				err = graphErrorf("graph %d is cancelled", graph)
			}
			var tasks []Task
			if err == nil {
				tasks, err = tx.GraphTasks(ctx, graph)
			}
			var e Extension
			if err == nil {
				e, err = extend(tasks)
			}
			if err == nil {
				stored, err = tx.extendGraph(ctx, graph, e, now)
			}
			return err
		})
	})
	if errors.As(err, &known) {
		stored, err = Submitted{ID: known.graph, Known: true}, nil
		if known.graph != graph {
			err = graphErrorf("the key was given before, for graph %d", known.graph)
		}
	}
	return stored, stmt.Failed(postgres.AsRefused(err), "extend graph %d", graph)
}

// extendGraph stores an extension. The caller holds the lock of graphs.
func (tx *Tx) extendGraph(ctx context.Context, graph int64, e Extension, now time.Time) (stored Submitted, err error) {
	if err := tx.CheckGraph(ctx, NewGraph{Tasks: e.Tasks}); err != nil {
		return stored, err
	}
	changed, err := tx.lockChanged(ctx, e)
	if err != nil {
		return stored, err
	}
	if err := tx.removeDependencies(ctx, e, changed); err != nil {
		return stored, err
	}
	if stored, err = tx.storeTasks(ctx, graph, e.Tasks, now); err != nil {
		return stored, err
	}
	var edges []Edge
	for _, a := range e.Add {
		edges = append(edges, Edge{Task: a.Task, DependsOn: a.On.number(stored.Tasks), Needs: new(string(a.On.On))})
	}
	if err := tx.recordEdges(ctx, edges); err != nil {
		return stored, err
	}
	ids := slices.Sorted(maps.Keys(changed))
	if err := tx.checkNoCircle(ctx, ids, changed); err != nil {
		return stored, err
	}
	if err := tx.checkLater(ctx, existing(dependents(e, changed)), ids); err != nil {
		return stored, err
	}
	return stored, tx.q.NotifyGraphs(ctx)
}

// lockChanged locks the tasks whose dependencies change, and returns them by number.
func (tx *Tx) lockChanged(ctx context.Context, e Extension) (map[int64]Task, error) {
	changed := make(map[int64]Task)
	for _, a := range e.Add {
		changed[a.Task] = Task{}
	}
	for _, r := range e.Remove {
		changed[r.Task] = Task{}
	}
	ids := slices.Sorted(maps.Keys(changed))
	if err := tx.q.LockGraphTasks(ctx, ids); err != nil {
		return nil, err
	}
	rows, err := tx.q.GraphTasksOf(ctx, ids)
	for _, r := range rows {
		t := Task(r)
		changed[t.ID] = t
		if t.State != model.GraphWaiting && t.State != model.GraphByDependency && t.State != model.GraphSkipped {
			return nil, graphErrorf("task %q is in the state %s: dependencies can be added or removed only if a task waits, or can't run because of others", t.Name, t.State)
		}
	}
	if err != nil {
		return nil, err
	}
	return changed, tx.checkDependencies(ctx, dependents(e, changed))
}

// dependents returns the tasks that get dependencies, each with the new ones only.
func dependents(e Extension, changed map[int64]Task) (tasks []NewTask) {
	for _, a := range e.Add {
		tasks = append(tasks, NewTask{Name: changed[a.Task].Name, DependsOn: []NewDependency{a.On}})
	}
	return tasks
}

// removeDependencies deletes dependencies. It updates the tasks' counts of dependencies for these and for
// the added ones.
func (tx *Tx) removeDependencies(ctx context.Context, e Extension, changed map[int64]Task) error {
	rows, err := tx.q.DependenciesOf(ctx, slices.Sorted(maps.Keys(changed)))
	if err != nil {
		return err
	}
	has := make(map[[2]int64]bool, len(rows))
	for _, r := range rows {
		has[[2]int64{r.Task, r.DependsOn}] = true
	}
	var p queries.ChangeDependenciesParams
	more := make(map[int64]int)
	for _, r := range e.Remove {
		edge := [2]int64{r.Task, r.DependsOn}
		if !has[edge] {
			return graphErrorf("task %q doesn't depend on task %d", changed[r.Task].Name, r.DependsOn)
		}
		delete(has, edge)
		more[r.Task]--
		p.RemoveOf, p.Remove = append(p.RemoveOf, r.Task), append(p.Remove, r.DependsOn)
	}
	for _, a := range e.Add {
		if has[[2]int64{a.Task, a.On.Task}] {
			return graphErrorf("task %q depends on task %d already", changed[a.Task].Name, a.On.Task)
		}
		more[a.Task]++
	}
	for id, t := range changed {
		if n := int(t.Dependencies) + more[id]; n > MaxDependencies {
			return graphErrorf("task %q would have %d dependencies, and may have %d", t.Name, n, MaxDependencies)
		}
		p.Tasks, p.More = append(p.Tasks, id), append(p.More, int32(more[id]))
	}
	return tx.q.ChangeDependencies(ctx, p)
}

// checkNoCircle returns an error if one of the tasks depends on itself, directly or through others.
func (tx *Tx) checkNoCircle(ctx context.Context, ids []int64, changed map[int64]Task) error {
	edges, err := tx.q.EdgesBelow(ctx, ids)
	if err != nil {
		return err
	}
	left := make(map[int64]int) // dependencies not yet known to precede the task
	dependents := make(map[int64][]int64)
	for _, e := range edges {
		left[e.Task]++
		left[e.DependsOn] += 0
		dependents[e.DependsOn] = append(dependents[e.DependsOn], e.Task)
	}
	var free []int64
	for id, n := range left {
		if n == 0 {
			free = append(free, id)
		}
	}
	for len(free) > 0 {
		id := free[len(free)-1]
		free = free[:len(free)-1]
		delete(left, id)
		for _, d := range dependents[id] {
			if left[d]--; left[d] == 0 {
				free = append(free, d)
			}
		}
	}
	for _, id := range ids {
		if left[id] > 0 {
			return graphErrorf("task %q would wait for itself, by way of others", changed[id].Name)
		}
	}
	return nil
}
