package command

import (
	"context"
	"time"

	"swh-scheduler/internal/taskgraph"
)

// The graphs of a database.

func (d Database) CheckGraph(ctx context.Context, text []byte) (taskgraph.Size, error) {
	return taskgraph.Check(ctx, d.Store, text, time.Now())
}

func (d Database) SubmitGraph(ctx context.Context, text []byte) (taskgraph.Submitted, error) {
	return taskgraph.Submit(ctx, d.Store, text, time.Now())
}

func (d Database) ExtendGraph(ctx context.Context, graph int64, text []byte) (taskgraph.Submitted, error) {
	return taskgraph.Extend(ctx, d.Store, graph, text, time.Now())
}

func (d Database) Graphs(ctx context.Context, limit int) ([]taskgraph.Line, error) {
	return taskgraph.List(ctx, d.Store, limit)
}

func (d Database) Graph(ctx context.Context, graph int64) (taskgraph.Line, error) {
	summary, err := d.Store.Graph(ctx, graph)
	return taskgraph.Line(summary), err
}

func (d Database) GraphReport(ctx context.Context, graph int64) (taskgraph.Report, error) {
	now := time.Now()
	g, err := taskgraph.Read(ctx, d.Store, graph, now)
	return g.Report(now), err
}

func (d Database) DrawGraph(ctx context.Context, graph int64, format string) (string, error) {
	return taskgraph.Picture(ctx, d.Store, graph, format, time.Now())
}

func (d Database) RunningGraphTasks(ctx context.Context, graph int64) ([]int64, error) {
	return taskgraph.Running(ctx, d.Store, graph)
}

func (d Database) CancelGraph(ctx context.Context, graph int64) error {
	return taskgraph.Cancel(ctx, d.Store, graph, time.Now())
}

func (d Database) RetryGraph(ctx context.Context, graph int64) error {
	_, err := taskgraph.Retry(ctx, d.Store, graph, time.Now())
	return err
}

func (d Database) ReleaseTask(ctx context.Context, task int64, force bool) (taskgraph.Released, error) {
	return taskgraph.Release(ctx, d.Store, task, force, time.Now())
}
