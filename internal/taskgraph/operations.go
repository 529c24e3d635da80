package taskgraph

import (
	"context"
	"fmt"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/graphs"
)

// This file has the operations of the commands and the RPC server. They return model.ErrUnknownGraph for an unknown
// graph.

// RefusedError says why a graph's text is invalid, or why a task can't be released.
type RefusedError struct{ Reason error }

func (e *RefusedError) Error() string { return e.Reason.Error() }
func (e *RefusedError) Unwrap() error { return e.Reason }

// Submitted is a graph that was stored.
type Submitted struct {
	Graph int64            `json:"graph"`
	Tasks map[string]int64 `json:"tasks"` // their numbers by name
	Size  Size             `json:"size"`
	// Known says that a graph with the same key and text was stored before. The size of an extension is 0 then.
	Known bool `json:"known"`
}

// Check checks a graph as Submit does, but stores nothing.
func Check(ctx context.Context, store *db.Store, text []byte, now time.Time) (Size, error) {
	g, err := Parse(text, now)
	if err != nil {
		return Size{}, &RefusedError{err}
	}
	return sizeOf(g.Tasks), store.CheckGraph(ctx, g)
}

// Submit stores a graph, all or nothing, unless a graph with its key is already stored.
func Submit(ctx context.Context, store *db.Store, text []byte, now time.Time) (s Submitted, err error) {
	g, err := Parse(text, now)
	if err != nil {
		return s, &RefusedError{err}
	}
	stored, err := store.SubmitGraph(ctx, g, now)
	if err != nil {
		return s, err
	}
	return submitted(ctx, store, stored, g.Tasks)
}

// submitted returns the numbers of the stored tasks, or of all tasks of a graph that was stored before.
func submitted(ctx context.Context, store *db.Store, stored graphs.Submitted, tasks []graphs.NewTask) (Submitted, error) {
	s := Submitted{Graph: stored.ID, Tasks: make(map[string]int64), Size: sizeOf(tasks), Known: stored.Known}
	for i, id := range stored.Tasks {
		s.Tasks[tasks[i].Name] = id
	}
	if !stored.Known {
		return s, nil
	}
	all, err := store.GraphTasks(ctx, stored.ID)
	for _, t := range all {
		s.Tasks[t.Name] = t.ID
	}
	return s, err
}

// List returns the newest graphs.
func List(ctx context.Context, store *db.Store, limit int) ([]Line, error) {
	graphs, err := store.Graphs(ctx, limit)
	lines := make([]Line, len(graphs))
	for i, g := range graphs {
		lines[i] = Line(g)
	}
	return lines, err
}

// Picture draws a graph in the format dot or svg.
func Picture(ctx context.Context, store *db.Store, graph int64, format string, now time.Time) (string, error) {
	g, err := Read(ctx, store, graph, now)
	switch {
	case err != nil:
		return "", err
	case format == "svg":
		return g.Draw().SVG(nil), nil
	}
	return g.Draw().DOT(), nil
}

// Running returns the tasks of a graph that were sent and have no known end.
func Running(ctx context.Context, store *db.Store, graph int64) (running []int64, err error) {
	tasks, err := store.GraphTasks(ctx, graph)
	for _, t := range tasks {
		if t.State.WithWorkers() {
			running = append(running, t.ID)
		}
	}
	return running, err
}

// Cancel cancels all unsent tasks of a graph and settles graphs.
func Cancel(ctx context.Context, store *db.Store, graph int64, now time.Time) error {
	if err := store.CancelGraph(ctx, graph, now); err != nil {
		return err
	}
	return Settle(ctx, store, graph)
}

// Retry retries the failed tasks of a graph and the tasks that couldn't run because of them, and settles graphs. It
// returns their number.
func Retry(ctx context.Context, store *db.Store, graph int64, now time.Time) (int, error) {
	n, err := store.RetryGraph(ctx, graph, now)
	if err != nil {
		return 0, err
	}
	return n, Settle(ctx, store, graph)
}

type Released struct {
	Task  int64  `json:"task"`
	Graph int64  `json:"graph"`
	Name  string `json:"name"`
}

// Release releases a waiting task. Without force, it refuses a task that still waits for other tasks.
func Release(ctx context.Context, store *db.Store, task int64, force bool, now time.Time) (r Released, err error) {
	refused := func(format string, args ...any) (Released, error) {
		return Released{}, &RefusedError{fmt.Errorf(format, args...)}
	}
	place, err := store.GraphTask(ctx, task)
	switch {
	case err != nil:
		return r, err
	case place == nil:
		return refused("task %d is in no graph", task)
	case place.State != model.GraphWaiting:
		return refused("task %d (%s) is not waiting: its state is %s", task, place.Name, place.State)
	}
	if !force {
		others, err := waitsFor(ctx, store, task)
		if err != nil {
			return r, err
		}
		if len(others) > 0 {
			return refused(`task %d still waits for %s ("swh-scheduler task graph release --force %[1]d" releases it all the same)`, task, enumerate(others, len(others)))
		}
	}
	released, err := store.ReleaseTask(ctx, task, now)
	if err == nil && !released {
		return refused("task %d is not waiting", task)
	}
	return Released{task, place.Graph, place.Name}, err
}

// waitsFor names the other tasks that a task waits for.
func waitsFor(ctx context.Context, store *db.Store, task int64) (others []string, err error) {
	unmet, err := store.UnmetDependencies(ctx, task, graphs.MaxDependencies)
	for _, d := range unmet {
		if d.ID != task {
			others = append(others, describeDependency(d))
		}
	}
	return others, err
}
